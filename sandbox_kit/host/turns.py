"""Turns at something that several holders use, in this process and in others of this user on this host.

One holder at a time has it, for as many calls at once as it likes. A call that comes back to it is told
whether another holder has had it meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from weakref import WeakValueDictionary

from sandbox_kit.errors import SandboxError, SandboxTimeoutError
from sandbox_kit.host.forks import renew_in_child
from sandbox_kit.host.private import shared_directory

if sys.platform != "win32":
    import fcntl

__all__ = ["TurnTimeoutError", "Turns"]

_PAUSE = 0.005
"""Seconds between two looks at what another process holds."""

_REST = 0.03
"""Seconds for which a holder leaves it to others who wait."""

_SLOTS = 2**20
_ID = 8
_SLOT = 16
"""Bytes for each thing in the file that processes share: the last holder's id, and whether somebody waits."""

_FREE, _WANTED = b"\0", b"\1"
_UNKNOWN = b"unknown"
"""Nobody's id: whoever comes next has to take it that another had the thing."""

_HELD = (errno.EAGAIN, errno.EACCES)


class TurnTimeoutError(SandboxTimeoutError):
    """The turn did not come in time: what waited for it was not begun."""


class _Shared:
    """The file by which processes know of each other; where it cannot be had, they do not."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with a descriptor of one's own, as a forked child does: locks are the parent's."""
        self._fd: int | None = None
        self._opened = False
        self._held: set[int] = set()
        self._mutex = threading.RLock()

    def acquire(self, slot: int) -> bool:
        """Hold *slot* for this process, which does not hold it; whether that could be done."""
        with self._mutex:
            fd = self._descriptor()
            if fd is not None:
                try:
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot * _SLOT)
                except OSError as error:
                    if error.errno in _HELD:
                        self._want(fd, slot)
                        return False
                    self._give_up()
            self._held.add(slot)
            return True

    def release(self, slot: int) -> None:
        """Hold *slot* no more."""
        with self._mutex:
            self._held.discard(slot)
            if self._fd is not None:
                with suppress(OSError):
                    fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, slot * _SLOT)

    def is_wanted(self, slot: int) -> bool:
        """Whether another process waits for *slot*, which this one holds, since :meth:`exchange`."""
        with self._mutex, suppress(OSError):
            return self._fd is not None and os.pread(self._fd, 1, slot * _SLOT + _ID) == _WANTED
        return False

    def exchange(self, slot: int, holder: bytes) -> bytes:
        """Note who holds *slot*, which nobody wants any more; return who was noted before.

        That is *holder* where nobody can tell.
        """
        with self._mutex:
            if self._fd is None:
                return holder
            try:
                last = os.pread(self._fd, _ID + 1, slot * _SLOT)
                if last != holder + _FREE:
                    os.pwrite(self._fd, holder + _FREE, slot * _SLOT)
            except OSError:
                self._give_up()
                return holder
            return last[:_ID]

    def _want(self, fd: int, slot: int) -> None:
        with suppress(OSError):
            os.pwrite(fd, _WANTED, slot * _SLOT + _ID)

    def _give_up(self) -> None:
        """Know of no other process until the file is opened again."""
        fd, self._fd, self._opened = self._fd, None, False
        if fd is not None:
            os.close(fd)

    def _descriptor(self) -> int | None:
        """The file, open; anew where somebody has removed it and nothing is held by it."""
        if self._fd is not None and not self._held and not os.fstat(self._fd).st_nlink:
            self._give_up()
        if not self._opened:
            self._opened = True
            if sys.platform != "win32":
                with suppress(OSError, SandboxError):
                    self._fd = os.open(shared_directory() / "turns", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._fd


_shared = _Shared()
renew_in_child(_shared)


class _Place:
    """One thing, for the holders in this process. Its :attr:`change` is held in every method but two."""

    def __init__(self, slot: int) -> None:
        self._slot = slot
        self.change = threading.Condition()
        self.holder: Turns | None = None
        self._last: bytes = b""
        self._calls = 0
        self._commands = 0
        self._waiting: list[Turns] = []
        self._rested: Turns | None = None
        self._rests_until = 0.0

    def join(self, holder: Turns, *, command: bool) -> bool:
        """Begin a call, if *holder* has the thing, or nobody; whether it has begun.

        While others wait for it, a holder begins no call that could keep it longer: only calls beside a
        command, which ends in its own time, and calls from within calls.
        """
        if self.holder is None:
            self._take(holder)
        elif not holder.is_inside and (command or not self._commands) and self._is_wanted(holder):
            return False
        if self.holder is not holder:
            return False
        self._calls += 1
        self._commands += command
        return True

    def _is_wanted(self, holder: Turns) -> bool:
        return any(other is not holder for other in self._waiting) or _shared.is_wanted(self._slot)

    def _take(self, holder: Turns) -> None:
        if (holder is self._rested and time.monotonic() < self._rests_until) or not _shared.acquire(self._slot):
            return
        try:
            last, self._last = self._last, holder.id
            if _shared.exchange(self._slot, holder.id) != holder.id or last not in (b"", holder.id):
                holder.on_displaced()
        except BaseException:
            self._last = _UNKNOWN
            _shared.release(self._slot)
            raise
        self.holder = holder

    def wait(self, holder: Turns, deadline: float | None) -> None:
        """Wait for a change, but not for longer than another process may take for one.

        Raises:
            TurnTimeoutError: the deadline has come.
        """
        left = _PAUSE if deadline is None else min(_PAUSE, deadline - time.monotonic())
        if left <= 0:
            raise TurnTimeoutError("another handle had the sandbox until the time limit: nothing was begun")
        self._waiting.append(holder)
        try:
            self.change.wait(left)
        finally:
            self._waiting.remove(holder)

    def leave(self, *, command: bool) -> None:
        """End a call; the last one lets others have the thing."""
        with self.change:
            self._calls -= 1
            self._commands -= command
            if not self._calls and self.holder is not None:
                if self._is_wanted(self.holder):
                    self._rested, self._rests_until = self.holder, time.monotonic() + _REST
                self.holder = None
                _shared.release(self._slot)
            self.change.notify_all()


class _Places:
    """What this process has turns at, by slot."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._all: WeakValueDictionary[int, _Place] = WeakValueDictionary()
        self._mutex = threading.Lock()

    def find(self, key: str) -> _Place:
        slot = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % _SLOTS
        with self._mutex:
            place = self._all.get(slot)
            if place is None:
                place = self._all[slot] = _Place(slot)
            return place


_places = _Places()
renew_in_child(_places)


def _go_on() -> None:
    """Wait on."""


class Turns:
    """One holder's turns.

    Args:
        key: what all holders call the thing.
        on_displaced: called at the beginning of a turn after another holder's, before any call goes on.
    """

    def __init__(self, key: str, on_displaced: Callable[[], None]) -> None:
        self.id = os.urandom(_ID)
        self.on_displaced = on_displaced
        self._place = _places.find(key)
        self._inside = threading.local()

    @property
    def is_inside(self) -> bool:
        """Whether the calling thread is within a call."""
        return bool(getattr(self._inside, "calls", 0))

    def call(
        self, deadline: float | None, *, command: bool = False, check: Callable[[], None] = _go_on
    ) -> AbstractContextManager[None]:
        """Hold the thing until the block ends.

        Args:
            deadline: on the clock of :func:`time.monotonic`; None waits for as long as another holder has it.
            command: whether calls beside it may go on while others wait: it ends in its own time.
            check: called now and then while it waits; what it raises ends the wait.

        Raises:
            TurnTimeoutError: at the beginning of the block: the deadline came.
        """
        return _Held(self, self._place, deadline, command=command, check=check)

    def _enter(self, change: int) -> None:
        self._inside.calls = getattr(self._inside, "calls", 0) + change


class _Held(AbstractContextManager[None]):
    """A call."""

    def __init__(
        self, turns: Turns, place: _Place, deadline: float | None, *, command: bool, check: Callable[[], None]
    ) -> None:
        self._turns = turns
        self._place = place
        self._deadline = deadline
        self._command = command
        self._check = check

    def __enter__(self) -> None:
        place = self._place
        with place.change:
            while not place.join(self._turns, command=self._command):
                self._check()
                place.wait(self._turns, self._deadline)
        self._turns._enter(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns._enter(-1)
        self._place.leave(command=self._command)
