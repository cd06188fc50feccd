"""What Ctrl-C must not break off half-way: work in a thread of its own, and the wait for it.

Signal handlers run in the main thread, after any call there, and may raise. The locks of the
interpreter bear that, ``threading.Event``, ``Condition`` and ``Thread.start`` do not: one that
was broken off can stay locked for ever.
"""

from __future__ import annotations

import operator
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

__all__ = ["Latch", "aside", "begin"]

T = TypeVar("T")

_call = operator.methodcaller("__call__")


class Latch:
    """What is set once, by one thread, and may be waited for by many."""

    def __init__(self) -> None:
        self._set = False
        self._held = threading.Lock()
        self._held.acquire()

    def set(self) -> None:
        """Let all that wait go on."""
        self._set = True
        self._held.release()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most *timeout* seconds; whether it is."""
        take = partial(self._held.acquire, True, -1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        all(map(_call, (take, self._held.release)))  # one call into C: what is taken is given back
        return self._set


def begin(work: Callable[[], object]) -> None:
    """Have *work* done in a thread of its own, which does not keep the process from its exit.

    Raises:
        RuntimeError: no thread can be started.
    """
    start_new_thread(work, ())


def aside(work: Callable[[], T]) -> T:
    """Do *work* where no signal handler runs; return what it returns.

    When a signal handler breaks off the wait, the work goes on to its end, and its result is
    dropped there: it must be nothing, or what gives back all that it holds when it is dropped.
    """
    if threading.get_ident() != threading.main_thread().ident or sys.is_finalizing():
        return work()
    outcome = _Outcome(work)
    try:
        begin(outcome.obtain)
    except RuntimeError:
        return work()
    try:
        outcome.obtained.wait()
        return outcome.take()
    except BaseException:
        outcome.drop()
        raise


class _Outcome(Generic[T]):
    """What some work comes to: a result or an error."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.obtained = Latch()
        self._work = work
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        self._dropped = False

    def obtain(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._errors.append(error)
        if self._dropped:
            self._results.clear()
        self.obtained.set()

    def drop(self) -> None:
        """Keep no result, neither now nor later."""
        self._dropped = True
        self._results.clear()

    def take(self) -> T:
        """The result, or else raise the error."""
        if self._errors:
            raise self._errors.pop()
        return self._results.pop()
