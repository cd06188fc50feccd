"""A directory that the library makes for a sandbox, and removes with all that commands left in it.

Its name tells which process made it. What a process that was killed left is removed by the next
one of its user, where both see the same processes.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from sandbox_kit.host.trash import Trash

__all__ = ["make", "remove"]

_PREFIX = "sandbox-kit-"

logger = logging.getLogger("sandbox_kit")


def make() -> str:
    """Make a directory that only this user may enter; return its name."""
    place = _place()
    if place is None:
        return tempfile.mkdtemp(prefix=_PREFIX)
    _remove_stale(tempfile.gettempdir(), place)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{place}-{os.getpid()}-{_began(os.getpid())}-")


def remove(directory: str, owner: int) -> None:
    """Remove *directory*; one that is gone is fine, and what cannot be removed is logged.

    Args:
        owner: the process that made it; no other one, such as a forked child, removes it.
    """
    if os.getpid() != owner:
        return
    try:
        _remove(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("the temporary directory of a sandbox could not be removed: %s: %s", directory, error)


def _remove(directory: str) -> None:
    os.chmod(directory, 0o700)
    Trash(Path(directory)).empty()
    os.rmdir(directory)


@cache
def _place() -> str | None:
    """Names the process namespace of this boot; None where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        return f"{boot[:8]}{os.stat('/proc/self/ns/pid').st_ino:x}"
    except OSError:
        return None


def _began(pid: int) -> str | None:
    """When process *pid* began, in ticks since the boot; None if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()[19]
    except OSError:
        return None


@cache
def _remove_stale(parent: str, place: str) -> None:
    """Remove from *parent* what processes of this user that have ended made; once in a process."""
    with os.scandir(parent) as entries:
        stale = [entry.path for entry in entries if _is_stale(entry, place)]
    for directory in stale:
        remove(directory, os.getpid())


def _is_stale(entry: os.DirEntry[str], place: str) -> bool:
    prefix = f"{_PREFIX}{place}-"
    pid, _, rest = entry.name.removeprefix(prefix).partition("-")
    if not entry.name.startswith(prefix) or not pid.isdigit():
        return False
    with suppress(OSError):
        status = entry.stat(follow_symlinks=False)
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        return ours and _began(int(pid)) != rest.partition("-")[0]
    return False
