"""What owners that live no more have left: slots of sandboxes that are gone, purges that were cut short."""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from sandbox_kit.sessions import clock
from sandbox_kit.sessions.archive import WorkspaceArchive
from sandbox_kit.sessions.changes import changed_since, is_open
from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner, held_tokens, is_alive, remove_lock, remove_stray_locks
from sandbox_kit.sessions.making import Maker

__all__ = ["EntryLock", "Recovery"]

logger = logging.getLogger("sandbox_kit")

EntryLock = Callable[[str], AbstractContextManager[bool]]
"""Holds, in this process, the lock of a session that nobody uses; tells whether."""


class Recovery:
    """Gives slots back, each once its sandbox is confirmed gone.

    Args:
        ledger: where the slots are.
        layout: where the files are.
        maker: ends what still runs.
    """

    def __init__(self, ledger: Ledger, layout: Layout, maker: Maker) -> None:
        self._ledger = ledger
        self._layout = layout
        self._maker = maker
        self._archive = WorkspaceArchive(layout.root)

    def sorted_out(self, owners: Iterable[Owner]) -> tuple[list[Owner], list[Owner]]:
        """Return those of *owners* that live, and those that do not."""
        lives = {owner: is_alive(owner, self._layout.owners) for owner in owners}
        return [each for each in lives if lives[each]], [each for each in lives if not lives[each]]

    def session(self, session: str, dead: Owner, owner: Owner) -> None:
        """Give back what *dead* held of one session, whose lock the caller holds.

        Raises:
            SandboxError: its sandbox may still be there; *owner* holds the slot from now on.
        """
        if self._ledger.take_over(session, dead, owner) is not None:
            self.give_back(session, owner)

    def give_back(self, session: str, owner: Owner) -> None:
        """Give back what *owner*, of this process, holds of a session that has no sandbox here.

        One that it purges loses its files, and is forgotten; one that it checks is forgotten alone; one that
        others hold as well stays as it is.

        Raises:
            SandboxError: its sandbox may still be there; the slot stays taken.
        """
        held = self._ledger.holding(session, owner)
        if held is None:
            return
        if held.state == "checking":
            self._ledger.forget(session)
            return
        purge = held.state == "purging"
        if not purge and self._ledger.leave(session, owner, last_used=held.last_used):
            return
        self._maker.end(session, held.runtime, self._layout.workspace(session), purge=purge, backend=held.backend)
        if purge:
            self._layout.remove(session)
            self._ledger.forget(session)
        else:
            self._ledger.release(session, owner)

    def all(self, owner: Owner, lock: EntryLock) -> list[str]:
        """Give back what all dead owners held; what cannot be given back now is logged, and kept.

        What is of another backend is left to a manager of that one, unless it ended with its process.

        Returns:
            The sessions that were given back.
        """
        found: list[str] = []
        for dead in self._dead():
            found += [session for session in self._ledger.held_by(dead) if self._tried(session, dead, owner, lock)]
            if self._ledger.dismiss(dead):
                remove_lock(self._layout.owners, dead)
        return found

    def _dead(self) -> list[Owner]:
        return self.sorted_out(self._ledger.owners())[1]

    def left_to_others(self) -> list[str]:
        """Return the backends, sorted, whose own managers alone give back what dead owners hold of them."""
        return sorted({backend for dead in self._dead() for backend in self._ledger.backends_held_by(dead)})

    def tidy(self) -> None:
        """Remove files that belong to nobody: what removals cut short left, and locks of owners that never enrolled."""
        self._layout.empty_trash()
        remove_stray_locks(self._layout.owners, {owner.token for owner in self._ledger.owners()})

    def own(self, owner: Owner, lock: EntryLock) -> list[str]:
        """Give back what *owner*, of this process, holds without a sandbox here: what failed calls left.

        Args:
            lock: free where there is no sandbox.

        Returns:
            The sessions that were given back; what fails is logged.
        """
        return [session for session in self._ledger.held_by(owner) if self._tried(session, None, owner, lock)]

    def _tried(self, session: str, dead: Owner | None, owner: Owner, lock: EntryLock) -> bool:
        with lock(session) as free:
            try:
                if free and dead is not None:
                    self.session(session, dead, owner)
                elif free:
                    self.give_back(session, owner)
            except Exception as error:
                logger.warning("session %s: nobody uses its sandbox, which is not known to be gone: %s", session, error)
                return False
            return free

    def expired(self, owner: Owner, ttl: float, lock: EntryLock) -> list[str]:
        """Purge hibernated sessions that were not used for *ttl* seconds.

        Returns:
            The sessions that were purged; what fails is logged.
        """
        since = clock.now() - ttl
        return [each for each in self._ledger.unused(since) if self._purged(each, owner, since, lock)]

    def _purged(self, session: str, owner: Owner, since: float, lock: EntryLock) -> bool:
        with lock(session) as free:
            try:
                if not free:
                    return False
                self._layout.check_removable(session)
                if self._ledger.claim_purge(session, owner, now=clock.now(), unused_since=since) is not True:
                    return False
                self.give_back(session, owner)
            except Exception as error:
                logger.warning("session %s could not be purged: %s", session, error)
                return False
            return True

    def outdated(self, owner: Owner, ttl: float, lock: EntryLock) -> list[str]:
        """Remove what stopped sandboxes keep of hibernated sessions that were not used for *ttl* seconds; files stay.

        Returns:
            The sessions whose sandboxes kept something; what fails is logged.
        """
        since = clock.now() - ttl
        old = self._ledger.unused(since)
        try:
            kept = self._maker.kept(self._layout.root) if old else ()
        except Exception as error:
            logger.warning("what is kept of stopped sandboxes cannot be told: %s", error)
            return []
        return [each for each in old if each in kept and self._cleared(each, owner, since, lock)]

    def _cleared(self, session: str, owner: Owner, since: float, lock: EntryLock) -> bool:
        with lock(session) as free:
            try:
                if not free or not self._ledger.claim_idle(session, owner, unused_since=since):
                    return False
                self._maker.end(session, None, self._layout.workspace(session), purge=True)
                self._ledger.release(session, owner)
            except Exception as error:
                logger.warning("session %s: what is kept of its sandbox could not be removed: %s", session, error)
                return False
            return True

    def unknown(self) -> list[str]:
        """Return the ids of the workspaces that the ledger does not know, sorted."""
        found = self._archive.sessions()  # before the ledger is read, so that what is opened meanwhile is known
        known = {info.id for info in self._ledger.sessions()}
        return [each for each in found if each not in known]

    def purge_unknown(self, sessions: Iterable[str], owner: Owner, ttl: float, lock: EntryLock) -> list[str]:
        """Purge those of *sessions* that the ledger does not know and in which nothing changed for *ttl* seconds.

        What a process has open stays. None is purged where an owner lives that the ledger does not know:
        the sessions may be its own, under another ledger.

        Returns:
            The sessions that were purged; what fails is logged.
        """
        since = clock.now() - ttl
        if self._has_unknown_owner():
            logger.warning("workspaces that the ledger does not know are kept: so are owners that live")
            return []
        return [each for each in sessions if self._purged_unknown(each, owner, since, lock)]

    def _has_unknown_owner(self) -> bool:
        """Whether an owner lives that the ledger does not know, or that cannot be told."""
        try:
            held = held_tokens(self._layout.owners)
        except OSError:
            return True
        return not held <= {owner.token for owner in self._ledger.owners()}

    def _purged_unknown(self, session: str, owner: Owner, since: float, lock: EntryLock) -> bool:
        with lock(session) as free:
            try:
                self._layout.check_removable(session)
                if not free or self._has_changed(session, since):
                    return False
                return self._removed_unknown(session, owner, since)
            except Exception as error:
                logger.warning("session %s could not be purged: %s", session, error)
                return False

    def _removed_unknown(self, session: str, owner: Owner, since: float) -> bool:
        """Hold an unknown session, look again, and remove it if it is quiet; tell whether it was.

        It is forgotten on any way out. Whoever dies here leaves nothing that another one would remove.
        """
        try:
            if not self._ledger.claim_unknown(session, owner, now=clock.now()):
                return False
            if self._has_changed(session, since) or is_open(self._layout.root / session):
                return False
            self._maker.end(session, None, self._layout.workspace(session), purge=True)
            self._layout.remove(session)
            return True
        finally:
            held = self._ledger.holding(session, owner)
            if held is not None and held.state == "checking":
                self._ledger.forget(session)

    def _has_changed(self, session: str, since: float) -> bool:
        """Whether anything that a purge removes changed at *since* or later, or is not to be looked at."""
        try:
            workspace = self._layout.workspace(session)
            return not stat.S_ISDIR(workspace.lstat().st_mode) or changed_since(workspace.parent, since)
        except OSError:
            return True
