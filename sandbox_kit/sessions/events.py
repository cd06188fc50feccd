"""What happens to sessions, told to a callback and to the log."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Literal

from attrs import field, frozen

from sandbox_kit.arguments import check_callable
from sandbox_kit.sessions import clock

__all__ = ["Events", "SessionEvent"]

logger = logging.getLogger("sandbox_kit")

Kind = Literal["opened", "woken", "hibernated", "refused", "purged", "policy_changed"]


@frozen
class SessionEvent:
    """Something that happened.

    Attributes:
        kind: ``"opened"`` (a new session, or one that another process holds as well), ``"woken"``,
            ``"hibernated"``, ``"refused"`` (a ceiling was reached), ``"purged"`` or ``"policy_changed"``.
        session_id: which session; None where it is about none.
        detail: more, in a few words: the ceiling, or the names of the policy's fields.
        time: when, in seconds since the epoch.
    """

    kind: Kind
    session_id: str | None = None
    detail: str = ""
    time: float = field(factory=lambda: clock.now())


class Events:
    """Events in the order in which they happened, kept until nobody holds a lock any more.

    Args:
        callback: called with each event, in the thread that delivers; what it raises is logged.
    """

    def __init__(self, callback: Callable[[SessionEvent], object] | None) -> None:
        check_callable(callback, "on_event")
        self._callback = callback
        self._pending: deque[SessionEvent] = deque()

    def note(self, kind: Kind, session_id: str | None = None, detail: str = "") -> None:
        """Keep an event for the next delivery."""
        self._pending.append(SessionEvent(kind, session_id, detail))

    def forget(self) -> None:
        """Drop what was not delivered yet."""
        self._pending.clear()

    def deliver(self) -> None:
        """Tell of every event that is kept. Hold no lock: the callback may ask anything of the manager."""
        while self._pending:
            try:
                event = self._pending.popleft()
            except IndexError:
                return
            about = "sessions" if event.session_id is None else f"session {event.session_id}"
            logger.info("%s: %s%s", about, event.kind, f" ({event.detail})" if event.detail else "")
            self._tell(event)

    def _tell(self, event: SessionEvent) -> None:
        if self._callback is None:
            return
        try:
            self._callback(event)
        except Exception:
            logger.exception("on_event failed for %s", event)
