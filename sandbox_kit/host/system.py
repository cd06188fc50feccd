"""The system calls that :mod:`os` does not have, owners of descriptors, names of the host, and what errors mean."""

from __future__ import annotations

import ctypes
import errno
import io
import itertools
import os
import sys
from collections.abc import Callable
from functools import partial
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

__all__ = [
    "Descriptor",
    "add_pipes",
    "close_all",
    "hold_standard_descriptors",
    "host_name",
    "host_text",
    "keep",
    "open_beneath",
    "path_error",
    "rename_noreplace",
    "told_of",
]

_OPENAT2 = 437
_RESOLVE = 0x02 | 0x04 | 0x08  # RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH
_RENAME_NOREPLACE = 1
_LAST_STANDARD = 2

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


def keep(owner: object, name: str, opener: Callable[..., object], *arguments: object) -> None:
    """Set the attribute *name* of *owner* to what *opener* returns, in one call into C.

    A signal handler, such as Ctrl-C's, runs between two calls and no sooner, so that nothing
    which was opened is ever without its owner.
    """
    any(map(setattr, (owner,), (name,), itertools.starmap(opener, (arguments,))))


def close_all(fds: list[int]) -> None:
    """Close every one of *fds*, and take it off the list in the same call into C."""
    any(map(os.close, map(list.pop, itertools.repeat(fds, len(fds)))))


def add_pipes(files: list[io.FileIO], count: int) -> None:
    """Append the read and the write end of each of *count* new pipes to *files*, in turn, in one call into C."""
    fds = itertools.chain.from_iterable(itertools.starmap(os.pipe, itertools.repeat((), count)))
    files.extend(map(io.FileIO, fds, itertools.cycle(("rb", "wb"))))


def hold_standard_descriptors() -> None:
    """Open on ``/dev/null`` what of descriptors 0 to 2 this process has closed, as a daemon may.

    What commands are handed by its number would get one of theirs, and they have an input and output of their own.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        pass
    os.close(fd)


class Descriptor:
    """An open file descriptor that closes with its last user.

    Attributes:
        fd: its number; negative when it is closed.
    """

    fd = -1

    def __init__(self, fd: int = -1) -> None:
        self.fd = fd

    @classmethod
    def of(cls, opener: Callable[..., int], *arguments: object) -> Self:
        """Own what *opener* returns, from within the call on that opens it."""
        owner = cls()
        keep(owner, "fd", opener, *arguments)
        return owner

    @classmethod
    def open(cls, path: str, flags: int, dir_fd: int | None = None) -> Self:
        """Open and own *path*, as ``os.open`` does.

        Raises:
            OSError: the system's own word on the path.
        """
        return cls.of(partial(os.open, dir_fd=dir_fd), path, flags)

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


def open_beneath(root: int, path: str, flags: int) -> Descriptor:
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
    opened = Descriptor.of(_syscall, _OPENAT2, root, os.fsencode(path), how, 24)
    if opened.fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return opened


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


def host_text(path: str | PathLike[str], argument: str) -> str:
    """Return *path* as text, as it was given.

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
    return text


def host_name(path: str | PathLike[str], argument: str) -> str:
    """Return *path* as an absolute name of the host; ``..`` after a link leads where the system has it lead.

    Raises:
        InvalidArgumentError: as in :func:`host_text`.
    """
    text = host_text(path, argument)
    names = text.split("/")
    if ".." not in names:
        return os.path.abspath(text)
    after = len(names) - names[::-1].index("..")
    return os.path.abspath(os.path.join(os.path.realpath("/".join(names[:after])), *names[after:]))
