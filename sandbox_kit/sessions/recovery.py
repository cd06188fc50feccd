"""What owners that live no more have left: slots of sandboxes that are gone, purges that were cut short."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from time import time

from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner, is_alive, remove_lock, remove_stray_locks
from sandbox_kit.sessions.makers import Maker

__all__ = ["Recovery", "SeatLock"]

logger = logging.getLogger("sandbox_kit")

SeatLock = Callable[[str], AbstractContextManager[bool]]
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

        One that it purges loses its files, and is forgotten; one that others hold as well stays as it is.

        Raises:
            SandboxError: its sandbox may still be there; the slot stays taken.
        """
        info, state = self._ledger.session(session), self._ledger.held_by(owner).get(session)
        if info is None or state is None:
            return
        purge = state == "purging"
        if not purge and self._ledger.leave(session, owner, last_used=info.last_used):
            return
        self._maker.end(session, info.runtime, self._layout.workspace(session), purge=purge)
        if purge:
            self._layout.remove(session)
            self._ledger.forget(session)
        else:
            self._ledger.release(session, owner)

    def all(self, owner: Owner, lock: SeatLock) -> list[str]:
        """Give back what all dead owners held; what cannot be given back now is logged, and kept.

        Returns:
            The sessions that were given back.
        """
        found: list[str] = []
        for dead in self.sorted_out(self._ledger.owners())[1]:
            found += [session for session in self._ledger.held_by(dead) if self._tried(session, dead, owner, lock)]
            if self._ledger.dismiss(dead):
                remove_lock(self._layout.owners, dead)
        return found

    def tidy(self) -> None:
        """Remove files that belong to nobody: what removals cut short left, and locks of owners that never enrolled."""
        self._layout.empty_trash()
        remove_stray_locks(self._layout.owners, {owner.token for owner in self._ledger.owners()})

    def own(self, owner: Owner, lock: SeatLock) -> list[str]:
        """Give back what *owner*, of this process, holds without a sandbox here: what failed calls left.

        Args:
            lock: free where there is no sandbox.

        Returns:
            The sessions that were given back; what fails is logged.
        """
        return [session for session in self._ledger.held_by(owner) if self._tried(session, None, owner, lock)]

    def _tried(self, session: str, dead: Owner | None, owner: Owner, lock: SeatLock) -> bool:
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

    def expired(self, owner: Owner, ttl: float, lock: SeatLock) -> list[str]:
        """Purge hibernated sessions that were not used for *ttl* seconds.

        Returns:
            The sessions that were purged; what fails is logged.
        """
        since = time() - ttl
        return [each for each in self._ledger.unused(since) if self._purged(each, owner, since, lock)]

    def _purged(self, session: str, owner: Owner, since: float, lock: SeatLock) -> bool:
        with lock(session) as free:
            try:
                if not free:
                    return False
                self._layout.check_removable(session)
                if self._ledger.claim_purge(session, owner, now=time(), unused_since=since) is not True:
                    return False
                self.give_back(session, owner)
            except Exception as error:
                logger.warning("session %s could not be purged: %s", session, error)
                return False
            return True
