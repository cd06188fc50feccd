"""What the jobs of these tests do: functions that a worker can import."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from sandbox_kit import Sandbox

HANGS_AFTER = 60.0

SLEEPS = "98765.4321"
"""Seconds that a command goes on whose worker is killed: nothing else sleeps for so long."""


class Unpicklable(Exception):
    """An error that pickle cannot bring back."""

    def __init__(self, text: str, lock: object) -> None:
        super().__init__(text)
        self.lock = lock


def echo(sandbox: Sandbox, item: Any) -> str:
    """The item, by way of a file and a command."""
    sandbox.write("item.txt", str(item))
    return sandbox.execute("cat item.txt", timeout=HANGS_AFTER).stdout


def names(sandbox: Sandbox, item: Any) -> list[str]:
    """What is there before anything is done; then something is left."""
    found = [info.path for info in sandbox.ls()]
    sandbox.write(f"left by {item}", "x")
    return found


def wait_for_the_later(sandbox: Sandbox, item: tuple[int, str]) -> int:
    """Return once the item after this one is done, so that the last one is the first to end."""
    index, directory = item
    until = time.monotonic() + HANGS_AFTER
    while not Path(directory, str(index + 1)).exists():
        assert time.monotonic() < until
        time.sleep(0.005)
    Path(directory, str(index)).touch()
    return index


def fail_at_three(sandbox: Sandbox, item: int) -> int:
    if item == 3:
        raise LookupError("three")
    return item


def raise_unpicklable(sandbox: Sandbox, item: object) -> NoReturn:
    raise Unpicklable("with a lock", threading.Lock())


def leave(sandbox: Sandbox, item: object) -> NoReturn:
    raise SystemExit(3)


def die_at_one(sandbox: Sandbox, item: Any) -> int:
    """Have the worker of item 1 killed while a command of its sandbox runs, once: then there is the marker."""
    marker = Path(item["marker"])
    if item["number"] == 1 and not marker.exists():
        marker.touch()
        with sandbox.spawn(["sleep", SLEEPS]):
            os.kill(os.getpid(), signal.SIGKILL)
    return int(item["number"])
