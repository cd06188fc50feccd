"""What the tests of commands look at from outside: processes, children, descriptors."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbox_kit.backends.local.process import run
from sandbox_kit.types import CommandResult

ENV = {"PATH": os.environ["PATH"]}

_numbers = itertools.count()


def unique_seconds() -> str:
    """An argument for ``sleep`` that no other process has: a long time, and a mark to find it by."""
    return f"3{os.getpid()}.{next(_numbers):05d}"


def python(code: str, *arguments: str) -> list[str]:
    """The command that runs *code* in a bare Python."""
    return [sys.executable, "-I", "-S", "-c", code, *arguments]


def sh(script: str, **options: Any) -> CommandResult:
    """Run a shell script to its end."""
    return run(["/bin/sh", "-c", script], **{"cwd": "/", "env": ENV, **options})


def living(mark: str) -> list[str]:
    """The process ids of the living processes that have *mark* in their command line, but for this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line:
                found.append(entry.name)
    return found


def children() -> set[str]:
    """The process ids of this process's children, zombies included."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found.update((task / "children").read_text().split())
    return found


def zombies() -> list[str]:
    """Those of the children that are zombies."""
    found = []
    for pid in children():
        with suppress(OSError):  # one that was reaped meanwhile
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                found.append(pid)
    return found


def descriptors() -> set[str]:
    """What the open descriptors of this process lead to, once what was dropped before has let go of its own."""
    gc.collect()
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")
        except FileNotFoundError:
            continue
    return found


def eventually(condition: Callable[[], bool], within: float = 10.0) -> bool:
    """Whether *condition* comes true within so many seconds: a guard against hanging."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
