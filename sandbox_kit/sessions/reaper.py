"""The thread that looks after idle sessions from time to time, and what one look does."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import Protocol

from attrs import frozen

__all__ = ["Reapable", "Reaped", "Reaper"]

logger = logging.getLogger("sandbox_kit")

_END_WITHIN = 5.0
_TICK = 0.5


@frozen
class Reaped:
    """What one look at the sessions did, by id.

    Attributes:
        hibernated: those that were idle.
        purged: hibernated ones whose files were kept long enough.
        recovered: those whose owner had died.
        unknown: workspaces that the ledger does not know, where they were looked for.
        cleared: hibernated ones whose stopped containers were kept long enough, and are removed; their files stay.
    """

    hibernated: tuple[str, ...] = ()
    purged: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()


class Reapable(Protocol):
    """Something that is looked after."""

    def reap(self) -> object:
        """Look after it once."""

    def offer_room(self) -> None:
        """Do what others wait for."""


class Reaper:
    """Calls ``reap()`` again and again, until :meth:`end` or as long as somebody else refers to *subject*.

    In between it calls ``offer_room()``, at least twice a second.

    Args:
        subject: its errors are logged, and do not end the thread.
        every: how long to wait between two calls of ``reap()``, in seconds.
    """

    def __init__(self, subject: Reapable, every: float) -> None:
        self._subject = weakref.ref(subject)
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="sandbox_kit-reaper", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the thread; wait for what it is doing, but not for long."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_END_WITHIN)

    def _serve(self) -> None:
        due = time.monotonic() + self._every
        while not self._ended.wait(min(self._every, _TICK)):
            is_due = time.monotonic() >= due
            if is_due:
                due = time.monotonic() + self._every
            if not self._look_after(is_due):
                return

    def _look_after(self, is_due: bool) -> bool:
        """Do one round; tell whether the subject is still there."""
        subject = self._subject()
        if subject is None:
            return False
        try:
            subject.offer_room()
            if is_due:
                subject.reap()
        except Exception:
            logger.exception("the sessions could not be looked after")
        return True
