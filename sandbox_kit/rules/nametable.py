"""Which of many segments match one name: a few look-ups, and tests only for what is left."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox_kit.rules.segments import ANY_CHAR, Gap, Part, Segment, Wild

__all__ = ["NameTable"]

_ANY_NAME: frozenset[tuple[Part, ...]] = frozenset({(Gap.STAR,), (ANY_CHAR, Gap.STAR), (Gap.STAR, ANY_CHAR)})

MAX_REST = 12
BLOCK = 3

_Tests = tuple[tuple[Wild, int], ...]
_Rest = list[tuple[str, Wild, int]]


class NameTable:
    """Segments sorted by the literal text that a name must be, start with or end with.

    Args:
        segments: each with the bits that it stands for.
    """

    def __init__(self, segments: Mapping[Segment, int]) -> None:
        self._literals: dict[str, int] = {}
        self._any_name = 0
        prefixes: _Affixes = {}
        suffixes: _Affixes = {}
        rest: _Rest = []
        for segment, bits in segments.items():
            if isinstance(segment, str):
                self._literals[segment] = bits
            elif segment.parts in _ANY_NAME:
                self._any_name |= bits
            elif len(segment.prefix) > len(segment.suffix):
                _add(prefixes, segment.prefix, segment, bits)
            elif segment.suffix:
                _add(suffixes, segment.suffix, segment, bits)
            else:
                rest.append((segment.required, segment, bits))
        self._prefixes = tuple(prefixes.items())
        self._suffixes = tuple(suffixes.items())
        self._rest, self._blocks = _by_block(rest)

    def find(self, name: str) -> int:
        """Return the bits of every segment that matches *name*, which is not empty."""
        found = self._literals.get(name, 0) | self._any_name
        for size, table in self._suffixes:
            if hit := table.get(name[-size:]):
                found |= hit[0]
                for segment, bits in hit[1]:
                    if segment.matches(name):
                        found |= bits
        for size, table in self._prefixes:
            if hit := table.get(name[:size]):
                found |= hit[0]
                for segment, bits in hit[1]:
                    if segment.matches(name):
                        found |= bits
        for required, segment, bits in self._rest:
            if required in name and segment.matches(name):
                found |= bits
        if self._blocks:
            for start in range(0, len(name) - BLOCK + 1, BLOCK):
                if tests := self._blocks.get(name[start : start + BLOCK]):
                    for segment, bits in tests:
                        if segment.matches(name):
                            found |= bits
        return found


# By the length of the affix, then by the affix: the bits of the segments that ask for nothing
# else, and the segments that do.
_Affixes = dict[int, dict[str, tuple[int, _Tests]]]


def _add(affixes: _Affixes, affix: str, segment: Wild, bits: int) -> None:
    table = affixes.setdefault(len(affix), {})
    certain, tests = table.get(affix, (0, ()))
    if segment.affixed and len(segment.parts) == 2:
        table[affix] = certain | bits, tests
    else:
        table[affix] = certain, (*tests, (segment, bits))


def _by_block(rest: _Rest) -> tuple[_Rest, dict[str, _Tests]]:
    """Split off the segments that hold a long literal text, when there are many.

    A name is cut into blocks. However a text lies in it, some block is wholly within the text:
    one that starts at an offset of the text with one of ``BLOCK`` remainders. For each remainder
    the text is found by the block that the fewest others are found by.
    """
    if len(rest) <= MAX_REST:
        return rest, {}
    blocks: dict[str, _Tests] = {}
    for required, segment, bits in rest:
        offsets = range(len(required) - BLOCK + 1)
        for remainder in range(BLOCK if len(required) >= 2 * BLOCK - 1 else 0):
            keys = [required[offset : offset + BLOCK] for offset in offsets[remainder::BLOCK]]
            rarest = min(keys, key=lambda key: len(blocks.get(key, ())))
            blocks[rarest] = (*blocks.get(rarest, ()), (segment, bits))
    return [entry for entry in rest if len(entry[0]) < 2 * BLOCK - 1], blocks
