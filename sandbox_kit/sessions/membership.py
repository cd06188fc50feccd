"""Who a process is to the others that use the same ledger."""

from __future__ import annotations

import threading
from pathlib import Path

from sandbox_kit.errors import SandboxClosedError
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner, OwnerLock, remove_lock

__all__ = ["Membership"]


class Membership:
    """A process's part in a ledger: nobody until it first holds something, and nobody again at the end.

    Args:
        ledger: where it is enrolled.
        directory: where the owners' lock files are.
    """

    def __init__(self, ledger: Ledger, directory: Path) -> None:
        self._ledger = ledger
        self._directory = directory
        self._mutex = threading.Lock()
        self._lock: OwnerLock | None = None
        self._left = False

    @property
    def owner(self) -> Owner:
        """Who it is, from now on at the latest.

        Raises:
            SandboxClosedError: after :meth:`leave`.
        """
        with self._mutex:
            if self._left:
                raise SandboxClosedError("the session manager is shut down: make another one")
            if self._lock is None:
                lock = OwnerLock(self._directory)
                self._ledger.enrol(lock.owner)
                self._lock = lock
            return self._lock.owner

    def leave(self) -> None:
        """Be nobody any more; what is still held counts as a dead owner's. Leaving twice is fine."""
        with self._mutex:
            lock, self._lock, self._left = self._lock, None, True
        if lock is None:
            return
        try:
            gone = self._ledger.dismiss(lock.owner)
        finally:
            lock.release()
        if gone:
            remove_lock(self._directory, lock.owner)
