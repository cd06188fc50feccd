"""Who runs commands in a workspace now: across processes by a lock, within this one by a list.

Commands under masks that overlap in time share one set of mounts, or wait for each other:
a living command could rename what a walk has yet to meet. The first walks and mounts; one
that comes while it lives enters a copy of its namespaces if it is held to the same terms and
all that must be kept from it now is kept from the first, and waits if not, or if the first belongs
to another process. Commands without masks may overlap each other, but not those with masks.

Workspaces that lie in each other count as one that others live in, if one of both is under masks.

The locks are the kernel's, on files of the user's own, one for each workspace and one for how they
lie in each other; they end with the process that holds them, and a forked child has no part in them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from weakref import WeakSet, WeakValueDictionary

from attrs import define, field

from sandbox_kit.backends.local.cover import Cover
from sandbox_kit.backends.local.locks import take_lock
from sandbox_kit.backends.local.namespace import Namespaces, Status
from sandbox_kit.backends.local.nesting import NESTING, Key, take_lineage
from sandbox_kit.backends.local.scratch import own_directory
from sandbox_kit.errors import SandboxTimeoutError
from sandbox_kit.host.system import Descriptor

__all__ = ["Place", "occupy"]

_POLL = 0.004
_REST = 4
"""How many times as long as a look at the workspace took it is left alone before the next."""

_OTHERS = (
    "another command lives in the workspace, or in one above or beneath it, of another process or held to other rules: "
    "wait for its end, or for longer (timeout)"
)
_STALE = (
    "another command lives in the workspace, from which something that the rules hide or protect now is not kept: "
    "wait for its end, or for longer (timeout)"
)


@define(eq=False, weakref_slot=True)
class _Occupancy:
    """The commands of this process that live in one workspace; it ends, and its locks with it, with their places.

    Attributes:
        locks: what the locks are held by.
        terms: what those under masks are held to; None for those without.
        statuses: what is said of each that has namespaces of its own.
        namespaces: what later ones enter, once one has asked for it.
        cover: what is kept from all of them; None until the first has looked.
    """

    locks: list[Descriptor]
    terms: object
    statuses: WeakSet[Status] = field(factory=WeakSet)
    namespaces: Namespaces | None = None
    cover: Cover | None = None

    def close(self) -> None:
        """Let go of the locks, in a forked child."""
        for lock in self.locks:
            lock.close()


_occupied: WeakValueDictionary[Key, _Occupancy] = WeakValueDictionary()
_mutex = threading.Lock()


def _forget_in_child() -> None:
    global _mutex
    _mutex = threading.Lock()
    for occupancy in list(_occupied.values()):
        occupancy.close()
    _occupied.clear()


os.register_at_fork(after_in_child=_forget_in_child)


@define(eq=False)
class Place:
    """One command's part in the occupancy of a workspace; dropped, it is left.

    Attributes:
        status: what is said of the command.
        namespaces: what it is to enter; None for one that makes its own.
    """

    status: Status
    namespaces: Namespaces | None
    _occupancy: _Occupancy | None

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that the command is to be started with."""
        return (self.status.write, *(self.namespaces.handles.values() if self.namespaces is not None else ()))

    def is_held(self, cover: Cover) -> None:
        """Say what is kept from the command, the first, before it is started; takes over *cover*."""
        if self._occupancy is not None:
            self._occupancy.cover = cover

    def fits(self, is_held: Callable[[Cover], bool]) -> bool:
        """Whether the command may enter what it is to enter; one that enters nothing fits."""
        if self.namespaces is None or self._occupancy is None:
            return True
        cover = self._occupancy.cover
        return cover is not None and is_held(cover)

    def close(self) -> None:
        """Leave, when the command's tree is dead; the last one unlocks. Closing twice is fine."""
        self.status.close()
        self._occupancy = None


def occupy(
    lineage: Sequence[Key],
    terms: object,
    timeout: float,
    check: Callable[[], None],
    is_held: Callable[[Cover], bool] = lambda _cover: True,
) -> Place:
    """Take part in a workspace, as soon as who lives in it allows it.

    Args:
        lineage: the workspace, and the directories above it, up to the top.
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
    while True:
        began = time.monotonic()
        place = _attempt(lineage, terms, status)
        if place is not None and place.fits(is_held):
            return place
        reason, place = _OTHERS if place is None else _STALE, None
        if time.monotonic() >= deadline:
            status.close()
            raise SandboxTimeoutError(reason, timeout)
        check()
        time.sleep(max(_POLL, _REST * (time.monotonic() - began)))


def _attempt(lineage: Sequence[Key], terms: object, status: Status) -> Place | None:
    with _mutex:
        occupancy = _occupied.get(lineage[0])
        if occupancy is None:
            return _found(lineage, terms, status)
        if occupancy.terms != terms:
            return None
        if terms is None:
            return Place(status, None, occupancy)
        namespaces = _look(occupancy)
        return Place(status, namespaces, occupancy) if namespaces is not None else None


def _found(lineage: Sequence[Key], terms: object, status: Status) -> Place | None:
    """A place in an occupancy of its own; None while another process has the workspace, or one that overlaps it."""
    locks = [_opened(f"{lineage[0][0]:x}-{lineage[0][1]:x}.lock"), _opened(NESTING)]
    masked = terms is not None
    if not take_lock(locks[0].fd, shared=not masked) or not take_lineage(locks[1].fd, lineage, masked=masked):
        return None
    if not all(os.fstat(lock.fd).st_nlink for lock in locks):
        return None
    for lock in locks:
        os.utime(lock.fd)
    occupancy = _Occupancy(locks, terms)
    occupancy.statuses.add(status)
    place = Place(status, None, occupancy)
    _occupied[lineage[0]] = occupancy
    return place


def _look(occupancy: _Occupancy) -> Namespaces | None:
    """The namespaces to enter, if those that live have them by now."""
    if occupancy.namespaces is None:
        found = (status.namespaces() for status in list(occupancy.statuses))
        occupancy.namespaces = next((each for each in found if each is not None), None)
    return occupancy.namespaces


def _opened(name: str) -> Descriptor:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return Descriptor.of(os.open, os.path.join(own_directory(), name), flags, 0o600)
