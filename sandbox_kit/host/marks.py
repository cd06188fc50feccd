"""Which process something belongs to, as a text that other processes can check: whether that one still lives."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

from attrs import frozen

__all__ = ["Fate", "Mark", "fate", "own_mark", "read_mark"]

Fate = Literal["alive", "dead", "unknown"]

_INITIAL = "4026531836"
"""The process namespace that a machine boots with, by its number in the kernel."""

_START = 19
"""Where the start time stands in ``/proc/<pid>/stat`` behind the program's name: field 22. Source: proc(5)."""

_TEXT = re.compile(r"([0-9a-f]*)\.([0-9]+-[0-9]*)\.([0-9a-f-]+)\.([0-9]{1,10})\.([0-9]{1,20})")


@frozen
class Mark:
    """One process, unlike any other of any machine and time.

    Attributes:
        machine: a digest of the machine's lasting id and its name; empty where it has none.
        space: its process and time namespaces, which tell whose numbers *pid* and *start* are.
        boot: of the machine.
        pid: in its namespace.
        start: when it began, in ticks since the boot.
    """

    machine: str
    space: str
    boot: str
    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.machine}.{self.space}.{self.boot}.{self.pid}.{self.start}"


def own_mark() -> str:
    """The mark of this process; empty where the system does not tell enough, as outside Linux."""
    own = _own()
    return "" if own is None else str(own)


def read_mark(text: str) -> Mark | None:
    """The mark that *text* is; None if it is none."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    machine, space, boot, pid, start = found.groups()
    return Mark(machine, space, boot, int(pid), int(start))


def fate(text: str) -> Fate:
    """What became of the process that *text* is the mark of.

    Dead is one of this boot of this machine that is gone, and any of an earlier boot. What another
    machine or another process namespace has, cannot be told from here.
    """
    mark, own = read_mark(text), _own()
    if mark is None or own is None:
        return "unknown"
    if mark.boot != own.boot:
        earlier = mark.machine == own.machine != "" and mark.space == own.space and own.space.startswith(_INITIAL)
        return "dead" if earlier else "unknown"
    if mark.space != own.space:
        return "unknown"
    return "alive" if _lives(mark) else "dead"


def _own() -> Mark | None:
    """This process; None if ``/proc`` is not there, or is that of another process namespace."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None
        told = _told("self")
        spaces = [re.sub(r"\D", "", os.readlink(f"/proc/self/ns/{kind}")) for kind in _namespaces()]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    return Mark(_machine(), "-".join(spaces), boot, os.getpid(), int(told[_START]))


@cache
def _namespaces() -> tuple[str, str]:
    """Those that numbers of processes and times depend on; a kernel without one for time has it count for nothing."""
    return "pid", "time" if os.path.exists("/proc/self/ns/time") else "pid"


@cache
def _machine() -> str:
    with suppress(OSError):
        lasting = Path("/etc/machine-id").read_text("ascii").strip()
        if lasting:
            return hashlib.sha256(f"sandbox-kit {lasting} {platform.node()}".encode()).hexdigest()[:16]
    return ""


def _told(process: str) -> list[str]:
    """The fields of ``stat`` behind the program's name.

    Raises:
        OSError: there is no such process, or it is hidden.
    """
    return Path(f"/proc/{process}/stat").read_text("latin-1").rpartition(")")[2].split()


def _lives(mark: Mark) -> bool:
    """Whether the process of this namespace lives; when in doubt, yes."""
    with suppress(PermissionError):
        try:
            os.kill(mark.pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    try:
        told = _told(str(mark.pid))
    except OSError:
        return True
    return told[0] not in "ZX" and int(told[_START]) == mark.start
