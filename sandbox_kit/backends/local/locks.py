"""Locks of the kernel's on files of the library's own, and the removal of those that nobody holds."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from contextlib import suppress

__all__ = ["remove_old_locks", "take_lock"]

_RECORD = struct.Struct("hhqqi4x")
_KEPT = 86400.0


def take_lock(fd: int, *, shared: bool) -> bool:
    """Lock the open file *fd* until it is closed; whether that worked, at once.

    Where the kernel has them, the lock is the open file's: closing another descriptor of the
    same file keeps it.
    """
    try:
        if sys.platform == "linux":
            kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _RECORD.pack(kind, os.SEEK_SET, 0, 0, 0))
        else:
            fcntl.lockf(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def remove_old_locks(directory: str) -> None:
    """Remove the lock files in *directory* that were last taken a day ago and more, and that nobody holds.

    Who takes one meanwhile finds that it has no name any more, and makes it anew.
    """
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".lock"):
                with suppress(OSError):
                    _remove_unless_held(entry)


def _remove_unless_held(entry: os.DirEntry[str]) -> None:
    if entry.stat(follow_symlinks=False).st_mtime > time.time() - _KEPT:
        return
    fd = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if take_lock(fd, shared=False):
            os.unlink(entry.path)
    finally:
        os.close(fd)
