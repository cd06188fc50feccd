"""Changes to a pinned place: atomic writes, new directories."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from sandbox_kit.errors import SandboxConflictError, printable
from sandbox_kit.host.pin import Spot, lookup, of_its_kind
from sandbox_kit.host.system import Descriptor, rename_noreplace, told_of
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW, Trail
from sandbox_kit.host.unfinished import new_name
from sandbox_kit.streams import CHUNK

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["make_directories", "set_mode", "writing"]

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | NOFOLLOW
_NAMELESS = os.O_RDWR | os.O_CLOEXEC | os.O_TMPFILE if sys.platform == "linux" else 0
_NEEDS_NAME = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS, errno.EXDEV)
_SPOOL = 8 * 2**20


@contextmanager
def writing(spot: Spot, path: str, mode: int | None, *, strict: bool = False) -> Generator[BinaryIO, None, None]:
    """Give a file to write to; when the block ends well, its content is what *spot* holds.

    A new file takes its place in one step. Where that cannot be (a hard link would part, a
    mount point stays put, the directory is not writable, the owner would change) the bytes
    are collected first and then written in place. After an error the directories that were
    made for it are gone again, unless something else is in them by then.

    Args:
        mode: what the file has in the end; None for the mode that it had.
        strict: whether no other file than that of *spot* may be replaced. Where nothing was, the system
            sees to that; a file that was there is compared right before the system call that replaces it.

    Raises:
        PathError: of the kind that the system tells; the file is then as it was.
        SandboxConflictError: something else took the place of the file, or of its new content.
    """
    parent, made = make_directories(spot, spot.rest[:-1], path)
    try:
        with told_of(path):
            fresh = None if _shared(spot) else _Fresh.beside(spot, parent, path, mode)
        if fresh is None:
            with tempfile.SpooledTemporaryFile(_SPOOL) as spooled:
                spool = cast(BinaryIO, spooled)
                yield spool
                with told_of(path):
                    _overwrite(parent, spot, spool, path, mode)
        else:
            with fresh:
                with io.BufferedWriter(_File(fresh.fd, path), CHUNK) as out:
                    yield out
                with told_of(path):
                    fresh.install(mode, strict)
    except BaseException:
        _unmake(spot, made)
        raise


class _File(io.FileIO):
    """A file whose failing writes name *path*, to be told from failures of what is copied into it."""

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd, "wb", closefd=False)
        self._path = path

    def write(self, data: ReadableBuffer, /) -> int:
        with told_of(self._path):
            return super().write(data)


def _shared(spot: Spot) -> bool:
    return spot.info is not None and spot.info.st_nlink > 1


class _Fresh(Descriptor):
    """A new file for a place, without a name until it is complete where the file system can do that.

    Whoever else may write to the directory can put something else under its name at any time;
    so its mode and bytes are reached by the descriptor, and the name is moved or removed only
    while it is this file's.
    """

    __slots__ = ("_name", "_parent", "_path", "_spot")

    def __init__(self, spot: Spot, parent: Descriptor, path: str, permissions: int) -> None:
        self._spot, self._parent, self._path = spot, parent, path
        self._name = ""
        super().__init__(-1)
        self.fd = _nameless(parent, permissions)
        if self.fd < 0:
            self._name = new_name()
            self.fd = os.open(self._name, _CREATE, permissions, dir_fd=parent.fd)

    @classmethod
    def beside(cls, spot: Spot, parent: Descriptor, path: str, mode: int | None) -> _Fresh | None:
        """Make one; None where the file has to be written in place."""
        try:
            fresh = cls(spot, parent, path, 0o666 if spot.info is None and mode is None else 0o600)
        except OSError as error:
            if spot.info is None or error.errno not in _IN_PLACE:
                raise
            return None
        if spot.info is None or _same_owner(fresh.fd, spot.info):
            return fresh
        fresh.discard()
        return None

    def __exit__(self, *error: object) -> None:
        self.discard()

    def discard(self) -> None:
        """Let go of it, and of its name unless that is another file's."""
        with suppress(OSError):
            if self._name and self._is_mine():
                os.unlink(self._name, dir_fd=self._parent.fd)
        self.close()

    def _is_mine(self) -> bool:
        found = lookup(self._parent.fd, self._name)
        return found is not None and os.path.samestat(found, os.fstat(self.fd))

    def install(self, mode: int | None, strict: bool) -> None:
        """Give the file its mode and its place, or its bytes to the file that has to stay there."""
        spot = self._spot
        kept = mode if mode is not None else stat.S_IMODE(spot.info.st_mode) if spot.info is not None else None
        if kept is not None:
            os.fchmod(self.fd, kept)
        try:
            self._move(strict)
        except OSError as error:
            if spot.info is None or error.errno not in _IN_PLACE:
                raise
            with io.FileIO(self.fd, "rb", closefd=False) as source:
                _overwrite(self._parent, spot, cast(BinaryIO, source), self._path, mode)

    def _move(self, strict: bool) -> None:
        """Make the place hold this file, whatever it held, or if *strict* what it held before."""
        if not self._name:
            if self._spot.info is None and self._named(self._spot.name):
                return
            self._name = new_name()
            self._named(self._name)
        if not self._is_mine():
            raise SandboxConflictError(f"{printable(self._path)}: its new content was replaced while it was written")
        if strict:
            self._replace_judged()
        else:
            os.rename(self._name, self._spot.name, src_dir_fd=self._parent.fd, dst_dir_fd=self._parent.fd)
        self._name = ""

    def _replace_judged(self) -> None:
        at, name, judged = self._parent.fd, self._spot.name, self._spot.info
        try:
            if judged is None:
                rename_noreplace(at, self._name, at, name)
            elif os.path.samestat(os.lstat(name, dir_fd=at), judged):
                os.rename(self._name, name, src_dir_fd=at, dst_dir_fd=at)
            else:
                raise FileExistsError
        except (FileExistsError, FileNotFoundError) as error:
            raise SandboxConflictError(f"{printable(self._path)}: another file took its place meanwhile") from error

    def _named(self, name: str) -> bool:
        """Give the nameless file its first name; False where something else has it."""
        try:
            os.link(_by_number(self.fd), name, dst_dir_fd=self._parent.fd)
        except FileExistsError:
            return False
        return True


