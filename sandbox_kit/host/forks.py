"""What a forked child must let go of.

A process that forks, as job runners do, copies the descriptors of commands that run and
of supervisors that wait. The child closes its copies, touches nothing else, and so the
parent's commands go on undisturbed.
"""

from __future__ import annotations

import os
import sys
from typing import Protocol
from weakref import WeakSet


class Abandonable(Protocol):
    """Something of which a forked child holds a useless copy."""

    def abandon(self) -> None:
        """Close the copy; do nothing that the parent could notice."""


_live: WeakSet[Abandonable] = WeakSet()


def abandon_in_child(thing: Abandonable) -> None:
    """Have *thing* abandoned in every child that this process forks while *thing* lives."""
    _live.add(thing)


def _abandon_all() -> None:
    for thing in list(_live):
        thing.abandon()
    _live.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_abandon_all)
