"""What becomes of things when the process forks, as job runners do: the one place that the system tells of it.

A child has one thread, and copies of all that the other threads of its parent held: locks that nobody
will let go of, descriptors of commands that are the parent's, connections that believe in locks which
a child does not have. Each such thing is told, for as long as it lives, in one of three ways.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

__all__ = [
    "Abandonable",
    "ForkedFreeLock",
    "Renewable",
    "Suspendable",
    "abandon_in_child",
    "renew_in_child",
    "suspend_while_forking",
]


class Abandonable(Protocol):
    """Something of which a forked child holds a useless copy."""

    def abandon(self) -> None:
        """Close the copy; do nothing that the parent could notice."""


class Renewable(Protocol):
    """Something that a forked child goes on using as its own."""

    def renew(self) -> None:
        """Let go of what is the parent's, and have every lock free: there is one thread."""


class Suspendable(Renewable, Protocol):
    """Something that no process may be forked amidst of."""

    def suspend(self) -> bool:
        """Have it at rest until :meth:`resume`; tell whether that could be done."""

    def resume(self) -> None:
        """Let it be used again, in the parent; called only where it is at rest."""


_abandoned: WeakSet[Abandonable] = WeakSet()
_renewed: WeakSet[Renewable] = WeakSet()
_suspended: WeakSet[Suspendable] = WeakSet()
_at_rest: list[Suspendable] = []
_forking = threading.Lock()
"""Held from before a fork until after it: what is at rest is so for one fork."""


def abandon_in_child(thing: Abandonable) -> None:
    """Have *thing* abandoned in every child that this process forks while *thing* lives."""
    _abandoned.add(thing)


def renew_in_child(thing: Renewable) -> None:
    """Have *thing* renewed in every child that this process forks while *thing* lives, and in those of that child."""
    _renewed.add(thing)


def suspend_while_forking(thing: Suspendable) -> None:
    """Have *thing* at rest at every fork while it lives, then resumed in the parent and renewed in the child."""
    _suspended.add(thing)
    _renewed.add(thing)


def _before() -> None:
    _forking.acquire()
    _at_rest[:] = [thing for thing in list(_suspended) if thing.suspend()]


def _in_parent() -> None:
    for thing in _at_rest:
        thing.resume()
    _at_rest.clear()
    _forking.release()


def _in_child() -> None:
    global _forking
    _forking = threading.Lock()
    _at_rest.clear()
    for useless in list(_abandoned):
        useless.abandon()
    _abandoned.clear()
    for thing in list(_renewed):
        thing.renew()


if sys.platform != "win32":
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


class ForkedFreeLock(AbstractContextManager[None]):
    """A reentrant lock that a forked child finds free, whichever thread of its parent held it.

    What it protects must be whole after each single assignment: a child may find it between two of them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        renew_in_child(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free, unless the thread that forked holds it; for a child that has no other one."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()
