"""Sets of characters: ranges of code points, and the UTF-8 byte sequences that spell them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

__all__ = ["DIGIT", "SPACE", "TEXT", "WORD", "CharSet", "Sequence", "charset", "complement", "contains", "fold", "utf8"]

CharSet = tuple[tuple[int, int], ...]
"""Sorted, disjoint, inclusive ranges of code points."""

Sequence = tuple[tuple[int, int], ...]
"""One inclusive range for each byte of a character: ``((0xC3, 0xC3), (0x80, 0xBF))``."""

TEXT: CharSet = ((0x01, 0x09), (0x0B, 0x0C), (0x0E, 0xD7FF), (0xE000, 0x10FFFF))
"""Every character that a pattern can match: all but NUL, line feed and carriage return."""

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF)
_CASED_END = 0x20000


def charset(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """Return the set of all characters in *ranges* (inclusive, any order) that are in :data:`TEXT`."""
    clipped = ((max(low, first), min(high, last)) for low, high in ranges for first, last in TEXT)
    return _merged(pair for pair in clipped if pair[0] <= pair[1])


def _merged(ranges: Iterable[tuple[int, int]]) -> CharSet:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(chars: CharSet) -> CharSet:
    """Return every character of :data:`TEXT` that is not in *chars*."""
    edges = [-1, *(edge for low, high in chars for edge in (low - 1, high + 1)), 0x110000]
    gaps = ((edges[i] if i else 0, edges[i + 1]) for i in range(0, len(edges), 2))
    return charset((low, high) for low, high in gaps if low <= high)


def contains(chars: CharSet, code: int) -> bool:
    """Return whether *chars* has the character *code*."""
    return any(low <= code <= high for low, high in chars)


def _forms(code: int) -> Iterator[int]:
    """Yield the lower and upper case form of *code*, where that is another single character."""
    char = chr(code)
    for form in (char.lower(), char.upper()):
        if len(form) == 1 and form != char:
            yield ord(form)


@lru_cache(maxsize=1)
def _cased() -> tuple[tuple[int, int], ...]:
    return tuple((code, form) for code in range(_CASED_END) for form in _forms(code))


def fold(chars: CharSet) -> CharSet:
    """Return *chars* and the lower and upper case form of each, where that is a single character.

    So ``k`` also stands for ``K``, not for the Kelvin sign; ``ß`` stands for itself.
    """
    if sum(high - low for low, high in chars) < 256:
        forms = [form for low, high in chars for code in range(low, high + 1) for form in _forms(code)]
    else:
        forms = [form for code, form in _cased() if contains(chars, code)]
    return charset([*chars, *((form, form) for form in forms)])


DIGIT = charset([(0x30, 0x39)])
WORD = charset([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACE = charset([(0x09, 0x0D), (0x20, 0x20)])


@lru_cache(maxsize=256)
def utf8(chars: CharSet) -> tuple[Sequence, ...]:
    """Return the byte sequences that spell exactly the characters of *chars*, in order.

    No two of them can match at the same place.
    """
    return tuple(sequence for low, high in chars for sequence in _sequences(low, high))


def _sequences(low: int, high: int) -> Iterator[Sequence]:
    cut = _cut(low, high)
    if cut is None:
        yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))
    else:
        yield from _sequences(low, cut)
        yield from _sequences(cut + 1, high)


def _cut(low: int, high: int) -> int | None:
    """Return where low..high must be split to be one sequence of independent byte ranges; None: it is one."""
    for last in _LAST_OF_LENGTH:
        if low <= last < high:
            return last
    if high <= 0x7F:
        return None
    for bits in (6, 12, 18):
        mask = (1 << bits) - 1
        if low | mask != high | mask:
            if low & mask:
                return low | mask
            if high & mask != mask:
                return (high & ~mask) - 1
    return None
