"""VolumeArchive: the files of sandboxes in volumes of a Docker engine, with nothing running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import NoReturn

from sandbox_kit.arguments import check_ruleset, check_string
from sandbox_kit.contract import Backend
from sandbox_kit.errors import InvalidArgumentError, PathNotFoundError, UnsupportedError
from sandbox_kit.guard import guarding
from sandbox_kit.paths import SandboxPath, normalise
from sandbox_kit.registry import backend_class
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.archive import seconds_since
from sandbox_kit.sessions.files_archive import FilesArchive, tree
from sandbox_kit.sessions.ids import check_session_id, is_session_id
from sandbox_kit.types import parse_size

__all__ = ["VolumeArchive"]


class VolumeArchive(FilesArchive):
    """The files in volumes of the engine that ``DOCKER_HOST`` names, here or on another machine; nothing is run.

    Each call makes a container of an empty image that has the volume mounted, read-only, and is never started, and
    removes it. The engine streams a tree whole: listing one costs as much as reading it. Times in
    lists are whole seconds. A link that holds an absolute name leads outside, unless that is beneath *work_dir*.

    Beside what every archive leaves out, no socket is listed. A process that uses the volume meanwhile, and
    exchanges directories and links there, may have a read give what rules deny; never a file from outside.

    Args:
        volumes: the names of volumes, by session id. None is every volume that a sandbox made for
            itself, as one without a *workspace* does, by the sandbox's id.
        labels: of these, only those of sandboxes that were given all these labels.
        work_dir: where the volumes were mounted.
        max_read_bytes: the most bytes that read and read_bytes take in; bytes, or as ``"50m"``.
        ruleset: what may be read and listed; what a rule would ask about is refused.

    Raises:
        InvalidArgumentError: *volumes* or *labels* is no such mapping, *work_dir* no absolute path, *max_read_bytes* no
            size, *ruleset* no ruleset.
        MissingDependencyError: the ``docker`` extra is not installed.
    """

    def __init__(
        self,
        volumes: Mapping[str, str] | None = None,
        *,
        labels: Mapping[str, str] = MappingProxyType({}),
        work_dir: str = "/workspace",
        max_read_bytes: int | str = Backend.max_read_bytes,
        ruleset: PermissionRuleset | None = None,
    ) -> None:
        check_ruleset(ruleset)
        backend_class("docker")
        self._volumes = None if volumes is None else _texts(volumes, "volumes")
        for session_id in self._volumes or ():
            check_session_id(session_id)
        self._labels = _texts(labels, "labels")
        self._work_dir = normalise(check_string(work_dir, "work_dir"))
        if not work_dir.startswith("/") or self._work_dir == "/":
            raise InvalidArgumentError(f"work_dir: {work_dir!r} is not an absolute path of a directory beneath /")
        self.max_read_bytes = parse_size(max_read_bytes, "max_read_bytes")
        self._ruleset = ruleset

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._volumes!r})"

    def sessions(self) -> list[str]:
        from sandbox_kit.backends.docker.engine import connect
        from sandbox_kit.backends.docker.volumes import has_volume, sandbox_volumes

        engine = connect()
        if self._volumes is None:
            return sorted(filter(is_session_id, sandbox_volumes(engine, self._labels)))
        return sorted(session_id for session_id, name in self._volumes.items() if has_volume(engine, name))

    def changes(self, session_id: str, since: float | datetime, path: SandboxPath = ".") -> NoReturn:
        """Refuse: the engine tells no time of a change that a program cannot set back.

        Raises:
            UnsupportedError: always, where the arguments are right.
        """
        seconds_since(since)
        with self._opened(session_id, path) as (typed, _, files):
            tree(files, typed).close()
        raise UnsupportedError("changes: the engine does not tell when the files of a volume changed")

    @contextmanager
    def _files(self, session_id: str, *, whole: bool = False) -> Iterator[tuple[Backend, Backend]]:
        from sandbox_kit.backends.docker.engine import connect
        from sandbox_kit.backends.docker.volume_files import VolumeFiles
        from sandbox_kit.backends.docker.volumes import Volume, has_volume, volume_name

        engine = connect()
        own = self._volumes is None
        name = volume_name(session_id) if self._volumes is None else self._volumes.get(session_id)
        if name is None or not has_volume(engine, name, session_id if own else None):
            raise PathNotFoundError(session_id, "no session of that id has a volume")
        with closing(Volume(engine, name, self._work_dir)) as volume:
            files = VolumeFiles(volume, whole=whole)
            yield files, guarding(files, self._ruleset, ask_fallback="deny")


def _texts(value: Mapping[str, str], name: str) -> dict[str, str]:
    pairs = value.items() if isinstance(value, Mapping) else [("", "")]
    if not all(isinstance(text, str) and text for pair in pairs for text in pair):
        raise InvalidArgumentError(f"{name}: {value!r} is not a mapping of texts to texts")
    return dict(value)