def _nameless(parent: Descriptor, permissions: int) -> int:
    """Open a new file that has no name and can be given one; -1 where that cannot be."""
    try:
        fd = os.open(".", _NAMELESS, permissions, dir_fd=parent.fd) if _NAMELESS else -1
    except OSError as error:
        if error.errno in _NEEDS_NAME:
            return -1
        raise
    if fd >= 0 and not os.path.exists(_by_number(fd)):
        os.close(fd)
        return -1
    return fd


def _by_number(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _same_owner(fd: int, info: os.stat_result) -> bool:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (info.st_uid, info.st_gid):
        try:
            os.fchown(fd, info.st_uid, info.st_gid)
        except PermissionError:
            return False
    return True


def _overwrite(parent: Descriptor, spot: Spot, source: BinaryIO, path: str, mode: int | None) -> None:
    source.seek(0)
    with of_its_kind(path):
        fd = os.open(spot.name, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | NOFOLLOW, dir_fd=parent.fd)
    with io.FileIO(fd, "wb") as out:
        if spot.info is None or not os.path.samestat(os.fstat(fd), spot.info):
            raise SandboxConflictError(f"{printable(path)}: replaced while it was being written")
        shutil.copyfileobj(source, out, CHUNK)
        out.truncate()
        if mode is not None:
            os.fchmod(fd, mode)


def set_mode(directory: Descriptor, mode: int) -> None:
    """Give a directory its permissions; the bits that its group and the system deal with stay."""
    kept = stat.S_IMODE(os.fstat(directory.fd).st_mode) & ~0o777
    os.fchmod(directory.fd, kept | mode)


def make_directories(
    spot: Spot, names: tuple[str, ...], path: str, mode: int | None = None
) -> tuple[Descriptor, set[int]]:
    """Make *names* beneath the directory of *spot*, one in the other; *mode* is for the last of them.

    Returns:
        The last of them, and which were not there before: how many levels beneath the directory of *spot*.

    Raises:
        PathError: of the kind that the system tells; what was made is gone again.
    """
    at, made = spot.parent, set[int]()
    if spot.info is not None:
        return at, made
    try:
        with told_of(path):
            for depth, name in enumerate(names, 1):
                with suppress(FileExistsError):
                    os.mkdir(name, 0o777 if mode is None or depth < len(names) else mode, dir_fd=at.fd)
                    made.add(depth)
                with of_its_kind(path):
                    at = Descriptor.open(name, DIRECTORY | NOFOLLOW, at.fd)
            if mode is not None:
                set_mode(at, mode)
    except BaseException:
        _unmake(spot, made)
        raise
    return at, made


def _unmake(spot: Spot, made: set[int]) -> None:
    """Remove the directories *made* beneath *spot*'s, the innermost first, up to one that is not empty."""
    deepest = max(made, default=0)
    trail, path = Trail(spot.parent), "/".join(spot.rest[:deepest])
    with suppress(OSError):
        for depth in range(deepest, 0, -1):
            path, _, name = path.rpartition("/")
            if depth in made:
                os.rmdir(name, dir_fd=trail.enter(path).fd)
