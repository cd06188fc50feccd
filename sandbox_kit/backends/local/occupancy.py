"""Who runs commands in a workspace now: across processes by a lock, within this one by a list.

Commands under masks that overlap in time share one set of mounts, or wait for each other:
a living command could rename what a walk has yet to meet. The first walks and mounts; one
that comes while it lives enters a copy of its namespaces if it is held to the same terms and
all that must be kept from it now is kept from the first, and waits if not, or if the first belongs
to another process. Commands without masks may overlap each other, but not those with masks.

The lock is the kernel's, on a file of the user's own, one for each workspace; it ends with
the process that holds it, and a forked child has no part in it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable

from attrs import define, field

from sandbox_kit.backends.local.cover import Cover
from sandbox_kit.backends.local.locks import take_lock
from sandbox_kit.backends.local.namespace import Namespaces, Status
from sandbox_kit.backends.local.scratch import own_directory
from sandbox_kit.errors import SandboxTimeoutError

__all__ = ["Key", "Place", "occupy"]

Key = tuple[int, int]
"""Device and inode of a workspace."""

_POLL = 0.004
_REST = 4
"""How many times as long as a look at the workspace took it is left alone before the next."""

_OTHERS = "another command lives in the workspace, of another process or held to other rules"
_STALE = "another command lives in the workspace, from which something that the rules hide or protect now is not kept"


@define(eq=False)
class _Occupancy:
    """The commands of this process that live in one workspace.

    Attributes:
        lock: the descriptor that the lock is held by.
        terms: what those under masks are held to; None for those without.
        places: one for each command.
        namespaces: what later ones enter, once one has asked for it.
        cover: what is kept from all of them; None until the first has looked.
    """

    lock: int
    terms: object
    places: set[Place] = field(factory=set)
    namespaces: Namespaces | None = None
    cover: Cover | None = None

    def close(self) -> None:
        os.close(self.lock)
        for held in (self.namespaces, self.cover):
            if held is not None:
                held.close()


_occupied: dict[Key, _Occupancy] = {}
_dropped: deque[Place] = deque()
_mutex = threading.Lock()


def _forget_in_child() -> None:
    global _mutex
    _mutex = threading.Lock()
    for occupancy in _occupied.values():
        occupancy.close()
    _occupied.clear()
    _dropped.clear()


os.register_at_fork(after_in_child=_forget_in_child)


@define(eq=False)
class Place:
    """One command's part in the occupancy of a workspace.

    Attributes:
        status: what is said of the command.
        namespaces: what it is to enter; None for one that makes its own.
    """

    key: Key
    status: Status
    namespaces: Namespaces | None = None

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that the command is to be started with."""
        return (self.status.write, *(self.namespaces.handles.values() if self.namespaces is not None else ()))

    def is_held(self, cover: Cover) -> None:
        """Say what is kept from the command, the first, before it is started; takes over *cover*."""
        with _mutex:
            occupancy = _occupied[self.key]
            previous, occupancy.cover = occupancy.cover, cover
        if previous is not None:
            previous.close()

    def fits(self, is_held: Callable[[Cover], bool]) -> bool:
        """Whether the command may enter what it is to enter; one that enters nothing fits."""
        if self.namespaces is None:
            return True
        cover = _occupied[self.key].cover
        return cover is not None and is_held(cover)

    def leave(self) -> None:
        """Leave; the last one unlocks. Leaving twice is fine."""
        with _mutex:
            _remove(self)

    def drop(self) -> None:
        """Close from within the garbage collector, which may call in any thread, also one that holds the mutex."""
        self.status.close()
        _dropped.append(self)
        if _mutex.acquire(blocking=False):
            try:
                _remove_dropped()
            finally:
                _mutex.release()

    def close(self) -> None:
        """Leave, when the command's tree is dead. Closing twice is fine."""
        self.status.close()
        self.leave()


def _remove(place: Place) -> None:
    occupancy = _occupied.get(place.key)
    if occupancy is None or place not in occupancy.places:
        return
    occupancy.places.discard(place)
    if not occupancy.places:
        del _occupied[place.key]
        occupancy.close()


def _remove_dropped() -> None:
    while _dropped:
        _remove(_dropped.popleft())


def occupy(
    key: Key,
    terms: object,
    timeout: float,
    check: Callable[[], None],
    is_held: Callable[[Cover], bool] = lambda _cover: True,
) -> Place:
    """Take part in a workspace, as soon as who lives in it allows it.

    Args:
        key: which workspace.
        terms: all that the command is held to, compared by ``==``; None for one without masks.
        timeout: in seconds.
        check: called while it waits; what it raises ends the wait.
        is_held: whether what is kept from those that live there is all that must be kept from the command.

    Raises:
        SandboxTimeoutError: another command lives there all the time; says why that holds this one up.
        UnsupportedError: there is no place for the lock.
    """
    deadline = time.monotonic() + timeout
    status = Status()
    try:
        while True:
            began = time.monotonic()
            place = _attempt(key, terms, status)
            if place is not None and _fits(place, is_held):
                return place
            if time.monotonic() >= deadline:
                raise SandboxTimeoutError(_OTHERS if place is None else _STALE, timeout)
            check()
            time.sleep(max(_POLL, _REST * (time.monotonic() - began)))
    except BaseException:
        status.close()
        raise


def _fits(place: Place, is_held: Callable[[Cover], bool]) -> bool:
    """Whether *place* can be kept; it is left if not."""
    fits = False
    try:
        fits = place.fits(is_held)
    finally:
        if not fits:
            place.leave()
    return fits


def _attempt(key: Key, terms: object, status: Status) -> Place | None:
    with _mutex:
        _remove_dropped()
        occupancy = _occupied.get(key)
        if occupancy is None:
            lock = _lock(key, shared=terms is None)
            if lock is None:
                return None
            occupancy = _occupied[key] = _Occupancy(lock, terms)
            place = Place(key, status)
        elif occupancy.terms != terms:
            return None
        else:
            namespaces = _look(occupancy) if terms is not None else None
            if namespaces is None and terms is not None:
                return None
            place = Place(key, status, namespaces)
        occupancy.places.add(place)
        return place


def _look(occupancy: _Occupancy) -> Namespaces | None:
    """The namespaces to enter, if those that live have them by now."""
    if occupancy.namespaces is None:
        makers = [place.status for place in occupancy.places if place.namespaces is None]
        occupancy.namespaces = next((found for each in makers if (found := each.namespaces()) is not None), None)
    return occupancy.namespaces


def _lock(key: Key, *, shared: bool) -> int | None:
    """A descriptor that holds the lock; None while another process does."""
    path = os.path.join(own_directory(), f"{key[0]:x}-{key[1]:x}.lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if take_lock(fd, shared=shared) and os.fstat(fd).st_nlink:
            os.utime(fd)
            return fd
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None
