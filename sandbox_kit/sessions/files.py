"""Documents of the host: read whole, bounded, and known again by what they were."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from attrs import frozen

from sandbox_kit.errors import (
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathNotFoundError,
    PolicyError,
    printable,
)

__all__ = ["MAX_DOCUMENT", "Signature", "Version", "named", "read_document", "read_version"]

MAX_DOCUMENT: Final = 2**20
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


@frozen
class Signature:
    """What changes whenever a file is written or replaced, up to the resolution of its times.

    Attributes:
        device, inode: which file it is.
        written: when its content last changed, in nanoseconds since the epoch.
        changed: when its state last changed, in nanoseconds since the epoch; a program cannot set that back.
        size: in bytes.
    """

    device: int
    inode: int
    written: int
    changed: int
    size: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return the signature of a file."""
        return cls(status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


@frozen
class Version:
    """A file as it was when it was read.

    Attributes:
        signature: of the file that was opened.
        content: all of it.
    """

    signature: Signature
    content: bytes


def read_version(path: str | Path) -> Version:
    """Read the file *path*, through links.

    Raises:
        PolicyError: it holds more than 1 MiB, or is changed meanwhile.
        PathNotFoundError: there is no such file.
        PathAccessError: it cannot be opened.
        NotRegularFileError: it is no file.
        PathError: another failure to read it.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb", opener=_open) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise NotRegularFileError(name)
            content = file.read(MAX_DOCUMENT + 1)
            after = os.fstat(file.fileno())
    except PathError:
        raise
    except (OSError, ValueError) as error:
        raise _failure(name, error) from error
    if len(content) > MAX_DOCUMENT:
        raise PolicyError([f"document: more than {MAX_DOCUMENT} bytes"])
    if Signature.of(before) != Signature.of(after):
        raise PolicyError(["document: is written to while it is read"])
    return Version(Signature.of(before), content)


def read_document(path: str | Path) -> Any:
    """Read the JSON or TOML file *path*, which its suffix tells apart, into plain values.

    Raises:
        PolicyError: it is not well-formed, or as in :func:`read_version`; so for the other errors.
    """
    from sandbox_kit.rules.documents import parse_document

    return parse_document(read_version(path).content, Path(path).suffix)


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Put the name of the file before each problem of the ``PolicyError`` that the block ends in."""
    try:
        yield
    except PolicyError as error:
        raise PolicyError(f"{printable(os.fspath(path))}: {problem}" for problem in error.problems) from error


def _open(name: str, _: int) -> int:
    return os.open(name, _READ)


def _failure(name: str, error: OSError | ValueError) -> PathError:
    if isinstance(error, IsADirectoryError):
        return NotRegularFileError(name)
    if isinstance(error, FileNotFoundError):
        return PathNotFoundError(name)
    if isinstance(error, PermissionError):
        return PathAccessError(name)
    reason = error.strerror if isinstance(error, OSError) else None
    return PathError(name, reason or str(error))
