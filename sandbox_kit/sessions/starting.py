"""A start that has an end: what takes too long goes on by itself, and is undone once it is done."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sandbox_kit.errors import SandboxTimeoutError
from sandbox_kit.host.aside import Latch, begin

__all__ = ["Start"]


class Start:
    """Some work that its caller may give up, where a thread of its own does it.

    Args:
        work: starts something; what it starts, it leaves where the caller finds it.
        about: what errors call it.

    Attributes:
        thread: the identity of the thread that does it; 0 before and after.
    """

    def __init__(self, work: Callable[[], None], about: str) -> None:
        self._work = work
        self._about = about
        self._mutex = threading.Lock()
        self._ended = Latch()
        self._error: BaseException | None = None
        self._late: Callable[[], None] | None = None
        self._has_begun = False
        self._has_ended = False
        self._is_off = False
        self.thread = 0

    def run_here(self) -> None:
        """Do the work, for as long as it takes; raise what it raises."""
        try:
            self._begin()
        finally:
            self._end()

    def run(self, seconds: float | None) -> None:
        """Do the work in a thread of its own; raise what it raises.

        After any error, also that of a signal handler, :meth:`abandon` tells whether the work goes on.

        Args:
            seconds: how long it may take; None for as long as it takes.

        Raises:
            SandboxTimeoutError: it goes on.
            RuntimeError: no thread can be started.
        """
        begin(self._serve)
        if not self.wait(seconds):
            raise SandboxTimeoutError(f"{self._about} did not start within {seconds} s", seconds)
        if self._error is not None:
            raise self._error

    def abandon(self, late: Callable[[], None]) -> bool:
        """Have *late* called, in the thread of the work, when that ends.

        Returns:
            Whether the work goes on. If not, *late* is not called, and what has not begun never will.
        """
        with self._mutex:
            goes_on = self._has_begun and not self._has_ended
            if goes_on:
                self._late = late
            else:
                self._is_off = True
        if not self._has_begun:
            self._end()
        return goes_on

    def wait(self, seconds: float | None) -> bool:
        """Wait until all is done, also what was to be called late; whether it is."""
        return self._ended.wait(seconds)

    def _serve(self) -> None:
        try:
            self._begin()
        except BaseException as error:
            self._error = error
        if not self._has_begun:  # it was abandoned, and ended by that
            return
        with self._mutex:
            self._has_ended = True
        try:
            if self._late is not None:
                self._late()
        finally:
            self._end()

    def _begin(self) -> None:
        with self._mutex:
            self._has_begun = not self._is_off
        if self._has_begun:
            self.thread = threading.get_ident()
            self._work()

    def _end(self) -> None:
        if self._ended.is_set():
            return
        self.thread, self._has_ended = 0, True
        self._work, self._late = _nothing, None
        self._ended.set()


def _nothing() -> None:
    """Take the place of what was done, and keep nothing alive."""
