"""Ending a command from another thread than the one that waits for it.

:func:`cancellable` makes a :class:`Cancellation`, which every command holds that the block executes. A backend
looks at it while it waits, and ends the command as where Ctrl-C comes: by an exception from amidst the wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["NEVER", "Cancellation", "Cancelled", "cancellable", "current", "hold"]

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

_current: ContextVar[Cancellation] = ContextVar("sandbox_kit_cancellation", default=NEVER)


def current() -> Cancellation:
    """Return what the calls of the current context are held to."""
    return _current.get()


def hold(cancellation: Cancellation) -> None:
    """Hold the calls of the current context to *cancellation*, from now on."""
    _current.set(cancellation)


@contextmanager
def cancellable() -> Iterator[Cancellation]:
    """Make the commands of a block ones that other threads can cancel, by what is yielded."""
    cancellation = Cancellation()
    token = _current.set(cancellation)
    try:
        yield cancellation
    finally:
        _current.reset(token)
