"""A tree as the stream of one tar or zip file, made while it is read.

Memory grows with the number of members, by what describes each; never with what they hold.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Literal

from attrs import define, frozen

from sandbox_kit.answers import is_answer
from sandbox_kit.calls import Call
from sandbox_kit.errors import (
    ArchiveError,
    NotRegularFileError,
    PathError,
    PathEscapeError,
    PermissionDeniedError,
    SandboxConflictError,
    printable,
)
from sandbox_kit.paths import display, join, normalise
from sandbox_kit.primitives import Operations
from sandbox_kit.streams import CHUNK

if TYPE_CHECKING:
    from sandbox_kit.contract import Backend

__all__ = ["FORMATS", "NOT_THIS_ONE", "Denied", "Export", "LeftOut", "Member", "Source", "refusing_special"]

Denied = Literal["error", "skip"]
_READ: Operations = ("read",)
NOT_THIS_ONE = (PathError, PathEscapeError, PermissionDeniedError, SandboxConflictError)
"""What an entry that a walk met may answer later on: it is closed, gone, or another one by now."""


@frozen
class Member:
    """One entry of a tree: *name* is relative to the tree, *target* what a link holds."""

    name: str
    is_dir: bool
    mode: int
    size: int = 0
    mtime: float = 0.0
    target: str | None = None


@define
class LeftOut:
    """How many entries an export has left out so far."""

    count: int = 0


class Export(io.BufferedReader):
    """An archive as a readable binary file.

    Args:
        pieces: what it holds; closing the file closes them.
        left_out: what *pieces* counts in.
    """

    def __init__(self, pieces: Generator[bytes, None, None], left_out: LeftOut) -> None:
        super().__init__(_Pieces(pieces), CHUNK)
        self._left_out = left_out

    @property
    def denied(self) -> int:
        """How many entries were left out: what rules hide at once, the rest as it is met; whole at the end."""
        return self._left_out.count


class _Pieces(io.RawIOBase):
    """A raw file over a generator of pieces, which closing it ends."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._pieces.close()
        super().close()


@contextmanager
def refusing_special() -> Iterator[None]:
    """Name what a tree cannot hold: a member that is no regular file when it is opened."""
    try:
        yield
    except NotRegularFileError as error:
        if is_answer(error):
            raise
        raise ArchiveError(f"{printable(error.path)}: a special file cannot be copied") from error


@frozen
class Source:
    """Where the content of members comes from.

    Attributes:
        backend: holds the tree.
        path: what the names of members are relative to.
        denied: whether a member that cannot be opened ends the export, or is left out.
        left_out: counts those.
        call: what it is a part of.
    """

    backend: Backend
    path: str
    denied: Denied
    left_out: LeftOut
    call: Call

    def path_of(self, member: Member) -> str:
        """Return the path of a member as results show it."""
        path = join(self.path, member.name)
        return display(path, self.backend.work_dir) if path == normalise(path) else path

    def leave_out(self, error: Exception) -> None:
        """Count a member that is left out.

        Raises:
            Exception: *error*, where nothing may be.
        """
        if self.denied == "error":
            raise error
        self.left_out.count += 1

    def open(self, member: Member) -> BinaryIO | None:
        """Open a file of the tree; None where it is to be left out.

        Raises:
            ArchiveError: it is a special file.
        """
        try:
            with refusing_special():
                return self.backend._open_read(self.path_of(member), operations=_READ, authorize=self.call)
        except (ArchiveError, *NOT_THIS_ONE) as error:
            if is_answer(error):
                raise
            self.leave_out(error)
            return None

    def content(self, stream: BinaryIO, member: Member) -> Generator[bytes, None, None]:
        """Yield exactly as many bytes of a file as its member tells.

        Raises:
            ArchiveError: the file has fewer by now.
        """
        left = member.size
        while left and (chunk := stream.read(min(left, CHUNK))):
            left -= len(chunk)
            yield chunk
        if left:
            raise ArchiveError(f"{printable(self.path_of(member))}: the file became shorter while it was copied")


def _tar(source: Source, members: list[Member]) -> Generator[bytes, None, None]:
    written = 0
    for member in members:
        if member.is_dir or member.target is not None:
            header = _tar_header(member)
            yield header
            written += len(header)
        elif (stream := source.open(member)) is not None:
            with stream:
                header, padding = _tar_header(member), -member.size % tarfile.BLOCKSIZE
                yield header
                yield from source.content(stream, member)
                yield bytes(padding)
            written += len(header) + member.size + padding
    end = written + 2 * tarfile.BLOCKSIZE
    yield bytes(-(-end // tarfile.RECORDSIZE) * tarfile.RECORDSIZE - written)


def _tar_header(member: Member) -> bytes:
    info = tarfile.TarInfo(member.name)
    info.mode, info.mtime = member.mode & 0o777, member.mtime
    info.pax_headers = {"mtime": f"{member.mtime:.9f}"}  # by itself tarfile may write an exponent, which tar misreads
    if member.is_dir:
        info.type = tarfile.DIRTYPE
    elif member.target is not None:
        info.type, info.linkname = tarfile.SYMTYPE, member.target
    else:
        info.size = member.size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _zip(source: Source, members: list[Member]) -> Generator[bytes, None, None]:
    from sandbox_kit.zipping import ZipStream, check_name

    archive = ZipStream()
    for member in members:
        try:
            check_name(f"{member.name}/" if member.is_dir else member.name)
        except ArchiveError as error:
            source.leave_out(error)
            continue
        if member.target is not None:
            yield archive.link(member.name, member.target, member.mtime)
        elif member.is_dir:
            yield archive.directory(member.name, member.mode & 0o777, member.mtime)
        elif (stream := source.open(member)) is not None:
            with stream:
                content = source.content(stream, member)
                yield from archive.file(member.name, member.mode & 0o777, member.mtime, member.size, content)
    yield archive.end()


FORMATS: dict[str, Callable[[Source, list[Member]], Generator[bytes, None, None]]] = {"tar": _tar, "zip": _zip}
"""By name of the format: yields the pieces of an archive of members."""
