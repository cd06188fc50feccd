"""The system calls that :mod:`os` does not have, names of the host, and what errors of the system mean."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from os import PathLike
from typing import Self

from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxError,
)

__all__ = ["Descriptor", "host_name", "open_beneath", "path_error", "rename_noreplace", "told_of"]

_OPENAT2 = 437
_RESOLVE = 0x02 | 0x04 | 0x08  # RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH
_RENAME_NOREPLACE = 1

_ERRORS: dict[int, type[PathError]] = {
    errno.ENOENT: PathNotFoundError,
    errno.EEXIST: PathExistsError,
    errno.ENOTEMPTY: PathIsDirectoryError,
    errno.EISDIR: PathIsDirectoryError,
    errno.ENOTDIR: PathNotDirectoryError,
    errno.EACCES: PathAccessError,
    errno.EPERM: PathAccessError,
    errno.EROFS: PathAccessError,
    errno.ELOOP: NotRegularFileError,
    errno.ENXIO: NotRegularFileError,
    errno.ENODEV: NotRegularFileError,
}


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None, use_errno=True).syscall if sys.platform == "linux" else None
_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
_hows: dict[int, ctypes._CArgObject] = {}


class Descriptor:
    """An open file descriptor that closes with its last user."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Close it; closing twice is fine."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def open_beneath(root: int, path: str, flags: int) -> int:
    """Open *path* beneath the directory *root*, where no symbolic link is on the way.

    Args:
        root: a descriptor.
        path: relative; ``..`` may not climb above *root*.
        flags: as for ``os.open``, without creation.

    Raises:
        OSError: with ELOOP for a link, EXDEV for a path that climbs, ENOSYS where the system has no openat2.

    Source: openat2(2).
    """
    if _syscall is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _hows.get(flags)
    if how is None:
        how = _hows[flags] = ctypes.byref(_OpenHow(flags, 0, _RESOLVE))
    fd = _syscall(_OPENAT2, root, os.fsencode(path), how, 24)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(fd)


def rename_noreplace(source_dir: int, source: str, target_dir: int, target: str) -> None:
    """Rename, where nothing has the new name.

    Raises:
        OSError: with EEXIST when something has.

    Source: renameat2(2); where it is missing, a look and a rename.
    """
    if _renameat2 is not None:
        if _renameat2(source_dir, os.fsencode(source), target_dir, os.fsencode(target), _RENAME_NOREPLACE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(number, os.strerror(number), target)
    try:
        os.stat(target, dir_fd=target_dir, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)
    else:
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), target)


def path_error(error: OSError, path: str) -> PathError:
    """Return the library's own error for what the system said of *path*."""
    kind = _ERRORS.get(error.errno or 0, PathError)
    if kind is PathIsDirectoryError and error.errno == errno.ENOTEMPTY:
        return PathIsDirectoryError(path, "directory is not empty")
    return kind(path) if kind is not PathError else PathError(path, error.strerror)


class told_of:
    """A block in which what the system says becomes the library's own error about *path*."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, SandboxError):
            raise path_error(error, self._path) from error


def host_name(path: str | PathLike[str], argument: str) -> str:
    """Return *path* as an absolute name of the host; ``..`` after a link leads where the system has it lead.

    Raises:
        InvalidArgumentError: it is no text or PathLike of text, is empty, or holds what no name can.
    """
    try:
        text = os.fspath(path)
        if not isinstance(text, str) or not text or "\0" in text:
            raise InvalidArgumentError(f"{argument}: {text!r} names no path of the host")
        os.fsencode(text)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidArgumentError(f"{argument}: {error}") from error
    names = text.split("/")
    if ".." not in names:
        return os.path.abspath(text)
    after = len(names) - names[::-1].index("..")
    return os.path.abspath(os.path.join(os.path.realpath("/".join(names[:after])), *names[after:]))
