"""The tree of a pattern: what it is made of, and what follows from its shape."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from sandbox_kit.search.charset import CharSet, utf8

__all__ = [
    "EMPTY",
    "Alt",
    "Assertion",
    "Chars",
    "Concat",
    "Node",
    "Repeat",
    "literal",
    "required",
    "size",
    "trim",
    "ways",
]

CAP = 1_000_000


@frozen
class Chars:
    """One character of a set that is not empty."""

    chars: CharSet


@frozen
class Assertion:
    """An empty match where something holds.

    Attributes:
        kind: the start of the line, its end, a word boundary, or no word boundary.
        offset: where it stands in the pattern.
    """

    kind: Literal["^", "$", "b", "B"]
    offset: int = field(default=0, eq=False)


@frozen
class Concat:
    """One after the other; without items, the empty match."""

    items: tuple[Node, ...]


@frozen
class Alt:
    """Any one of at least two."""

    items: tuple[Node, ...]


@frozen
class Repeat:
    """*least* to *most* times; None is without end.

    Greedy or lazy is no part of it: only whether a line matches counts.
    """

    item: Node
    least: int
    most: int | None


Node: TypeAlias = Chars | Assertion | Concat | Alt | Repeat
EMPTY = Concat(())


def size(node: Node) -> int:
    """Return how many byte ranges the pattern spells, repetitions written out."""
    match node:
        case Chars(chars):
            return sum(map(len, utf8(chars)))
        case Assertion():
            return 2
        case Repeat(item, least, most):
            return (size(item) + 1) * (least + 1 if most is None else most)
        case _:
            return 1 + sum(map(size, node.items))


def ways(node: Node) -> int:
    """Return how many paths a backtracking matcher can try from one place, at most; CAP stands for too many."""
    match node:
        case Chars() | Assertion():
            return 1
        case Alt(items):
            return min(CAP, sum(map(ways, items)))
        case Concat(items):
            product = 1
            for item in items:
                product = min(CAP, product * ways(item))
            return product
        case _:
            return _repeat_ways(ways(node.item), node.least, node.most)


def _repeat_ways(each: int, least: int, most: int | None) -> int:
    if most is None:
        return CAP
    if each == 1:
        return most - least + 1
    total, power = 0, 1
    for count in range(most + 1):
        total += power if count >= least else 0
        power = min(CAP, power * each)
        if total >= CAP:
            return CAP
    return max(1, total)


def trim(node: Node) -> Node:
    """Return a simpler pattern that the same lines match.

    A match may begin and end anywhere, so what is optional at either end can go: ``.*foo.*`` is
    ``foo``, and ``\\s+$`` is ``\\s$``.
    """
    return _trim(_trim(node, 0), -1)


def _trim(node: Node, end: Literal[0, -1]) -> Node:
    match node:
        case Alt(items):
            return Alt(tuple(_trim(item, end) for item in items))
        case Repeat(item, least, _):
            outer = _trim(item, end) if least else EMPTY
            return outer if least == 1 or outer == EMPTY else Repeat(item, least, least)
        case Concat(items):
            return _trim_items(items, end)
        case _:
            return node


def _trim_items(items: tuple[Node, ...], end: Literal[0, -1]) -> Node:
    order = range(len(items)) if end == 0 else range(len(items) - 1, -1, -1)
    for index in order:
        outer = _trim(items[index], end)
        if outer != EMPTY:
            return Concat((outer, *items[index + 1 :]) if end == 0 else (*items[:index], outer))
    return EMPTY


def literal(node: Node) -> bytes | None:
    """Return the bytes that the pattern spells if it spells nothing else, else None."""
    match node:
        case Chars(((low, high),)) if low == high:
            return chr(low).encode()
        case Concat(items):
            parts = [literal(item) for item in items]
            return None if None in parts else b"".join(part for part in parts if part is not None)
        case Repeat(item, least, most) if least == most:
            part = literal(item)
            return None if part is None else part * least
        case _:
            return None


def required(node: Node) -> bytes | None:
    """Return the longest string found that every match holds; None when none is known."""
    whole = literal(node)
    if whole is not None:
        return whole or None
    match node:
        case Repeat(item, least, _) if least:
            return required(item)
        case Concat(items):
            return _longest_run(items)
        case _:
            return None


def _longest_run(items: tuple[Node, ...]) -> bytes | None:
    best, run = b"", b""
    for item in items:
        whole = literal(item)
        if whole is not None:
            run += whole
        else:
            best = max(best, run, required(item) or b"", key=len)
            run = b""
    return max(best, run, key=len) or None
