"""Ending a command from another thread than the one that waits for it.

:func:`cancellable` makes a :class:`Cancellation`, and the command that the block executes holds it. A backend
looks at it while it waits, and ends the command as where Ctrl-C comes: by an exception from amidst the wait.

It is the thread's, no context variable, and the first command takes it: what is called back while that command
runs, and the tasks and threads that begin there, execute commands of their own that it does not end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["NEVER", "Cancellation", "Cancelled", "cancellable", "current", "holding", "take"]

LOOK_EVERY = 0.05
"""Seconds between two looks at whether a command is still wanted."""


class Cancelled(BaseException):
    """The command was cancelled, and its whole tree is dead. As with Ctrl-C, no ``except Exception`` stops it."""


class Cancellation:
    """Whether a call is still wanted; from any thread."""

    def __init__(self) -> None:
        self._asked = False

    def cancel(self) -> None:
        """Have the call ended; twice is fine."""
        self._asked = True

    def check(self) -> None:
        """Return while the call is wanted.

        Raises:
            Cancelled: it no longer is.
        """
        if self._asked:
            raise Cancelled

    def pause(self, left: float | None) -> float | None:
        """Return for how many seconds to wait until the next look, at most *left*; None for no limit.

        Raises:
            Cancelled: the call is no longer wanted.
        """
        self.check()
        return LOOK_EVERY if left is None else min(left, LOOK_EVERY)


class _Never(Cancellation):
    """That of a call which nobody can cancel: it waits in one piece."""

    def pause(self, left: float | None) -> float | None:
        return left


NEVER = _Never()


class _Held(threading.local):
    """What the calling thread's next command is held to."""

    cancellation: Cancellation = NEVER


_held = _Held()


def current() -> Cancellation:
    """Return what the calling thread's next command is held to."""
    return _held.cancellation


def take() -> Cancellation:
    """Return the same for a command; further ones of the thread are not held to it."""
    cancellation, _held.cancellation = _held.cancellation, NEVER
    return cancellation


@contextmanager
def holding(cancellation: Cancellation) -> Iterator[None]:
    """Hold the first command of a block to *cancellation*."""
    before, _held.cancellation = _held.cancellation, cancellation
    try:
        yield
    finally:
        _held.cancellation = before


@contextmanager
def cancellable() -> Iterator[Cancellation]:
    """Make the first command of a block one that other threads can cancel, by what is yielded."""
    cancellation = Cancellation()
    with holding(cancellation):
        yield cancellation
