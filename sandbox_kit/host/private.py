"""Directories of the library's own, which only this user may enter."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sandbox_kit.errors import SandboxConflictError, SandboxUnavailableError

__all__ = ["make_directory", "private_directory", "shared_directory"]

_SHARED = "/tmp/sandbox_kit-{uid}"


def shared_directory() -> Path:
    """Make the directory that all processes of this user share, unless it is there; its name depends on nothing else.

    Raises:
        as :func:`private_directory`
    """
    return private_directory(Path(_SHARED.format(uid=os.geteuid())))


def private_directory(path: Path) -> Path:
    """Make a directory that only this user may enter, unless it is there.

    Raises:
        SandboxConflictError: what has the name is a link or no directory, others own it or may enter.
        SandboxUnavailableError: it cannot be made.
    """
    status = make_directory(path)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise SandboxConflictError(f"{path} is not a directory of this user alone")
    return path


def make_directory(path: Path) -> os.stat_result:
    """Make a directory for this user alone, unless one is there, whoever may enter that; return what it is.

    Raises:
        SandboxConflictError: what has the name is a link, or no directory.
        SandboxUnavailableError: it cannot be made.
    """
    try:
        if not os.path.lexists(path):
            path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except FileExistsError:
        raise SandboxConflictError(f"{path} is no directory") from None
    except OSError as error:
        raise SandboxUnavailableError(f"{path} cannot be made: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise SandboxConflictError(f"{path} is {'a link' if stat.S_ISLNK(status.st_mode) else 'no directory'}")
    return status
