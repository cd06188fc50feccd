"""Commands that run in the background, and what of their output nobody has read yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from sandbox_kit.contract import Process
from sandbox_kit.errors import InvalidArgumentError, LimitExceededError, SandboxError, SandboxUnavailableError

__all__ = ["BackgroundProcess", "Processes"]

_UNREAD = 2**20
"""How many characters of unread output each keeps; older ones are dropped."""

_MOST_RUNNING, _MOST_KEPT = 16, 64
_SETTLES_WITHIN = 5.0
"""Seconds until the last output of what has ended is there."""


class BackgroundProcess:
    """One command in the background. Two threads take its output, line by line, in order of arrival.

    Args:
        number: its name in the console.
        command: its text.
        process: what runs.
    """

    def __init__(self, number: int, command: str, process: Process) -> None:
        self.number = number
        self.command = command
        self.process = process
        self._output = _Output(streams=2)
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=self._output.fill, args=(stream,), name="sandbox-kit console", daemon=True).start()

    @property
    def runs(self) -> bool:
        """Whether it still runs; one whose end is not known has ended."""
        return self.state == "running"

    @property
    def state(self) -> str:
        """How it is, as one phrase."""
        try:
            code = self.process.poll()
        except SandboxUnavailableError:
            return "ended, its exit code is not known"
        return "running" if code is None else f"ended with exit code {code}"

    def read(self, limit: int, seconds: float) -> tuple[str, int, int]:
        """Take output that nobody has read.

        Args:
            limit: how many characters at most.
            seconds: how long to wait for some, while there is none.

        Returns:
            The output, how many characters are left, and how many were dropped since the last time.
        """
        if self.runs:
            self._output.wait(seconds)
        else:
            self._output.wait_for_end(_SETTLES_WITHIN)
        return self._output.take(limit)


class Processes:
    """What a console has started, by number from 1. Any number of threads may use it; a copy has none."""

    def __init__(self) -> None:
        self._started: dict[int, BackgroundProcess] = {}
        self._starting = 0
        self._count = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Processes], tuple[()]]:
        return Processes, ()

    def all(self) -> tuple[BackgroundProcess, ...]:
        """Return each one that is kept, in order; ended ones too."""
        return tuple(self._started.values())

    def start(self, command: str, spawn: Callable[[], Process]) -> BackgroundProcess:
        """Keep what *spawn* starts under the next number; the oldest that have ended are forgotten past a great many.

        Raises:
            LimitExceededError: too many run.
        """
        self._take_room()
        try:
            process = spawn()
        except BaseException:
            with self._lock:
                self._starting -= 1
            raise
        with self._lock:
            self._starting -= 1
            return self._add(command, process)

    def _take_room(self) -> None:
        with self._lock:
            if self._starting + sum(started.runs for started in self.all()) >= _MOST_RUNNING:
                raise LimitExceededError(f"{_MOST_RUNNING} processes run in the background already", _MOST_RUNNING)
            self._starting += 1

    def _add(self, command: str, process: Process) -> BackgroundProcess:
        """Keep *process*, with the lock held."""
        self._count += 1
        started = self._started[self._count] = BackgroundProcess(self._count, command, process)
        ended = [each for each in self.all() if not each.runs]
        for each in ended[: max(0, len(self._started) - _MOST_KEPT)]:
            del self._started[each.number]
        return started

    def get(self, number: int) -> BackgroundProcess:
        """Return the one of that number.

        Raises:
            InvalidArgumentError: there is none.
        """
        started = self._started.get(number)
        if started is None:
            known = ", ".join(map(str, self._started)) or "none"
            raise InvalidArgumentError(f"there is no process {number}; there are: {known}")
        return started


class _Output:
    """Unread text of several streams, up to a limit.

    Args:
        streams: how many threads fill it.
    """

    def __init__(self, streams: int) -> None:
        self._open = streams
        self._pieces: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._change = threading.Condition()

    def fill(self, lines: Iterable[str]) -> None:
        """Append *lines* until they end, whatever ends them."""
        try:
            for line in lines:
                self._append(line)
        except SandboxError as error:
            self._append(f"(no more output: {error})\n")
        finally:
            with self._change:
                self._open -= 1
                self._change.notify_all()

    def _append(self, text: str) -> None:
        with self._change:
            self._pieces.append(text)
            self._size += len(text)
            while self._size > _UNREAD and len(self._pieces) > 1:
                dropped = len(self._pieces.popleft())
                self._size -= dropped
                self._dropped += dropped
            self._change.notify_all()

    def wait(self, seconds: float) -> None:
        """Return once there is text, or nothing more will come, or after *seconds*."""
        with self._change:
            self._change.wait_for(lambda: self._pieces or not self._open, seconds)

    def wait_for_end(self, seconds: float) -> None:
        """Return once nothing more will come, or after *seconds*."""
        with self._change:
            self._change.wait_for(lambda: not self._open, seconds)

    def take(self, limit: int) -> tuple[str, int, int]:
        """Return as :meth:`BackgroundProcess.read` does."""
        with self._change:
            text = self._take(limit)
            dropped, self._dropped = self._dropped, 0
            return text, self._size, dropped

    def _take(self, limit: int) -> str:
        """Take whole pieces up to *limit* characters, then a part of the next one where nothing else fits."""
        taken: list[str] = []
        while self._pieces and len(self._pieces[0]) <= limit:
            taken.append(self._pieces.popleft())
            limit -= len(taken[-1])
        if self._pieces and not taken:
            piece = self._pieces.popleft()
            taken.append(piece[:limit])
            self._pieces.appendleft(piece[limit:])
        text = "".join(taken)
        self._size -= len(text)
        return text
