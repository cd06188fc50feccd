"""Locks that a forked child finds free, whichever thread of its parent held them."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from weakref import WeakSet

__all__ = ["ForkedFreeLock"]


class ForkedFreeLock:
    """A lock for ``with``.

    What it protects must be whole after each single assignment: a child may find it between two of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _live.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be free; for a child that has one thread only."""
        self._lock = threading.Lock()


_live: WeakSet[ForkedFreeLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_live):
        lock.renew()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_renew_all)
