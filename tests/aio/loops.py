"""Running coroutines to their end, and waiting for what happens elsewhere."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

HANGS_AFTER = 60.0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run *coroutine* on a loop of its own; one that hangs fails."""
    return asyncio.run(_bounded(coroutine))


async def _bounded(coroutine: Coroutine[Any, Any, T]) -> T:
    async with asyncio.timeout(HANGS_AFTER):
        return await coroutine


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    while not holds():
        await asyncio.sleep(0.01)


def threads() -> int:
    """How many threads this process has, those that Python's ``threading`` does not know included."""
    return len(os.listdir("/proc/self/task"))


def come_down(count: int) -> bool:
    """Whether there are no more than *count* threads, or soon will be: one that has ended may take a moment to go."""
    give_up = time.monotonic() + 10
    while threads() > count and time.monotonic() < give_up:
        time.sleep(0.01)
    return threads() <= count
