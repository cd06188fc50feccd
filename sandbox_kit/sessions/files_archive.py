"""An archive over a backend for each session: what all archives of files have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import BinaryIO, Literal

from sandbox_kit.archives import Archive, Entries
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PathEscapeError, PathNotDirectoryError, SandboxError
from sandbox_kit.exports import Export
from sandbox_kit.paths import SandboxPath, check_path
from sandbox_kit.primitives import Entry, Operations, allow
from sandbox_kit.sessions.ids import check_session_id
from sandbox_kit.types import FileInfo, Listing, Skipped

__all__ = ["FilesArchive", "ending", "shown", "tree"]

_LOOK: Operations = ("ls",)
_Found = FileInfo | Skipped


class FilesArchive(Archive):
    """Reads by backends that hold the files of one session each: a bare one, and one under the rules."""

    @abstractmethod
    def _files(self, session_id: str, *, whole: bool = False) -> AbstractContextManager[tuple[Backend, Backend]]:
        """Open the files of a session, without and with the rules; what was opened of them stays so after the block.

        Args:
            session_id: checked before.
            whole: everything is going to be read.
        """

    @contextmanager
    def _opened(
        self, session_id: str, path: SandboxPath, *, whole: bool = False
    ) -> Iterator[tuple[str, Backend, Backend]]:
        """Yield the path as typed, and the session's files without and with the rules."""
        session_id, typed = check_session_id(session_id), check_path(path)
        if typed.startswith("/"):
            raise PathEscapeError(typed, "is absolute: paths in an archive are relative to the workspace")
        with self._files(session_id, whole=whole) as (bare, files):
            yield typed, bare, files

    def ls(self, session_id: str, path: SandboxPath = ".") -> Listing:
        with self._opened(session_id, path) as (typed, bare, files):
            found = files.ls(typed)
            return Listing((info for info in found if not leads_outside(bare, info)), found.skipped)

    def walk(self, session_id: str, path: SandboxPath = ".") -> Entries:
        with ExitStack() as open_still:
            typed, bare, files = open_still.enter_context(self._opened(session_id, path))
            found = shown(bare, tree(files, typed))
            return Entries(ending(found, open_still.pop_all()))

    def stat(self, session_id: str, path: SandboxPath) -> FileInfo:
        with self._opened(session_id, path) as (typed, bare, files):
            info = files.stat(typed)
            if leads_outside(bare, info):
                raise PathEscapeError(typed)
            return info

    def open_read(self, session_id: str, path: SandboxPath) -> BinaryIO:
        with self._opened(session_id, path) as (typed, _, files):
            return files.open_read(typed)

    def export(
        self,
        session_id: str,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "zip"] = "tar",
        denied: Literal["error", "skip"] = "error",
    ) -> Export:
        with self._opened(session_id, path, whole=True) as (typed, _, files):
            return files.export(typed, format=format, denied=denied)


def ending(found: Generator[_Found, None, None], stack: ExitStack) -> Generator[_Found, None, None]:
    """Yield what is found, and close *stack* at the end."""
    with stack, closing(found):
        yield from found


def leads_outside(files: Backend, info: FileInfo) -> bool:
    """Return whether an entry is a link that leads out of the workspace, whatever is there."""
    if not info.is_symlink:
        return False
    try:
        files._resolve((info.path,), operations=_LOOK, authorize=allow)
    except PathEscapeError:
        return True
    except SandboxError:
        return False
    return False


def tree(files: Backend, path: str) -> Generator[Entry, None, None]:
    """Walk what is beneath *path*, or give the file itself; judged at the call."""
    try:
        return files._scandir(path, operations=_LOOK, authorize=allow, depth=None)
    except PathNotDirectoryError:
        return _only(files.stat(path))


def _only(info: FileInfo) -> Generator[Entry, None, None]:
    yield info


def shown(files: Backend, entries: Generator[Entry, None, None]) -> Generator[FileInfo | Skipped, None, None]:
    """Yield what a walk met, without what a rule hides and links that lead outside."""
    with closing(entries):
        for entry in entries:
            if isinstance(entry, Skipped) or (entry is not None and not leads_outside(files, entry)):
                yield entry
