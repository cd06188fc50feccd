"""How many jobs may be under way at once in a process, and how they are all ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Protocol
from weakref import WeakValueDictionary

from sandbox_kit.errors import SandboxClosedError
from sandbox_kit.host.forks import renew_in_child

__all__ = ["Room", "room_of"]


class _Endable(Protocol):
    def end(self) -> None: ...


class Room:
    """Where the attempts at one job are, a bounded number at once.

    Args:
        places: how many.
    """

    def __init__(self, places: int) -> None:
        self._inside: set[_Endable] = set()
        self._closed = False
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(places):
            self._places.put(None)

    @contextmanager
    def place(self, attempt: _Endable) -> Iterator[None]:
        """Wait for a place, and keep it.

        Raises:
            SandboxClosedError: the room is closed.
        """
        self._places.get()
        try:
            self._inside.add(attempt)
            if self._closed:
                raise SandboxClosedError("the jobs were given up")
            yield
        finally:
            self._inside.discard(attempt)
            self._places.put(None)

    def close(self) -> None:
        """End all that are inside, and let nobody else in."""
        self._closed = True
        for attempt in list(self._inside):
            with suppress(RuntimeError):  # no more threads: then it ends by itself
                attempt.end()


class _Rooms:
    """The rooms of this process, by their jobs' keys, each as long as somebody is in it."""

    def __init__(self) -> None:
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Have none, in a forked child: who is in its parent's rooms is not here."""
        self._lock = threading.Lock()
        self._rooms: WeakValueDictionary[str, Room] = WeakValueDictionary()

    def room(self, key: str, places: int) -> Room:
        with self._lock:
            found = self._rooms.get(key)
            if found is None:
                found = self._rooms[key] = Room(places)
            return found


_rooms = _Rooms()


def room_of(key: str, places: int) -> Room:
    """The room of the job that has the *key*, in this process; it lasts while somebody holds it."""
    return _rooms.room(key, places)
