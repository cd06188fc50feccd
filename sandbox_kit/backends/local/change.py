"""Changes to a pinned place: atomic writes, new directories, removal."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from sandbox_kit.backends.local.pin import DIRECTORY, NOFOLLOW, Spot
from sandbox_kit.backends.local.system import Descriptor, path_error
from sandbox_kit.errors import PathIsDirectoryError, SandboxError
from sandbox_kit.paths import join
from sandbox_kit.primitives import Authorize, Operations
from sandbox_kit.streams import CHUNK

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["Tree", "judge_tree", "make_directories", "remove", "writing"]

Tree = dict[str, "Tree | None"]
"""The entries beneath a directory that were judged: a directory's own tree, None for anything else."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | NOFOLLOW
_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS, errno.EXDEV)
_SPOOL = 8 * 2**20


@contextmanager
def writing(spot: Spot, path: str, mode: int | None) -> Generator[BinaryIO, None, None]:
    """Give a file to write to; when the block ends well, its content is what *spot* holds.

    A new file takes its place in one step. Where that cannot be (a hard link would part, a
    mount point stays put, the directory is not writable, the owner would change) the bytes
    are collected first and then written in place.

    Raises:
        PathError: of the kind that the system tells; the file is then as it was.
    """
    with _told_of(path):
        parent = make_directories(spot, spot.rest[:-1], path)
        fresh = None if _shared(spot) else _create(parent, spot, mode)
    if fresh is None:
        with tempfile.SpooledTemporaryFile(_SPOOL) as spooled:
            spool = cast(BinaryIO, spooled)
            yield spool
            with _told_of(path):
                _overwrite(parent, spot, spool, mode)
        return
    name, fd = fresh
    try:
        with _File(fd, path) as raw, io.BufferedWriter(raw, CHUNK) as out:
            yield out
        with _told_of(path):
            _install(parent, spot, name, mode)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=parent.fd)
        raise


@contextmanager
def _told_of(path: str) -> Generator[None, None, None]:
    """Turn what the system says into the library's own error about *path*."""
    try:
        yield
    except SandboxError:
        raise
    except OSError as error:
        raise path_error(error, path) from error


class _File(io.FileIO):
    """A file whose failing writes name *path*, to be told from failures of what is copied into it."""

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd, "wb")
        self._path = path

    def write(self, data: ReadableBuffer, /) -> int:
        with _told_of(self._path):
            return super().write(data)


def _shared(spot: Spot) -> bool:
    return spot.info is not None and spot.info.st_nlink > 1


def _create(parent: Descriptor, spot: Spot, mode: int | None) -> tuple[str, int] | None:
    """Make a file to fill beside *spot*; None where the file has to be written in place."""
    name = f".{secrets.token_hex(8)}.tmp"
    try:
        fd = os.open(name, _CREATE, 0o666 if spot.info is None and mode is None else 0o600, dir_fd=parent.fd)
    except OSError as error:
        if spot.info is None or error.errno not in _IN_PLACE:
            raise
        return None
    if spot.info is None or _same_owner(fd, spot.info):
        return name, fd
    os.close(fd)
    os.unlink(name, dir_fd=parent.fd)
    return None


def _same_owner(fd: int, info: os.stat_result) -> bool:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) != (info.st_uid, info.st_gid):
        try:
            os.fchown(fd, info.st_uid, info.st_gid)
        except PermissionError:
            return False
    return True


def _install(parent: Descriptor, spot: Spot, name: str, mode: int | None) -> None:
    kept = mode if mode is not None else stat.S_IMODE(spot.info.st_mode) if spot.info is not None else None
    if kept is not None:
        os.chmod(name, kept, dir_fd=parent.fd)
    try:
        os.rename(name, spot.name, src_dir_fd=parent.fd, dst_dir_fd=parent.fd)
    except OSError as error:
        if spot.info is None or error.errno not in _IN_PLACE:
            raise
        with open(name, "rb", opener=lambda file, flags: os.open(file, flags | NOFOLLOW, dir_fd=parent.fd)) as source:
            _overwrite(parent, spot, source, mode)
        os.unlink(name, dir_fd=parent.fd)


def _overwrite(
    parent: Descriptor, spot: Spot, source: BinaryIO | tempfile.SpooledTemporaryFile[bytes], mode: int | None
) -> None:
    source.seek(0)
    fd = os.open(spot.name, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | NOFOLLOW, dir_fd=parent.fd)
    with io.FileIO(fd, "wb") as out:
        if spot.info is None or not os.path.samestat(os.fstat(fd), spot.info):
            raise OSError(errno.ESTALE, "replaced while it was being written")
        shutil.copyfileobj(source, out, CHUNK)
        out.truncate()
        if mode is not None:
            os.fchmod(fd, mode)


def make_directories(spot: Spot, names: tuple[str, ...], path: str) -> Descriptor:
    """Make *names* beneath the directory of *spot*, one in the other, and return the last.

    Raises:
        PathError: of the kind that the system tells.
    """
    at = spot.parent
    if spot.info is not None:
        return at
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=at.fd)
            at = Descriptor(os.open(name, DIRECTORY | NOFOLLOW, dir_fd=at.fd))
    except OSError as error:
        raise path_error(error, path) from error
    return at


def judge_tree(
    spot: Spot,
    path: str,
    operations: Operations,
    authorize: Authorize,
    names: tuple[str, str],
    new: tuple[str, str] | None = None,
) -> Tree:
    """Ask for every entry beneath a directory, and for the name that it would get.

    Args:
        names: the directory as typed, and its real name.
        new: the same two of its new name, where it is being moved.

    Returns:
        What was judged.
    """
    tree: Tree = {}
    try:
        with Descriptor(os.open(spot.name, DIRECTORY | NOFOLLOW, dir_fd=spot.parent.fd)) as directory:
            for entry in list(os.scandir(directory.fd)):
                beneath = (join(names[0], entry.name), join(names[1], entry.name))
                below = (join(new[0], entry.name), join(new[1], entry.name)) if new else None
                for operation in operations:
                    authorize(operation, beneath)
                if below:
                    authorize("write", below)
                tree[entry.name] = None
                if entry.is_dir(follow_symlinks=False):
                    place = Spot(directory, names[1], (entry.name,), None)
                    tree[entry.name] = judge_tree(place, path, operations, authorize, beneath, below)
    except SandboxError:
        raise
    except OSError as error:
        raise path_error(error, path) from error
    return tree


def remove(spot: Spot, path: str, judged: Tree) -> None:
    """Remove an entry, and of what is beneath it no more than was judged.

    Raises:
        PathIsDirectoryError: the directory holds something else.
    """
    is_dir = spot.info is not None and stat.S_ISDIR(spot.info.st_mode)
    try:
        _remove(spot.parent, spot.name, judged if is_dir else None)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise PathIsDirectoryError(path, "directory is not empty") from error
        raise path_error(error, path) from error


def _remove(parent: Descriptor, name: str, tree: Tree | None) -> None:
    if tree is None:
        os.unlink(name, dir_fd=parent.fd)
        return
    if tree:
        with Descriptor(os.open(name, DIRECTORY | NOFOLLOW, dir_fd=parent.fd)) as directory:
            for entry, beneath in tree.items():
                with suppress(FileNotFoundError):
                    _remove(directory, entry, beneath)
    os.rmdir(name, dir_fd=parent.fd)
