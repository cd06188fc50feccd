"""Whether anything beneath a directory changed, or is open in a process: what no walk shows as well.

A file that is being written may have no name yet, and is then told only by the process that has it open.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sandbox_kit.host.system import Descriptor
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW, Trail
from sandbox_kit.sessions.clock import FILE_LAG

__all__ = ["changed_since", "is_open"]

_PROC = "/proc"


def changed_since(top: Path, since: float) -> bool:
    """Return whether a directory or anything beneath it changed at *since* or later, by ``mtime`` or ``ctime``.

    A link counts as itself. What changed up to :data:`FILE_LAG` before *since* counts as well.

    Args:
        top: its last component is no link.
        since: in seconds since the epoch.

    Raises:
        OSError: something cannot be looked at, or went away meanwhile.
    """
    earliest = since - FILE_LAG
    here = Descriptor.open(os.fspath(top), DIRECTORY | NOFOLLOW)
    trail, waiting = Trail(here), [""]
    changed = _changed_at(os.fstat(here.fd)) >= earliest
    while waiting and not changed:
        changed = _look_into(trail, waiting.pop(), waiting, earliest)
    return changed


def is_open(top: Path) -> bool:
    """Return whether a process has a directory, or anything beneath it, open.

    Told of the processes that this user may look into, where the system has ``/proc``.

    Args:
        top: a real name.
    """
    name = os.fspath(top)
    return any(each == name or each.startswith(f"{name}/") for each in _opened())


def _opened() -> Iterator[str]:
    """Yield the names of what processes have open; a file without one is told by its directory's."""
    for pid in filter(str.isdecimal, _listed(_PROC)):
        for fd in _listed(f"{_PROC}/{pid}/fd"):
            with suppress(OSError):
                yield os.readlink(f"{_PROC}/{pid}/fd/{fd}")


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _look_into(trail: Trail, path: str, waiting: list[str], earliest: float) -> bool:
    """Return whether an entry of *path* changed; add the directories in it to *waiting*."""
    with os.scandir(trail.enter(path).fd) as entries:
        for entry in entries:
            if _changed_at(entry.stat(follow_symlinks=False)) >= earliest:
                return True
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{path}/{entry.name}" if path else entry.name)
    return False


def _changed_at(status: os.stat_result) -> float:
    return max(status.st_mtime, status.st_ctime)
