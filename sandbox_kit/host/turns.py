"""Turns at something that several holders use, in this process and in others of this user on this host.

One holder at a time has it, for as many calls at once as it likes. A call that comes back to it is told
whether another holder has had it meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from weakref import WeakValueDictionary

from sandbox_kit.errors import SandboxError, SandboxTimeoutError
from sandbox_kit.host.forks import renew_in_child
from sandbox_kit.host.private import private_directory

if sys.platform != "win32":
    import fcntl

__all__ = ["Turns"]

_PAUSE = 0.005
"""Seconds between two looks at what another process holds."""

_REST = 0.03
"""Seconds for which a holder leaves it to others who wait."""

_SLOTS = 2**20
_ID = 8
_SLOT = 16
"""Bytes for each thing in the file that processes share: the last holder's id, and whether somebody waits."""


class _Shared:
    """The file by which processes know of each other; where it cannot be had, they do not."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with a descriptor of one's own, as a forked child does: locks are the parent's."""
        self._fd: int | None = None
        self._opened = False
        self._held: dict[int, int] = {}
        self._mutex = threading.RLock()

    def acquire(self, slot: int) -> bool:
        """Hold *slot* for this process, as often as it is released again; whether that could be done."""
        with self._mutex:
            fd = self._descriptor()
            if fd is not None and not self._held.get(slot):
                try:
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot * _SLOT)
                except OSError:
                    os.pwrite(fd, b"\1", slot * _SLOT + _ID)
                    return False
            self._held[slot] = self._held.get(slot, 0) + 1
            return True

    def release(self, slot: int) -> bool:
        """Hold *slot* once less; whether others wait for it."""
        with self._mutex:
            self._held[slot] -= 1
            if self._held[slot] or self._fd is None:
                return False
            wanted = os.pread(self._fd, 1, slot * _SLOT + _ID) == b"\1"
            if wanted:
                os.pwrite(self._fd, b"\0", slot * _SLOT + _ID)
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, slot * _SLOT)
            return wanted

    def exchange(self, slot: int, holder: bytes) -> bytes:
        """Note who holds *slot*; return who was noted before, which is *holder* where nobody can tell."""
        with self._mutex:
            if self._fd is None:
                return holder
            last = os.pread(self._fd, _ID, slot * _SLOT)
            if last != holder:
                os.pwrite(self._fd, holder, slot * _SLOT)
            return last

    def _descriptor(self) -> int | None:
        if not self._opened:
            self._opened = True
            if sys.platform != "win32":
                with suppress(OSError, SandboxError):
                    directory = private_directory(Path(f"/tmp/sandbox_kit-{os.geteuid()}"))
                    self._fd = os.open(directory / "turns", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._fd


_shared = _Shared()
renew_in_child(_shared)


class _Place:
    """One thing, for the holders in this process."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.change = threading.Condition()
        self.holder: Turns | None = None
        self.last: bytes = b""
        self.calls = 0
        self.waiting = 0
        self._rested: Turns | None = None
        self._rests_until = 0.0

    def take(self, holder: Turns) -> bool:
        """Begin with *holder*, if nobody has it; :attr:`change` is held. Whether *holder* has it."""
        if self.holder is None and not self._is_resting(holder) and _shared.acquire(self.slot):
            last, self.last = self.last, holder.id
            displaced = _shared.exchange(self.slot, holder.id) != holder.id or last not in (b"", holder.id)
            self.holder = holder
            if displaced:
                holder.on_displaced()
        return self.holder is holder

    def _is_resting(self, holder: Turns) -> bool:
        return holder is self._rested and time.monotonic() < self._rests_until

    def leave(self, holder: Turns) -> None:
        """End a call; the last one lets others have it."""
        with self.change:
            self.calls -= 1
            if not self.calls:
                self.holder = None
                if _shared.release(self.slot) or self.waiting:
                    self._rested, self._rests_until = holder, time.monotonic() + _REST
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

    def call(self, deadline: float | None) -> AbstractContextManager[None]:
        """Hold the thing until the block ends.

        Args:
            deadline: on the clock of :func:`time.monotonic`; None waits for as long as another holder has it.

        Raises:
            SandboxTimeoutError: at the beginning of the block: the deadline came.
        """
        return _Held(self, self._place, deadline)


class _Held(AbstractContextManager[None]):
    """A call."""

    def __init__(self, turns: Turns, place: _Place, deadline: float | None) -> None:
        self._turns = turns
        self._place = place
        self._deadline = deadline

    def __enter__(self) -> None:
        place = self._place
        with place.change:
            while not place.take(self._turns):
                self._wait()
            place.calls += 1

    def _wait(self) -> None:
        place = self._place
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            raise SandboxTimeoutError("another handle had the sandbox until the time limit")
        pause = None if place.holder is not None else _PAUSE
        place.waiting += 1
        try:
            place.change.wait(pause if left is None else left if pause is None else min(left, pause))
        finally:
            place.waiting -= 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._place.leave(self._turns)
