"""An entry: one session in this process, with its sandbox while that is up, and who uses it."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxConflictError, SandboxTimeoutError
from sandbox_kit.sessions import clock
from sandbox_kit.sessions.making import Made
from sandbox_kit.sessions.schema import SessionTerms
from sandbox_kit.sessions.starting import Start
from sandbox_kit.types import Usage

__all__ = ["Borrower", "Call", "SessionEntry"]

logger = logging.getLogger("sandbox_kit")

_T = TypeVar("_T")
_PATIENCE = 120.0
"""How long a caller waits while a sandbox is started or stopped by another thread, in seconds."""

_LATE_WITHIN = 5.0
"""How long one waits for a start that another caller has given up, in seconds."""


class Borrower(Protocol):
    """A handle of a session."""

    def keep(self, entry: SessionEntry) -> None:
        """Refer to *entry*, which lives as long as somebody does."""


class Call:
    """One call under way, for as long as somebody refers to it: an interrupt may keep it from being left."""


class SessionEntry:
    """One session in this process. Whoever changes its sandbox holds its lock; using one takes it for a moment.

    Attributes:
        id: the session's.
        made: what it runs in, started; None while it is hibernated, or not held by this process.
        starting: the last start; it may be under way, or be given up and go on.
        terms: of the session, once it had a sandbox.
        borrowers: handles that were given out and not returned.
        file_timeout: of its sandboxes; None for their own default.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.made: Made | None = None
        self.starting: Start | None = None
        self.terms: SessionTerms | None = None
        self.borrowers: weakref.WeakSet[Borrower] = weakref.WeakSet()
        self.file_timeout: float | None = None
        self._lock = threading.RLock()
        self._holder = 0
        self._counting = threading.RLock()
        self._calls: weakref.WeakSet[Call] = weakref.WeakSet()
        self._in_use: list[tuple[weakref.ReferenceType[Any], Callable[[Any], bool]]] = []
        self._last_used = time.monotonic()

    @property
    def sandbox(self) -> Sandbox | None:
        """What it runs in; None where it has none here."""
        made = self.made
        return None if made is None else made.sandbox

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Hold the lock.

        Raises:
            SandboxTimeoutError: a sandbox was being started or stopped all the time; or a start was given up, and
                goes on.
            SandboxConflictError: what starts or stops its sandbox asks for it.
        """
        thread, starting = threading.get_ident(), self.starting
        if self._holder == thread or (starting is not None and starting.thread == thread):
            raise SandboxConflictError(f"session {self.id} is being started or stopped by the caller itself")
        try:
            if not self._lock.acquire(timeout=_PATIENCE):
                raise SandboxTimeoutError(f"session {self.id} was busy for {_PATIENCE} s", _PATIENCE)
            self._holder = thread
            self._await_start()
            yield
        finally:  # nothing is called before the lock is free: an interrupt may come with any call
            if self._holder == thread:
                self._holder = 0
            try:
                self._lock.release()
            except RuntimeError:
                logger.debug("session %s: the wait for it was broken off", self.id)

    @contextmanager
    def locked_if_free(self) -> Generator[bool, None, None]:
        """Hold the lock if nobody else does, nor a start goes on; tell whether. Who holds it goes on holding it."""
        thread = threading.get_ident()
        if self._holder == thread:
            yield True
            return
        free = True  # until told otherwise: an interrupt may come once the lock is held
        try:
            free = self._lock.acquire(blocking=False)
            if free:
                self._holder = thread
            yield free and self._has_no_start(0)
        finally:
            if self._holder == thread:
                self._holder = 0
            if free:
                try:
                    self._lock.release()
                except RuntimeError:
                    logger.debug("session %s: the try for it was broken off", self.id)

    def _has_no_start(self, within: float) -> bool:
        """Whether no start goes on, at the latest *within* so many seconds."""
        return self.starting is None or self.starting.wait(within)

    def _await_start(self) -> None:
        """Wait for a start that was given up, but not for long."""
        if not self._has_no_start(_LATE_WITHIN):
            message = f"session {self.id}: a start that was given up goes on, and keeps its slot; try again later"
            raise SandboxTimeoutError(message, _LATE_WITHIN)

    def enter(self, call: Call) -> None:
        """Count *call* as under way; call it with the lock held."""
        with self._counting:
            self._calls.add(call)

    def leave(self, call: Call) -> None:
        """Count *call* no more; leaving one that never entered is fine."""
        with self._counting:
            if call in self._calls:
                self._calls.discard(call)
                self._last_used = time.monotonic()

    def lend(self, borrower: Borrower) -> None:
        """Count *borrower* as one of those that have a handle."""
        borrower.keep(self)
        self.borrowers.add(borrower)
        self.touch()

    def take_back(self, borrower: Borrower) -> None:
        """Count it no more; taking back twice is fine."""
        self.borrowers.discard(borrower)
        self.touch()

    def usage(self) -> Usage:
        """Return what its sandbox in this process uses now; nothing is known where it has none here."""
        sandbox = self.sandbox
        return Usage() if sandbox is None else sandbox.usage()

    def touch(self) -> None:
        """Note that the session is used now."""
        self._last_used = time.monotonic()

    def watch(self, thing: _T, in_use: Callable[[_T], bool]) -> _T:
        """Count the session as busy while somebody has *thing* and *in_use* says so; return it."""
        with self._counting:
            self._in_use.append((weakref.ref(thing), in_use))
        return thing

    def idle_for(self) -> float | None:
        """Return for how many seconds nothing was done with it; None while something is."""
        with self._counting:
            watched = [*self._in_use]
        ended = [each for each in watched if not _goes_on(*each)]  # which may take long to tell
        with self._counting:
            self._in_use = [each for each in self._in_use if each not in ended]
            if self._calls or self._in_use:
                self._last_used = time.monotonic()
                return None
            return time.monotonic() - self._last_used

    def is_idle(self, seconds: float) -> bool:
        """Whether nothing was done with it for *seconds*; call it without the lock, as things may take long to tell."""
        idle = self.idle_for()
        return idle is not None and idle >= seconds

    def is_still_idle(self, seconds: float) -> bool:
        """Whether that holds, with the lock held, of one that was idle just before; asks nothing that is watched."""
        with self._counting:
            is_quiet = not self._calls and not self._in_use
            return is_quiet and time.monotonic() - self._last_used >= seconds

    def is_spare(self, seconds: float) -> bool:
        """Whether nothing was done with it for *seconds*, and nobody has a handle or changes it now."""
        if not self.is_idle(seconds):
            return False
        with self.locked_if_free() as free:
            return free and not self.borrowers and self.is_still_idle(seconds)

    def last_used(self) -> float:
        """Return when it was last used, in seconds since the epoch: now, while something is done with it."""
        return clock.now() - (self.idle_for() or 0.0)


def _goes_on(thing: weakref.ReferenceType[Any], in_use: Callable[[Any], bool]) -> bool:
    known = thing()
    return known is not None and in_use(known)
