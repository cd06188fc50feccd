"""The lines of a background command for asyncio, read by a thread that comes when they are asked for."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future

from sandbox_kit.aio.threads import begun, outcome

__all__ = ["AsyncLines"]

_AHEAD = 256
"""How many lines are taken that nobody has asked for yet; the rest is held to the process's ``max_output``."""


class AsyncLines(AsyncIterator[str]):
    """The lines of one output of a process, by ``async for``; they end when the process has.

    Args:
        lines: what gives them, and waits for them.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._ready: deque[str] = deque()
        self._ended = False
        self._failure: BaseException | None = None
        self._reading = False
        self._news: Future[None] = Future()
        self._lock = threading.Lock()

    async def __anext__(self) -> str:
        while True:
            with self._lock:
                if self._ready:
                    return self._ready.popleft()
                if self._ended:
                    raise self._failure or StopAsyncIteration
                news = self._await_news()
            await asyncio.wait([outcome(news)])

    def _await_news(self) -> Future[None]:
        """Return what is done when there is a line, or the end; the lock is held."""
        if self._news.done():
            self._news = Future()
        if not self._reading:
            self._reading = True
            begun(self._read).add_done_callback(self._pause)
        return self._news

    def _read(self) -> bool:
        """Take lines as they come, until many are ready; whether there may be more."""
        for line in self._lines:
            with self._lock:
                self._ready.append(line)
                self._tell()
                if len(self._ready) >= _AHEAD:
                    return True
        return False

    def _pause(self, read: Future[bool]) -> None:
        with self._lock:
            self._reading = False
            self._failure = read.exception()
            self._ended = self._failure is not None or not read.result()
            self._tell()

    def _tell(self) -> None:
        if not self._news.done():
            self._news.set_result(None)
