"""The sessions that this process holds: how their sandboxes come up, make room and go down."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from weakref import WeakValueDictionary

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxClosedError, SandboxConflictError, SandboxError
from sandbox_kit.sessions.claims import Claims
from sandbox_kit.sessions.events import Events
from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.makers import Maker
from sandbox_kit.sessions.membership import Membership
from sandbox_kit.sessions.queries import check_same
from sandbox_kit.sessions.recovery import Recovery
from sandbox_kit.sessions.schema import Granted
from sandbox_kit.sessions.seat import Seat

__all__ = ["Residents"]

logger = logging.getLogger("sandbox_kit")


class Residents:
    """One process's part of the sessions beneath a root. A forked child has one of its own.

    A seat's lock is held while its sandbox changes. Who holds one only tries for another, and never
    waits for it, so that no two threads wait for each other.

    Args:
        ledger, layout, maker, events: of the manager.
    """

    def __init__(self, ledger: Ledger, layout: Layout, maker: Maker, events: Events) -> None:
        self.ledger = ledger
        self.recovery = Recovery(ledger, layout, maker)
        self._claims = Claims(ledger, self.recovery, maker.policy, events)
        self._layout = layout
        self._maker = maker
        self._events = events
        self._mutex = threading.Lock()
        self._seats: WeakValueDictionary[str, Seat] = WeakValueDictionary()
        self._resident: dict[str, Seat] = {}
        self._membership = Membership(ledger, layout.owners)
        self._offered = False

    def seat(self, session: str) -> Seat:
        """Return the one seat of a session."""
        with self._mutex:
            seat = self._seats.get(session)
            if seat is None:
                seat = self._seats[session] = Seat(session)
            return seat

    def seats(self) -> list[Seat]:
        """Return every seat, with a sandbox or not, in no order."""
        return list(self._seats.values())

    def resident(self) -> list[Seat]:
        """Return the seats with a sandbox, the least recently used first."""
        with self._mutex:
            seats = [seat for seat in self._resident.values() if seat.sandbox is not None]
        return sorted(seats, key=Seat.last_used)

    def held(self) -> list[Seat]:
        """Return the seats with a sandbox, also with one that is being started, in no order."""
        with self._mutex:
            return list(self._resident.values())

    @property
    def owner(self) -> Owner:
        """Who this process is to the others; raises SandboxClosedError after :meth:`leave`."""
        return self._membership.owner

    def lock_if_free(self, session: str) -> AbstractContextManager[bool]:
        """Hold the lock of a session, if nobody does; tell whether."""
        return self.seat(session).locked_if_free()

    @contextmanager
    def lock_if_empty(self, session: str) -> Generator[bool, None, None]:
        """Hold the lock of a session without a sandbox here, if nobody does; tell whether."""
        seat = self.seat(session)
        with seat.locked_if_free() as free:
            yield free and seat.sandbox is None

    def open(self, seat: Seat, tenant: str | None, runtime: str | None) -> Sandbox:
        """Return a sandbox that is alive, as :meth:`wake` does; one that died by itself is made anew."""
        if seat.sandbox is not None and not seat.sandbox.is_alive():
            self.hibernate(seat)
        return self.wake(seat, tenant, runtime, new=True)

    def wake(self, seat: Seat, tenant: str | None, runtime: str | None, *, new: bool = False) -> Sandbox:
        """Return the sandbox of a seat, whose lock the caller holds; start it, unless it is up.

        Args:
            new: whether the session may be a new one.

        Raises:
            SandboxClosedError: there is no such session any more, and it may not be new.
            SessionLimitError: a ceiling is reached, and nothing can hibernate to make room.
            SandboxConflictError: the session has another tenant or runtime.
            SandboxTimeoutError: another process took too long to start or stop it.
        """
        if seat.sandbox is not None:
            check_same(seat.id, tenant, runtime, seat.terms)
            return seat.sandbox
        owner = self.owner
        granted = self._claims.hold(seat.id, owner, tenant=tenant, runtime=runtime, make_room=self._make_room)
        if granted.found == "new" and not new:
            self.ledger.forget(seat.id)
            raise SandboxClosedError(f"session {seat.id} was purged by another process")
        sandbox = self._started(seat, granted, owner)
        seat.touch()
        self._events.note("woken" if granted.found == "hibernated" else "opened", seat.id)
        return sandbox

    def _started(self, seat: Seat, granted: Granted, owner: Owner) -> Sandbox:
        """Make and start the sandbox; after an error the slot is free, once the sandbox is known to be gone."""
        sandbox = None
        try:
            with self._mutex:
                self._resident[seat.id] = seat
            sandbox, seat.shared = self._maker.make(seat.id, granted.runtime, self._layout.make(seat.id))
            sandbox.start()
            if seat.file_timeout is not None:
                sandbox.file_timeout = seat.file_timeout
            self.ledger.settle(seat.id, self.owner)
            seat.sandbox, seat.terms = sandbox, (granted.tenant, granted.runtime)
        except BaseException:
            self._undo(seat, granted, owner, sandbox)
            raise
        return sandbox

    def _undo(self, seat: Seat, granted: Granted, owner: Owner, sandbox: Sandbox | None) -> None:
        self._forget(seat)
        try:
            if sandbox is not None and self._left_to_others(seat, owner):
                return
            if sandbox is not None:
                sandbox.stop()
            if granted.found == "new":
                self._layout.remove_empty(seat.id)
                self.ledger.forget(seat.id)
            else:
                self.ledger.release(seat.id, owner)
        except Exception as error:
            logger.warning("session %s did not start, and its slot stays taken for now: %s", seat.id, error)

    def _make_room(self, hibernation_helps: bool) -> bool:
        """Give back what nobody uses, or hibernate the least recently used session that may; tell whether."""
        if self.recovery.all(self.owner, self.lock_if_free) or self.reconcile():
            return True
        return hibernation_helps and any(self._spared(seat) for seat in self.resident())

    def _spared(self, seat: Seat) -> bool:
        """Hibernate a session, if it is one that may make room; tell whether."""
        return self.hibernate_if_idle(seat, self._maker.policy.snapshot().evict_idle_after or 0.0, for_room=True)

    def offer_room(self) -> None:
        """Tell the other processes what could make room for theirs, and hibernate what one of them wants."""
        least = self._maker.policy.snapshot().evict_idle_after or 0.0
        spare = {seat.id: seat for seat in self.resident() if seat.is_spare(least)}
        if spare or self._offered:
            for session in self.ledger.offer(self.owner, spare):
                self._spared(spare[session])
        self._offered = bool(spare)

    def hibernate_if_idle(self, seat: Seat, seconds: float, *, for_room: bool = False) -> bool:
        """Hibernate a session on which nothing was done for *seconds*; tell whether it was. What fails is logged.

        Args:
            for_room: only one that is not borrowed, and that no other process holds, so that a slot comes free.
        """
        with seat.locked_if_free() as free:
            if not free or seat.sandbox is None or not (seat.is_spare(seconds) if for_room else seat.is_idle(seconds)):
                return False
            try:
                return self.hibernate(seat, alone=for_room)
            except Exception as error:
                logger.warning("session %s could not hibernate: %s", seat.id, error)
                return False

    def hibernate(self, seat: Seat, *, alone: bool = False) -> bool:
        """Stop the sandbox of a seat, whose lock the caller holds; its files stay.

        What other processes use as well is left to them: the last one stops it.

        Args:
            alone: only if no other process holds it.

        Returns:
            Whether that was done; False where there was no sandbox, either.
        """
        sandbox = seat.sandbox
        if sandbox is None:
            return False
        if self.ledger.settle(seat.id, self.owner, "stopping") and alone:
            self.ledger.settle(seat.id, self.owner)
            return False
        if self._left_to_others(seat, self.owner):
            self._forget(seat)
            return True
        used = seat.last_used()
        self._stop(seat, sandbox)
        if self.ledger.release(seat.id, self.owner, last_used=used):
            self._events.note("hibernated", seat.id)
        return True

    def _left_to_others(self, seat: Seat, owner: Owner) -> bool:
        """Hold a session no more, if others hold it and use the same thing; tell whether."""
        return seat.shared and self.ledger.leave(seat.id, owner, last_used=seat.last_used())

    def _stop(self, seat: Seat, sandbox: Sandbox, *, purge: bool = False) -> None:
        """Stop a sandbox; after an error the session counts as live as before."""
        try:
            sandbox.stop(purge=purge)
        except BaseException:
            with suppress(SandboxError):
                self.ledger.settle(seat.id, self.owner)
            raise
        self._forget(seat)

    def _forget(self, seat: Seat) -> None:
        seat.sandbox = None
        with self._mutex:
            self._resident.pop(seat.id, None)

    def end(self, seat: Seat) -> None:
        """Hibernate a session, whose lock the caller holds, at the end of all.

        Where the ledger cannot be told, a sandbox that is this process's alone stops all the same.
        """
        try:
            self.hibernate(seat)
        except BaseException:
            if seat.sandbox is not None and not seat.shared:
                seat.sandbox.stop()
            raise
        finally:
            self._forget(seat)

    def purge(self, seat: Seat) -> None:
        """Remove a session, whose lock the caller holds, with its files; one that is not there is no error.

        Raises:
            SandboxConflictError: another process holds it.
        """
        sandbox = seat.sandbox
        self._layout.check_removable(seat.id)
        if sandbox is not None:
            self._stop_alone(seat, sandbox)
        elif self.ledger.session(seat.id) is not None or self._layout.has(seat.id):
            self._claims.hold_to_purge(seat.id, self.owner)
        else:
            return
        self.recovery.give_back(seat.id, self.owner)
        self._events.note("purged", seat.id)

    def _stop_alone(self, seat: Seat, sandbox: Sandbox) -> None:
        others = self.ledger.settle(seat.id, self.owner, "stopping")
        try:
            self._claims.check_alone(seat.id, others, self.owner)
        except SandboxConflictError:
            self.ledger.settle(seat.id, self.owner)
            raise
        self._stop(seat, sandbox, purge=True)
        self.ledger.settle(seat.id, self.owner, "purging")

    def reconcile(self) -> list[str]:
        """Give back slots of this process's own that no sandbox here goes with; return the sessions."""
        return self.recovery.own(self.owner, self.lock_if_empty)

    def leave(self) -> None:
        """Be nobody any more to the other processes; what is still held counts as a dead owner's."""
        self._membership.leave()
