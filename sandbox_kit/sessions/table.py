"""The sessions that this process holds: how their sandboxes come up, make room and go down."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from weakref import WeakValueDictionary

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxClosedError, SandboxConflictError, SandboxError, SandboxUnavailableError
from sandbox_kit.sessions.claims import Claims
from sandbox_kit.sessions.entry import SessionEntry
from sandbox_kit.sessions.events import Events
from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.making import Made, Maker
from sandbox_kit.sessions.membership import Membership
from sandbox_kit.sessions.queries import check_same
from sandbox_kit.sessions.recovery import Recovery
from sandbox_kit.sessions.schema import Granted, SessionTerms
from sandbox_kit.sessions.starting import Start

__all__ = ["SessionTable"]

logger = logging.getLogger("sandbox_kit")


class SessionTable:
    """One process's part of the sessions beneath a root. A forked child has one of its own.

    An entry's lock is held while its sandbox changes. Who holds one only tries for another, and never
    waits for it, so that no two threads wait for each other.

    Args:
        ledger, layout, maker, events: of the manager.
        start_timeout: how long a start may take, in seconds; None for as long as it takes.
    """

    def __init__(
        self, ledger: Ledger, layout: Layout, maker: Maker, events: Events, start_timeout: float | None
    ) -> None:
        self.ledger = ledger
        self.recovery = Recovery(ledger, layout, maker)
        self._claims = Claims(ledger, self.recovery, maker.policy, events)
        self._layout = layout
        self._maker = maker
        self._events = events
        self._mutex = threading.Lock()
        self._entries: WeakValueDictionary[str, SessionEntry] = WeakValueDictionary()
        self._resident: dict[str, SessionEntry] = {}
        self._membership = Membership(ledger, layout.owners)
        self._start_timeout = start_timeout
        self._going_on: set[Start] = set()
        self._offered = False
        self._closed = False
        self._left = False

    def entry(self, session: str) -> SessionEntry:
        """Return the one entry of a session."""
        with self._mutex:
            entry = self._entries.get(session)
            if entry is None:
                entry = self._entries[session] = SessionEntry(session)
            return entry

    def entries(self) -> list[SessionEntry]:
        """Return every entry, with a sandbox or not, in no order."""
        return list(self._entries.values())

    def resident(self) -> list[SessionEntry]:
        """Return the entries with a sandbox, the least recently used first."""
        with self._mutex:
            entries = [entry for entry in self._resident.values() if entry.sandbox is not None]
        return sorted(entries, key=SessionEntry.last_used)

    def close(self) -> list[SessionEntry]:
        """Let no sandbox start from now on; return the entries with one, also with one that is being started."""
        with self._mutex:
            self._closed = True
            return list(self._resident.values())

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosedError("the session manager is shut down: make another one")

    @property
    def owner(self) -> Owner:
        """Who this process is to the others; raises SandboxClosedError after :meth:`leave`."""
        return self._membership.owner

    def lock_if_free(self, session: str) -> AbstractContextManager[bool]:
        """Hold the lock of a session, if nobody does; tell whether."""
        return self.entry(session).locked_if_free()

    @contextmanager
    def lock_if_empty(self, session: str) -> Generator[bool, None, None]:
        """Hold the lock of a session without a sandbox here, if nobody does; tell whether."""
        entry = self.entry(session)
        with entry.locked_if_free() as free:
            yield free and entry.sandbox is None

    def open(self, entry: SessionEntry, tenant: str | None, runtime: str | None) -> Sandbox:
        """Return a sandbox that is alive, as :meth:`wake` does; one that died by itself is made anew."""
        if entry.sandbox is not None and not entry.sandbox.is_alive():
            self.hibernate(entry)
        return self.wake(entry, tenant, runtime, new=True)

    def wake(self, entry: SessionEntry, tenant: str | None, runtime: str | None, *, new: bool = False) -> Sandbox:
        """Return the sandbox of an entry, whose lock the caller holds; start it, unless it is up.

        Args:
            new: whether the session may be a new one.

        Raises:
            SandboxClosedError: there is no such session any more, and it may not be new; or :meth:`close` was called.
            SessionLimitError: a ceiling is reached, and nothing can hibernate to make room.
            SandboxConflictError: the session has another tenant, runtime or backend.
            SandboxTimeoutError: another process took too long to start or stop it.
        """
        self._check_open()
        if entry.sandbox is not None and entry.terms is not None:
            check_same(entry.id, SessionTerms(tenant, runtime, entry.terms.backend), entry.terms)
            return entry.sandbox
        owner = self.owner
        try:
            granted = self._claims.hold(
                entry.id, owner, tenant=tenant, runtime=runtime, make_room=self._make_room, check=self._check_open
            )
        except SandboxUnavailableError:
            self._check_open()  # who is nobody any more holds nothing in the ledger
            raise
        if granted.found == "new" and not new:
            self.ledger.forget(entry.id)
            raise SandboxClosedError(f"session {entry.id} was purged by another process")
        sandbox = self._started(entry, granted, owner)
        entry.touch()
        self._events.note("woken" if granted.found == "hibernated" else "opened", entry.id)
        return sandbox

    def _started(self, entry: SessionEntry, granted: Granted, owner: Owner) -> Sandbox:
        """Make and start the sandbox; after an error the slot is free, once the sandbox is known to be gone."""
        made: list[Made] = []
        start = Start(partial(self._bring_up, entry, granted, made), f"session {entry.id}: its sandbox")
        try:
            with self._mutex:
                self._check_open()
                self._resident[entry.id] = entry
            entry.starting = start
            if self._maker.kind.is_remote:
                start.run(self._start_timeout)
            else:
                start.run_here()
            sandbox = made[0].sandbox
            if entry.file_timeout is not None:
                sandbox.file_timeout = entry.file_timeout
            self.ledger.set_state(entry.id, self.owner)
            entry.made, entry.terms = made[0], granted.terms
        except BaseException:
            self._forget(entry)
            undo = partial(self._undo, entry, granted, owner, made)
            if not self._goes_on(start, undo):
                undo()
            raise
        return sandbox

    def _bring_up(self, entry: SessionEntry, granted: Granted, made: list[Made]) -> None:
        workspace = self._layout.make(entry.id, for_others=self._maker.kind.writes_as_others)
        joins = granted.found == "live"
        made.append(self._maker.make(entry.id, granted.terms.runtime, workspace, joins=joins))
        made[0].sandbox.start()

    def _goes_on(self, start: Start, undo: Callable[[], None]) -> bool:
        """Whether a start that is given up goes on: it keeps its slot, and *undo* is called when it ends."""
        with self._mutex:
            self._going_on.add(start)
        goes_on = start.abandon(partial(self._end_late, start, undo))
        if not goes_on:
            with self._mutex:
                self._going_on.discard(start)
        return goes_on

    def _end_late(self, start: Start, undo: Callable[[], None]) -> None:
        try:
            undo()
        finally:
            with self._mutex:
                self._going_on.discard(start)
                is_last = self._left and not self._going_on
            if is_last:
                self._membership.leave()
                self.ledger.close()

    def _undo(self, entry: SessionEntry, granted: Granted, owner: Owner, made: list[Made]) -> None:
        try:
            if made and self._left_to_others(entry.id, made[0], owner, entry.last_used()):
                return
            for each in made:
                each.sandbox.stop()
            if granted.found == "new":
                self._layout.remove_empty(entry.id)
                self.ledger.forget(entry.id)
            else:
                self.ledger.release(entry.id, owner)
        except Exception as error:
            logger.warning("session %s did not start, and its slot stays taken for now: %s", entry.id, error)

    def _make_room(self, hibernation_helps: bool) -> bool:
        """Give back what nobody uses, or hibernate the least recently used session that may; tell whether."""
        if self.recovery.all(self.owner, self.lock_if_free) or self.reconcile():
            return True
        return hibernation_helps and any(self._spared(entry) for entry in self.resident())

    def _spared(self, entry: SessionEntry) -> bool:
        """Hibernate a session, if it is one that may make room; tell whether."""
        return self.hibernate_if_idle(entry, self._maker.policy.snapshot().evict_idle_after or 0.0, for_room=True)

    def offer_room(self) -> None:
        """Tell the other processes what could make room for theirs, and hibernate what one of them wants."""
        least = self._maker.policy.snapshot().evict_idle_after or 0.0
        spare = {entry.id: entry for entry in self.resident() if entry.is_spare(least)}
        if spare or self._offered:
            for session in self.ledger.offer(self.owner, spare):
                self._spared(spare[session])
        self._offered = bool(spare)

    def hibernate_if_idle(self, entry: SessionEntry, seconds: float, *, for_room: bool = False) -> bool:
        """Hibernate a session on which nothing was done for *seconds*; tell whether it was. What fails is logged.

        Args:
            for_room: only one that is not borrowed, and that no other process holds, so that a slot comes free.
        """
        if not entry.is_idle(seconds):
            return False
        with entry.locked_if_free() as free:
            if not free or entry.sandbox is None or not entry.is_still_idle(seconds):
                return False
            if for_room and entry.borrowers:
                return False
            try:
                return self.hibernate(entry, alone=for_room)
            except Exception as error:
                logger.warning("session %s could not hibernate: %s", entry.id, error)
                return False

    def hibernate(self, entry: SessionEntry, *, alone: bool = False) -> bool:
        """Stop the sandbox of an entry, whose lock the caller holds; its files stay.

        What other processes use as well is left to them: the last one stops it.

        Args:
            alone: only if no other process holds it.

        Returns:
            Whether that was done; False where there was no sandbox, either.
        """
        made = entry.made
        if made is None:
            return False
        others = self.ledger.set_state(entry.id, self.owner, "stopping")
        if self._claims.living(entry.id, others, self.owner) and alone:
            self.ledger.set_state(entry.id, self.owner)
            return False
        used = entry.last_used()
        if self._left_to_others(entry.id, made, self.owner, used):
            self._forget(entry)
            return True
        self._stop(entry, made.sandbox)
        if self.ledger.release(entry.id, self.owner, last_used=used):
            self._events.note("hibernated", entry.id)
        return True

    def _left_to_others(self, session: str, made: Made, owner: Owner, used: float) -> bool:
        """Hold a session no more, if others hold it and use the same thing; tell whether."""
        return made.shared and self.ledger.leave(session, owner, last_used=used)

    def _stop(self, entry: SessionEntry, sandbox: Sandbox, *, purge: bool = False) -> None:
        """Stop a sandbox; after an error the session counts as live as before."""
        try:
            sandbox.stop(purge=purge)
        except BaseException:
            with suppress(SandboxError):
                self.ledger.set_state(entry.id, self.owner)
            raise
        self._forget(entry)

    def _forget(self, entry: SessionEntry) -> None:
        entry.made = None
        with self._mutex:
            self._resident.pop(entry.id, None)

    def end(self, entry: SessionEntry) -> None:
        """Hibernate a session, whose lock the caller holds, at the end of all.

        Where the ledger cannot be told, a sandbox that is this process's alone stops all the same.
        """
        try:
            self.hibernate(entry)
        except BaseException:
            if entry.made is not None and not entry.made.shared:
                entry.made.sandbox.stop()
            raise
        finally:
            self._forget(entry)

    def purge(self, entry: SessionEntry) -> None:
        """Remove a session, whose lock the caller holds, with its files; one that is not there is no error.

        Raises:
            SandboxConflictError: another process holds it.
        """
        sandbox = entry.sandbox
        self._layout.check_removable(entry.id)
        if sandbox is not None:
            self._stop_alone(entry, sandbox)
        elif self.ledger.session(entry.id) is not None or self._layout.has(entry.id):
            self._claims.hold_to_purge(entry.id, self.owner)
        else:
            return
        self.recovery.give_back(entry.id, self.owner)
        self._events.note("purged", entry.id)

    def _stop_alone(self, entry: SessionEntry, sandbox: Sandbox) -> None:
        others = self.ledger.set_state(entry.id, self.owner, "stopping")
        try:
            self._claims.check_alone(entry.id, others, self.owner)
        except SandboxConflictError:
            self.ledger.set_state(entry.id, self.owner)
            raise
        self._stop(entry, sandbox, purge=True)
        self.ledger.set_state(entry.id, self.owner, "purging")

    def recover(self, entry: SessionEntry) -> None:
        """Give back what dead owners hold of one session, whose lock the caller holds.

        Raises:
            SandboxConflictError: it has another backend.
        """
        if self.ledger.session(entry.id) is not None:
            self._claims.recover(entry.id, self.owner)

    def reconcile(self) -> list[str]:
        """Give back slots of this process's own that no sandbox here goes with; return the sessions."""
        return self.recovery.own(self.owner, self.lock_if_empty)

    def leave(self) -> None:
        """Be nobody any more to the other processes; what is still held counts as a dead owner's.

        Where a start goes on, that is so once it has ended.
        """
        with self._mutex:
            self._left = True
            goes_on = bool(self._going_on)
        if not goes_on:
            self._membership.leave()
