"""The conformance suite, for anyone who writes a backend. It needs pytest, which the extra ``test`` brings.

Subclass one of them in a test module, say how to make the backend, and run pytest::

    from sandbox_kit.testing import BackendConformance

    class TestMyBackend(BackendConformance):
        def make_backend(self, tmp_path):
            return MyBackend(tmp_path, max_read_bytes=self.max_read_bytes)

:class:`BackendConformance` is files, :class:`SandboxConformance` adds commands and a life, and
:class:`HostFilesConformance`, mixed in, adds what the host can plant in a directory of its own;
it asks where that is::

    class TestMyBackend(HostFilesConformance, BackendConformance):
        def make_backend(self, tmp_path): ...

        def host_path(self, backend, path):
            return Path(backend.work_dir, path)

:class:`ArchiveConformance` is the files of sessions, read-only; it asks for an archive, and where the
files of a session are. A class named ``Test...`` that leaves one of these methods out is refused with a
TypeError. A backend whose capabilities lack something must say so with ``UnsupportedError``: that is
tested, not skipped.
Override the fixture ``backend`` where making one takes more than a call.
"""

from sandbox_kit.errors import MissingDependencyError

try:
    import pytest
except ImportError as error:
    raise MissingDependencyError(
        "the conformance suite needs pytest: pip install 'sandbox-kit[test]'", "test"
    ) from error

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "archived",
            "archives",
            "base",
            "cancelling",
            "commands",
            "globbing",
            "grepping",
            "host",
            "judging",
            "life",
            "names",
            "processes",
            "reading",
            "replacing",
            "sharing",
            "transfers",
            "trees",
            "writing",
        )
    )
)

from sandbox_kit.testing.archives import ArchiveConformance  # noqa: E402
from sandbox_kit.testing.host import HostFilesConformance  # noqa: E402
from sandbox_kit.testing.suite import BackendConformance, SandboxConformance  # noqa: E402

__all__ = ["ArchiveConformance", "BackendConformance", "HostFilesConformance", "SandboxConformance"]
