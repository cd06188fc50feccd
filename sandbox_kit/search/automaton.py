"""Matches any pattern of the dialect against a line in linear time.

The pattern becomes a nondeterministic automaton over bytes (Thompson's construction), and that a
deterministic one, built while it runs, a state at a time: each byte of a line is then one look-up
in a table, whatever the pattern.

Source: Ken Thompson, "Regular Expression Search Algorithm", CACM 11(6), 1968; Russ Cox, "Regular
Expression Matching Can Be Simple And Fast", 2007.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import define, field

from sandbox_kit.search.charset import utf8
from sandbox_kit.search.clock import Clock
from sandbox_kit.search.syntax import Alt, Assertion, Chars, Concat, Node, Repeat

__all__ = ["MAX_CELLS", "Automaton"]

MAX_CELLS = 500_000
"""How large a table may grow: its cells, and the members of the sets that its rows stand for."""

Edge = tuple[int, int, int]
"""Lowest byte, highest byte, the state that they lead to."""

Before = Literal["start", "word", "other"]
"""What stands before the next byte."""

_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_UNKNOWN = -1
_ACCEPT = 0
_END = -1


@define
class _State:
    """One state of the nondeterministic automaton."""

    edges: list[Edge] = field(factory=list)
    empty: list[int] = field(factory=list)
    assertion: str | None = None


class _Program:
    """The nondeterministic automaton: built from its end, so that every target is known."""

    def __init__(self, node: Node) -> None:
        self.states: list[_State] = []
        self.shared: dict[Edge, int] = {}
        self.accept = self.add()
        self.start = self.build(node, self.accept)

    def add(self, edges: Iterable[Edge] = (), empty: Iterable[int] = (), assertion: str | None = None) -> int:
        self.states.append(_State(list(edges), list(empty), assertion))
        return len(self.states) - 1

    def build(self, node: Node, target: int) -> int:
        """Return a state from which *node* leads to *target*."""
        match node:
            case Chars():
                return self.add([self.first(sequence, target) for sequence in utf8(node.chars)])
            case Assertion(kind):
                return self.add(empty=[target], assertion=kind)
            case Alt(items):
                return self.add(empty=[self.build(item, target) for item in items])
            case Concat(items):
                for item in reversed(items):
                    target = self.build(item, target)
                return target
            case _:
                return self.repeat(node, target)

    def first(self, sequence: tuple[tuple[int, int], ...], target: int) -> Edge:
        """Return the edge into a chain of *sequence*; chains share their ends."""
        for low, high in reversed(sequence[1:]):
            edge = (low, high, target)
            if edge not in self.shared:
                self.shared[edge] = self.add([edge])
            target = self.shared[edge]
        return (*sequence[0], target)

    def repeat(self, node: Repeat, target: int) -> int:
        if node.most is None:
            loop = self.add(empty=[target])
            self.states[loop].empty.append(self.build(node.item, loop))
            target = loop
        else:
            end = target
            for _ in range(node.most - node.least):
                target = self.add(empty=[self.build(node.item, target), end])
        for _ in range(node.least):
            target = self.build(node.item, target)
        return target

    def byte_classes(self) -> bytes:
        """Return a table from each byte to the number of its class; bytes of one class act alike."""
        cuts = {edge for state in self.states for low, high, _ in state.edges for edge in (low, high + 1)}
        cuts |= {edge for byte in _WORD for edge in (byte, byte + 1)} if self.sees_words() else set()
        numbers = bytearray(256)
        number = 0
        for byte in range(256):
            number += byte in cuts and byte > 0
            numbers[byte] = number
        return bytes(numbers)

    def sees_words(self) -> bool:
        return any(state.assertion in ("b", "B") for state in self.states)


class Automaton:
    """A matcher that looks at each byte of a line once.

    Its table grows as lines are matched; a full one is begun anew. It is not for several threads
    at once.
    """

    def __init__(self, node: Node) -> None:
        self._program = _Program(node)
        self._classes = self._program.byte_classes()
        self._sample = {number: byte for byte, number in enumerate(self._classes)}
        self._width = max(self._classes) + 2
        self._reset()

    def _reset(self) -> None:
        self._table = [_ACCEPT] * self._width
        self._cells = self._width
        self._rows: dict[tuple[frozenset[int], Before], int] = {}
        self._keys: dict[int, tuple[frozenset[int], Before]] = {}
        self._first = self._row((frozenset([self._program.start]), "start"))

    def _row(self, key: tuple[frozenset[int], Before]) -> int:
        """Return where the row of a state begins in the table."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self._table)
            self._keys[row] = key
            self._table.extend([_UNKNOWN] * self._width)
            self._cells += self._width + len(key[0])
        return row

    def matches(self, line: bytes, clock: Clock | None = None) -> bool:
        """Return whether the pattern matches in *line*, which has no line end.

        Args:
            line: the bytes of one line.
            clock: limits the time; None waits as long as it takes.

        Raises:
            SandboxTimeoutError: the time is over.
        """
        table = self._table
        state = self._first
        for number in line.translate(self._classes):
            follow = table[state + number]
            if follow < 0:
                follow = self._follow(state, number, clock)
                table = self._table
            state = follow
        last = self._width - 1
        follow = table[state + last]
        return (self._follow(state, last, clock) if follow < 0 else follow) == _ACCEPT

    def _follow(self, row: int, number: int, clock: Clock | None) -> int:
        """Work out one cell of the table; the last of a row is for the end of the line."""
        if clock is not None:
            clock.check()
        states, before = self._keys[row]
        byte = self._sample.get(number, _END)
        reached = self._closure(states, before, byte)
        if self._program.accept in reached:
            follow = _ACCEPT
        elif byte == _END:
            follow = self._row((frozenset(), "other"))
        else:
            follow = self._target(reached, byte)
            if self._cells > MAX_CELLS:
                key = self._keys[follow]
                self._reset()
                return self._row(key)
        self._table[row + number] = follow
        return follow

    def _target(self, reached: set[int], byte: int) -> int:
        targets = {self._program.start}
        program = self._program.states
        for index in reached:
            for low, high, target in program[index].edges:
                if low <= byte <= high:
                    targets.add(target)
        return self._row((frozenset(targets), "word" if byte in _WORD else "other"))

    def _closure(self, states: frozenset[int], before: Before, byte: int) -> set[int]:
        """Return the states reached without a byte, where *byte* comes next."""
        program = self._program.states
        reached = set(states)
        pending = [index for index in states if program[index].empty]
        while pending:
            state = program[pending.pop()]
            if state.assertion is None or _holds(state.assertion, before, byte):
                new = [target for target in state.empty if target not in reached]
                reached.update(new)
                pending += new
        return reached


def _holds(assertion: str, before: Before, byte: int) -> bool:
    if assertion == "^":
        return before == "start"
    if assertion == "$":
        return byte == _END
    boundary = (before == "word") != (byte in _WORD)
    return boundary == (assertion == "b")
