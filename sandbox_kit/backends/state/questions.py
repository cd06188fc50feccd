"""What a call asks about files in memory, beside its last question."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox_kit.paths import join, relative
from sandbox_kit.primitives import Authorize, Operations
from sandbox_kit.types import Identity

__all__ = ["ask_each", "ask_entries", "moved", "names_of"]


def names_of(typed: str, real: str) -> tuple[str, ...]:
    """Return the two names of one target, or the one that they are."""
    return (typed,) if typed == real else (typed, real)


def ask_each(operations: Operations, authorize: Authorize, names: Sequence[str]) -> None:
    """Ask for *names* of different targets, which have no object yet."""
    for name in names:
        for operation in operations:
            authorize(operation, (name,))


def ask_entries(
    operations: Operations, authorize: Authorize, entries: Sequence[Identity], top: str, typed: str, real: str
) -> None:
    """Ask for each of *entries* beneath *top*, as the one that it is, by its names beneath *typed* and *real*."""
    above = len(top.rstrip("/"))
    others = [name.rstrip("/") for name in names_of(typed, real)]
    for entry in entries:
        below = entry.name[above:]
        names = tuple([other + below for other in others])
        for operation in operations:
            authorize(operation, names, identity=entry)


def moved(name: str, top: str, other: str) -> str:
    """Return *name*, which lies beneath *top* or is it, as it is called beneath *other*."""
    rest = relative(name, top)
    return join(other, rest) if rest else other
