"""What every part of the suite stands on: the backend under test, and looks at all of it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from attrs import frozen

from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.primitives import Operations, allow
from sandbox_kit.types import FileInfo, Identity, Operation

__all__ = ["Collected", "Conformance", "Question", "Recorder", "fill", "paths", "snapshot"]

LOOK: Operations = ("read",)


def _is_abstract(member: object) -> bool:
    return bool(getattr(member, "__isabstractmethod__", False))


class Collected:
    """A suite to subclass.

    A subclass that pytest is to collect, one whose name starts with ``Test``, must say all that
    the suite asks of it; others, and one with ``__test__ = False``, may leave that to their own subclasses.
    """

    def __init_subclass__(cls, **options: object) -> None:
        """Refuse a class that pytest would pass by without a word, since something is missing in it.

        Raises:
            TypeError: names what is missing.
        """
        super().__init_subclass__(**options)
        missing = [name for name, _ in inspect.getmembers(cls, _is_abstract)]
        if missing and cls.__name__.startswith("Test") and getattr(cls, "__test__", True):
            raise TypeError(f"{cls.__qualname__} lacks {' and '.join(missing)}: none of its tests would run")


class Conformance(Collected, ABC):
    """The fixtures that every test of a backend uses.

    Attributes:
        max_read_bytes: build the backend with it.
        undecodable_names: whether the file system takes names that are no UTF-8.
        hang_guard: no single step of a test may take longer, in seconds.
    """

    max_read_bytes: int = 2**20
    undecodable_names: bool = True
    hang_guard: float = 20.0

    @abstractmethod
    def make_backend(self, tmp_path: Path) -> Backend:
        """Return a new backend with an empty work directory; *tmp_path* is a free directory of the host."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        """The backend under test; a sandbox is started, and stopped with all that it made."""
        made = self.make_backend(tmp_path)
        if not isinstance(made, Sandbox):
            yield made
            return
        made.start()
        try:
            yield made
        finally:
            made.stop(purge=True)

    @pytest.fixture
    def host(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A directory of the host that the backend knows nothing of."""
        return tmp_path_factory.mktemp("host")


def fill(backend: Backend, files: Mapping[str, str] | Mapping[str, str | bytes]) -> None:
    """Write *files*, content by path."""
    for path, content in files.items():
        backend.write(path, content)


def paths(entries: Iterable[FileInfo]) -> list[str]:
    """Return the path of each entry, in order."""
    return [entry.path for entry in entries]


def snapshot(backend: Backend) -> dict[str, tuple[int, bytes | str | None]]:
    """Return mode and content of everything beneath the work directory; None is the content of a directory."""
    return {
        entry.path: (entry.mode, _content(backend, entry))
        for entry in backend._scandir(".", operations=LOOK, authorize=allow, depth=None)
        if isinstance(entry, FileInfo)
    }


def _content(backend: Backend, entry: FileInfo) -> bytes | str | None:
    if entry.is_symlink:
        return backend._readlink(entry.path, operations=LOOK, authorize=allow)
    return None if entry.is_dir else backend.read_bytes(entry.path)


@frozen
class Question:
    """One call of authorize."""

    operation: Operation
    names: tuple[str, ...]
    identity: Identity | None
    found: bool
    hop: bool


class Recorder:
    """An authorize that keeps its questions.

    Args:
        refuse_at: the question to refuse, from 0; None allows all.
        refuse: refuse each question for this last component.
        hide: last components that are refused where they are met in a walk.
    """

    def __init__(self, refuse_at: int | None = None, refuse: str | None = None, hide: Iterable[str] = ()) -> None:
        self.questions: list[Question] = []
        self._refuse_at = refuse_at
        self._refuse = refuse
        self._hide = frozenset(hide)

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        self.questions.append(Question(operation, names, identity, found, hop))
        if len(self.questions) - 1 == self._refuse_at or names[0].rpartition("/")[2] == self._refuse:
            if found:
                return False
            raise PermissionDeniedError(operation, names[0], "deny by the test")
        return not (found and any(name.rpartition("/")[2] in self._hide for name in names))
