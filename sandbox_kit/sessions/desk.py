"""What a manager and its handles share: one root, one policy, and this process's sessions."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref

from attrs import frozen

from sandbox_kit.errors import SandboxClosedError, SandboxError
from sandbox_kit.sessions.events import Events
from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.makers import Maker
from sandbox_kit.sessions.overrides import PolicyOverrides
from sandbox_kit.sessions.reaper import Reaper
from sandbox_kit.sessions.residents import Residents
from sandbox_kit.sessions.seat import Seat
from sandbox_kit.sessions.values import PolicyValues

__all__ = ["Desk", "Reaped"]

logger = logging.getLogger("sandbox_kit")


@frozen
class Reaped:
    """What one look at the sessions did, by id.

    Attributes:
        hibernated: those that were idle.
        purged: hibernated ones whose files were kept long enough.
        recovered: those whose owner had died.
    """

    hibernated: tuple[str, ...] = ()
    purged: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()


class Desk:
    """Lends sandboxes, and looks after those that nobody uses.

    It outlives its manager for as long as a handle is out. In a forked child it starts with nothing but the
    handles, which open sandboxes of the child's own. At exit it is shut down.

    Args:
        layout, maker, events: of the manager.
        overrides: the file that changes the policy; None for none.
        reap_every: in seconds; None for never.
    """

    def __init__(
        self,
        layout: Layout,
        maker: Maker,
        events: Events,
        overrides: PolicyOverrides | None,
        reap_every: float | None,
    ) -> None:
        self._layout = layout
        self._maker = maker
        self._events = events
        self._overrides = overrides
        self._reap_every = reap_every
        self._closed = False
        self.ledger = Ledger(layout.own)
        self._begin()
        _desks.add(self)

    def _begin(self) -> None:
        self.residents = Residents(self.ledger, self._layout, self._maker, self._events)
        self._reaper: Reaper | None = None
        self._mutex = threading.Lock()

    def _begin_in_child(self) -> None:
        parents = self.residents
        self._events.forget()
        self._begin()
        for seat in parents.seats():
            for handle in list(seat.borrowers):
                self.residents.seat(seat.id).lend(handle)

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
                self._reaper = self._reaper or Reaper(self, self._reap_every)

    def settled(self) -> None:
        """Tell of every event that was noted; hold no lock."""
        self._events.deliver()

    def close(self, session_id: str, *, purge: bool) -> None:
        """End a session in this process, as :meth:`SessionManager.close` does."""
        seat = self.residents.seat(session_id)
        try:
            with seat.locked():
                if purge:
                    self.residents.purge(seat)
                else:
                    self.residents.hibernate(seat)
                seat.borrowers.clear()
        finally:
            self.settled()

    def reap(self) -> Reaped:
        """Look after the sessions once, as :meth:`SessionManager.reap` does."""
        residents, values = self.residents, self.values()
        try:
            recovered = residents.recovery.all(residents.owner, residents.lock_if_free)
            residents.reconcile()
            residents.offer_room()
            hibernated = [] if values.idle_timeout is None else self._hibernate_idle(values.idle_timeout)
            self.ledger.touch({seat.id: seat.last_used() for seat in residents.resident()})
            purged = [] if values.workspace_ttl is None else self._purge_old(values.workspace_ttl)
            residents.recovery.tidy()
        finally:
            self.settled()
        return Reaped(tuple(hibernated), tuple(purged), tuple(recovered))

    def offer_room(self) -> None:
        """Let idle sessions make room for those of other processes."""
        try:
            self.residents.offer_room()
        finally:
            self.settled()

    def _hibernate_idle(self, seconds: float) -> list[str]:
        return [seat.id for seat in self.residents.resident() if self.residents.hibernate_if_idle(seat, seconds)]

    def _purge_old(self, ttl: float) -> list[str]:
        purged = self.residents.recovery.expired(self.residents.owner, ttl, self.residents.lock_if_empty)
        for session in purged:
            self._events.note("purged", session)
        return purged

    def shutdown(self) -> None:
        """End everything in this process, as :meth:`SessionManager.shutdown` does."""
        self._closed = True
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            reaper.end()
        errors = [error for seat in self.residents.held() if (error := self._ended(seat)) is not None]
        try:
            self.residents.leave()
        except SandboxError as error:
            errors.append(error)
        self.ledger.close()
        if errors:
            raise errors[0]

    def _ended(self, seat: Seat) -> Exception | None:
        try:
            with seat.locked():
                seat.borrowers.clear()
                self.residents.end(seat)
        except Exception as error:
            logger.warning("session %s could not be ended: %s", seat.id, error)
            return error
        finally:
            self.settled()
        return None


_desks: weakref.WeakSet[Desk] = weakref.WeakSet()


def _begin_in_child() -> None:
    for desk in list(_desks):
        desk._begin_in_child()


def _shut_down_all() -> None:
    for desk in list(_desks):
        try:
            desk.shutdown()
        except Exception as error:
            logger.warning("sessions could not be ended at exit: %s", error)


os.register_at_fork(after_in_child=_begin_in_child)
atexit.register(_shut_down_all)
