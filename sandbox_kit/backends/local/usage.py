"""What processes use, as /proc tells."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sandbox_kit.types import Usage


def descendants(pid: int | None) -> set[int]:
    """The process ids of all that descends from *pid*; none where the kernel does not list children."""
    found: set[int] = set()
    rest = [] if pid is None else [pid]
    while rest:
        new = _children(rest.pop()) - found
        found |= new
        rest += new
    return found


def _children(pid: int) -> set[int]:
    children: set[int] = set()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children.update(map(int, (task / "children").read_text().split()))
    return children


def usage_of(pids: Iterable[int]) -> Usage:
    """What the processes *pids* use together; those that have ended count nothing.

    Returns:
        resident memory, where pages that several share count for each; processor time with
        that of children that were waited for.
    """
    if not os.path.exists("/proc/self/stat"):
        return Usage()
    memory, ticks, count = 0, 0, 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
            memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            count += 1
    return Usage(memory=memory, cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"), pids=count)
