"""Many patterns in order: which is the first that matches a path.

The positions of all patterns are the bits of one integer (see
:class:`~sandbox_kit.rules.globs.Positions`), laid out in order, so the lowest end that is
reached belongs to the first pattern that matches. What is reached at a directory is remembered,
and once many directories were asked about, a new one is searched for the names that matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from attrs import frozen

from sandbox_kit.rules.globs import Positions, Steps, path_names
from sandbox_kit.rules.namescan import compile_scan
from sandbox_kit.rules.nametable import NameTable

__all__ = ["GlobSet", "Member"]

MAX_REMEMBERED = 8192
MAX_KEY = 256
"""The longest directory or name, in characters, that is remembered."""
SCAN_AFTER = 128
"""After how many directories the regex that searches new ones has paid for being compiled."""


@frozen
class Member:
    """One pattern of a set.

    Attributes:
        index: what the set answers where it matches; ascending in a set, the same for the alternatives of one rule.
        steps: from the root.
        beneath: whether all beneath a match counts as matched too.
    """

    index: int
    steps: Steps
    beneath: bool


class GlobSet:
    """An ordered set of patterns, safe to use from several threads.

    Every path that it is asked about is absolute and normal: see
    :func:`~sandbox_kit.rules.globs.normal_path`.

    Args:
        members: the patterns, in order.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        members = tuple(members)
        positions = Positions.lay_out((member.steps, member.beneath) for member in members)
        self._start, self._loops, self._finals = positions.start, positions.loops, positions.finals
        self._ends = positions.ends
        self._indices = tuple(member.index for member in members)
        self._owners = dict(zip(self._ends, self._indices, strict=True))
        self._waits = positions.waits
        self._find = NameTable(positions.waits).find
        self._scan: re.Pattern[str] | None = None
        self._states: dict[str, int] = {}
        self._names = _Names(self._find)

    def first(self, path: str) -> int | None:
        """Return the index of the first member that matches *path*, or None."""
        directory, _, name = path.rpartition("/")
        state = self._states.get(directory)
        if state is None:
            state = self._enter(directory)
        if name:
            state = (state & self._find(name)) << 1 | state & self._loops
        ends = state & self._finals
        return self._owners[(ends & -ends).bit_length() - 1] if ends else None

    def every(self, path: str) -> list[int]:
        """Return the index of every member that matches *path*, ascending."""
        return self._members_at(self._run(path_names(path)) & self._finals)

    def beneath(self, directory: str) -> tuple[int | None, list[int]]:
        """Tell what can be reached strictly beneath *directory*.

        Returns:
            The index of the first member that matches everything there, or None; and those of
            the members before it that can match something there, ascending.
        """
        state = self._enter(directory if directory != "/" else "")
        whole = self._members_at(state & self._finals & self._loops)
        cover = whole[0] if whole else None
        going_on = state & (self._loops | ~self._finals)
        return cover, [index for index in self._members_at(going_on) if cover is None or index < cover]

    def _enter(self, directory: str) -> int:
        """The positions reached at *directory*, up to the first end that holds for all beneath it."""
        state = self._run(directory.split("/")[1:]) if self._scan is None else self._search(self._scan, directory)
        whole = state & self._finals & self._loops
        if whole:
            state &= whole ^ (whole - 1)
        if len(directory) <= MAX_KEY:
            _remember(self._states, directory, state)
            if len(self._states) == SCAN_AFTER and self._scan is None:
                self._scan = compile_scan(self._waits)
        return state

    def _run(self, names: Iterable[str]) -> int:
        state, loops, known = self._start, self._loops, self._names
        for name in names:
            state = (state & known[name]) << 1 | state & loops
        return state

    def _search(self, scan: re.Pattern[str], directory: str) -> int:
        """The same as :meth:`_run`; names that *scan* passes over lead to nothing new."""
        state, loops, end = self._start, self._loops, 0
        while hit := scan.search(directory, end):
            start = hit.start()
            if start > end:
                state &= loops
            end = directory.find("/", start + 1)
            if end < 0:
                end = len(directory)
            state = (state & self._names[directory[start + 1 : end]]) << 1 | state & loops
        return state & loops if end < len(directory) else state

    def _members_at(self, state: int) -> list[int]:
        return sorted({self._indices[bisect_left(self._ends, bit)] for bit in _bits(state)})


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


class _Names(dict[str, int]):
    """The positions whose next segment matches a name, found when they are first asked for."""

    def __init__(self, find: Callable[[str], int]) -> None:
        self._find = find

    def __missing__(self, name: str) -> int:
        found = self._find(name)
        if len(name) <= MAX_KEY:
            _remember(self, name, found)
        return found


def _remember(memory: dict[str, int], key: str, value: int) -> None:
    if len(memory) >= MAX_REMEMBERED:
        memory.clear()
    memory[key] = value
