"""What a manager and its handles share: one root, one policy, and this process's sessions."""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from pathlib import Path

from sandbox_kit.errors import SandboxClosedError, SandboxError
from sandbox_kit.host.forks import renew_in_child
from sandbox_kit.sessions.deadlines import Deadlines
from sandbox_kit.sessions.entry import SessionEntry
from sandbox_kit.sessions.events import Events
from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.makers import MORTAL
from sandbox_kit.sessions.making import Maker
from sandbox_kit.sessions.overrides import PolicyOverrides
from sandbox_kit.sessions.reaper import Reaped, Reaper
from sandbox_kit.sessions.table import SessionTable
from sandbox_kit.sessions.values import PolicyValues

__all__ = ["SessionService"]

logger = logging.getLogger("sandbox_kit")


class SessionService:
    """Lends sandboxes, and looks after those that nobody uses.

    It outlives its manager for as long as a handle is out. In a forked child it starts with nothing but the
    handles, which open sandboxes of the child's own. At exit it is shut down.

    Args:
        layout, maker, events: of the manager.
        overrides: the file that changes the policy; None for none.
        reap_every: in seconds; None for never.
        start_timeout: in seconds; None for no limit.
    """

    def __init__(
        self,
        layout: Layout,
        maker: Maker,
        events: Events,
        overrides: PolicyOverrides | None,
        reap_every: float | None,
        start_timeout: float | None,
    ) -> None:
        self._layout = layout
        self._maker = maker
        self._events = events
        self._overrides = overrides
        self._reap_every = reap_every
        self._start_timeout = start_timeout
        self._closed = False
        self.ledger = Ledger(layout.own, backend=maker.kind.name, mortal=MORTAL)
        self._begin()
        renew_in_child(self)
        _services.add(self)

    def _begin(self) -> None:
        self.table = SessionTable(self.ledger, self._layout, self._maker, self._events, self._start_timeout)
        self.deadlines = Deadlines()
        self._reaper: Reaper | None = None
        self._mutex = threading.Lock()

    def renew(self) -> None:
        """Begin in a forked child, where the sandboxes and threads are the parent's."""
        parents = self.table
        self._events.forget()
        self._begin()
        for entry in parents.entries():
            for handle in list(entry.borrowers):
                self.table.entry(entry.id).lend(handle)

    def workspace(self, session_id: str) -> Path:
        """Return where the files of a session are, or will be."""
        return self._layout.workspace(session_id)

    def values(self) -> PolicyValues:
        """Return the policy's values of the moment."""
        return self._maker.policy.snapshot()

    def admit(self) -> None:
        """Begin to open a session: look for a change of the policy, and see that idle ones are looked after.

        Raises:
            SandboxClosedError: it is shut down.
        """
        if self._closed:
            raise SandboxClosedError("the session manager is shut down: make another one")
        names = self._overrides.refresh() if self._overrides is not None else []
        if names:
            self._events.note("policy_changed", detail=", ".join(names))
        if self._reap_every is not None and self._reaper is None:
            with self._mutex:
                if self._reaper is None and not self._closed:
                    self._reaper = Reaper(self, self._reap_every)

    def deliver_events(self) -> None:
        """Tell of every event that was noted; hold no lock."""
        self._events.deliver()

    def close(self, session_id: str, *, purge: bool) -> None:
        """End a session in this process, as :meth:`SessionManager.close` does."""
        entry = self.table.entry(session_id)
        try:
            with entry.locked():
                if purge:
                    self.table.purge(entry)
                elif not self.table.hibernate(entry):
                    self.table.recover(entry)
                entry.borrowers.clear()
        finally:
            self.deliver_events()

    def reap(self, *, unknown: bool = False) -> Reaped:
        """Look after the sessions once, as :meth:`SessionManager.reap` does."""
        table, values = self.table, self.values()
        try:
            recovered = table.recovery.all(table.owner, table.lock_if_free)
            table.reconcile()
            table.offer_room()
            hibernated = [] if values.idle_timeout is None else self._hibernate_idle(values.idle_timeout)
            self.ledger.touch({entry.id: entry.last_used() for entry in table.resident()})
            purged = [] if values.workspace_ttl is None else self._purge_old(values.workspace_ttl)
            ttl = values.container_ttl
            cleared = [] if ttl is None else table.recovery.outdated(table.owner, ttl, table.lock_if_empty)
            kept = self._look_at_unknown(values.workspace_ttl, purged) if unknown else []
            table.recovery.tidy()
        finally:
            self.deliver_events()
        return Reaped(tuple(hibernated), tuple(purged), tuple(recovered), tuple(kept), tuple(cleared))

    def offer_room(self) -> None:
        """Let idle sessions make room for those of other processes."""
        try:
            self.table.offer_room()
        finally:
            self.deliver_events()

    def _hibernate_idle(self, seconds: float) -> list[str]:
        return [entry.id for entry in self.table.resident() if self.table.hibernate_if_idle(entry, seconds)]

    def _purge_old(self, ttl: float) -> list[str]:
        purged = self.table.recovery.expired(self.table.owner, ttl, self.table.lock_if_empty)
        self._note_purged(purged)
        return purged

    def _look_at_unknown(self, ttl: float | None, purged: list[str]) -> list[str]:
        """Purge, and add to *purged*, old workspaces that the ledger does not know; return those that stay."""
        table = self.table
        found = table.recovery.unknown()
        old = [] if ttl is None else table.recovery.purge_unknown(found, table.owner, ttl, table.lock_if_empty)
        self._note_purged(old)
        purged += old
        return [each for each in found if each not in old]

    def _note_purged(self, sessions: list[str]) -> None:
        for session in sessions:
            self._events.note("purged", session)

    def shutdown(self) -> None:
        """End everything in this process, as :meth:`SessionManager.shutdown` does."""
        self._closed = True
        entries = self.table.close()
        with self._mutex:
            reaper, self._reaper = self._reaper, None
        if reaper is not None:
            reaper.end()
        errors = [error for entry in entries if (error := self._ended(entry)) is not None]
        self.deadlines.end()
        try:
            self.table.leave()
        except SandboxError as error:
            errors.append(error)
        self.ledger.close()
        if errors:
            raise errors[0]

    def _ended(self, entry: SessionEntry) -> Exception | None:
        try:
            with entry.locked():
                entry.borrowers.clear()
                self.table.end(entry)
        except Exception as error:
            logger.warning("session %s could not be ended: %s", entry.id, error)
            return error
        finally:
            self.deliver_events()
        return None


_services: weakref.WeakSet[SessionService] = weakref.WeakSet()


def _shut_down_all() -> None:
    for service in list(_services):
        try:
            service.shutdown()
        except Exception as error:
            logger.warning("sessions could not be ended at exit: %s", error)


atexit.register(_shut_down_all)
