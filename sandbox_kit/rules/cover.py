"""Proof that everything one pattern matches is matched by another.

The outer pattern's positions are moved along the inner pattern in place of a path: for each
thing that the inner one may meet there, only what certainly moves is moved. What cannot be
proven that way counts as not covered.
"""

from __future__ import annotations

from collections.abc import Sequence

from sandbox_kit.rules.globs import Glob
from sandbox_kit.rules.globsyntax import Alternative, Anchor
from sandbox_kit.rules.segments import ANY_CHAR, CharSet, Gap, Segment, Step, Wild

__all__ = ["covers_command", "covers_path"]

# A proof that would cost more than these is not tried.
MAX_CASES = 64
MAX_PAIRS = 1024
MAX_LENGTH = 512

# A segment among segments, a character or a set of them within one; None is a gap of any length.
Symbol = Segment | CharSet


def covers_path(outer: Glob, outer_beneath: bool, inner: Glob, inner_beneath: bool) -> bool:
    """Whether *outer* certainly matches every path that *inner* matches, whatever the work directory.

    Args:
        outer: one pattern.
        outer_beneath: whether it also matches all beneath a match.
        inner: the other pattern.
        inner_beneath: whether it also matches all beneath a match.
    """
    if len(outer.alternatives) * len(inner.alternatives) > MAX_PAIRS or len(outer.source + inner.source) > MAX_LENGTH:
        return False
    return all(
        any(_covers_alternative(wide, outer_beneath, narrow, inner_beneath) for wide in outer.alternatives)
        for narrow in inner.alternatives
    )


def covers_command(outer: str, inner: str) -> bool:
    """Whether the execute pattern *outer* certainly matches every text that *inner* matches."""
    if outer in ("*", inner):
        return True
    if any(char in outer + inner for char in "[\\") or len(outer + inner) > MAX_LENGTH:
        return False
    return all(any(_included(narrow, wide) for wide in _forms(outer)) for narrow in _forms(inner))


def _covers_alternative(outer: Alternative, outer_beneath: bool, inner: Alternative, inner_beneath: bool) -> bool:
    if outer.anchor is Anchor.WORK_DIR and inner.anchor is not Anchor.WORK_DIR:
        return False
    wide, narrow = _symbols(outer.segments), _symbols(inner.segments)
    if outer.anchor is Anchor.ANYWHERE:
        wide.insert(0, None)
    if inner.anchor is not Anchor.ROOT and outer.anchor is not Anchor.WORK_DIR:
        narrow.insert(0, None)
    if outer_beneath or outer.directory:
        wide.append(None)
    if inner_beneath or inner.directory:
        narrow.append(None)
    return _included(narrow, wide)


def _included(inner: Sequence[Symbol | None], outer: Sequence[Symbol | None]) -> bool:
    """Whether every sequence that *inner* stands for is one that *outer* stands for."""
    symbols = [symbol for symbol in outer if symbol is not None]
    loops = _loops(outer)
    anything = _fitting(None, symbols)
    cases = {1}
    for symbol in inner:
        if symbol is None:
            cases = _repeat(cases, anything, loops)
        else:
            fitting = _fitting(symbol, symbols)
            cases = {(case & fitting) << 1 | case & loops for case in cases}
        if 0 in cases or len(cases) > MAX_CASES:
            return False
    return all(case >> len(symbols) & 1 for case in cases)


def _loops(items: Sequence[object]) -> int:
    loops = bit = 0
    for item in items:
        if item is None:
            loops |= 1 << bit
        else:
            bit += 1
    return loops


def _fitting(inner: Symbol | None, symbols: Sequence[Symbol]) -> int:
    return sum(1 << bit for bit, outer in enumerate(symbols) if _fits(inner, outer))


def _repeat(cases: set[int], moved: int, loops: int) -> set[int]:
    """The cases after any number of steps by *moved*, none included; too many when they do not end."""
    found, new = set(cases), cases
    while new and len(found) <= MAX_CASES:
        new = {(case & moved) << 1 | case & loops for case in new} - found
        found |= new
    return found


def _fits(inner: Symbol | None, outer: Symbol) -> bool:
    """Whether whatever *inner* stands for, None for anything at all, *outer* stands for too."""
    if isinstance(outer, str):
        return inner == outer
    if isinstance(outer, CharSet):
        return outer == ANY_CHAR or _set_fits(inner, outer)
    if outer.parts == (Gap.STAR,):
        return True
    if isinstance(inner, str):
        return outer.matches(inner)
    return isinstance(inner, Wild) and _included(_chars(inner), _chars(outer))


def _set_fits(inner: Symbol | None, outer: CharSet) -> bool:
    if isinstance(inner, str):
        return outer.accepts(inner)
    if not isinstance(inner, CharSet) or inner.negated or outer.negated:
        return inner == outer
    return all(any(first <= span[0] and span[1] <= last for first, last in outer.ranges) for span in inner.ranges)


def _symbols(steps: Sequence[Step]) -> list[Symbol | None]:
    return [None if isinstance(step, Gap) else step for step in steps]


def _chars(wild: Wild) -> list[Symbol | None]:
    chars: list[Symbol | None] = []
    for part in wild.parts:
        chars.extend(part if isinstance(part, str) else [None if isinstance(part, Gap) else part])
    return chars


def _forms(pattern: str) -> list[list[Symbol | None]]:
    """What an execute pattern stands for: a trailing ``" *"`` also stands for nothing."""
    wildcards: dict[str, CharSet | None] = {"*": None, "?": ANY_CHAR}
    whole: list[Symbol | None] = [wildcards.get(char, char) for char in pattern]
    return [whole, whole[:-2]] if pattern.endswith(" *") and len(pattern) > 2 else [whole]
