"""Which of many execute patterns can match a text: a look-up of its start, and of literal texts in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sandbox_kit.rules.command_pattern import CommandPattern

__all__ = ["CommandIndex"]

START = 2
TELLING = 3
"""How long a text must be to tell much by being common to many patterns."""

_Needles = dict[str, dict[str, list[int]]]
"""By a text that a match must hold, then by another: the patterns."""


class CommandIndex:
    """Patterns by the first word or the first characters of a match, or else by literal texts that it must hold.

    Args:
        patterns: in the order of their indices.
    """

    def __init__(self, patterns: Sequence[CommandPattern]) -> None:
        self._by_word: dict[str, list[int]] = {}
        self._by_start: dict[str, _Needles] = {}
        self._anywhere: _Needles = {}
        common = Counter(text for pattern in patterns if pattern.first_word is None for text in pattern.literals)
        for index, pattern in enumerate(patterns):
            if pattern.first_word is not None:
                self._by_word.setdefault(pattern.first_word, []).append(index)
            else:
                started = len(pattern.prefix) >= START
                needles = self._by_start.setdefault(pattern.prefix[:START], {}) if started else self._anywhere
                first, second = _needles(pattern, common)
                needles.setdefault(first, {}).setdefault(second, []).append(index)

    def candidates(self, texts: Iterable[str]) -> list[int]:
        """Return the indices of the patterns that may match one of *texts*, ascending; the others do not."""
        found: list[int] = []
        for text in texts:
            found += self._by_word.get(text.partition(" ")[0], ())
            for needles in (self._by_start.get(text[:START]), self._anywhere):
                for needle, inner in needles.items() if needles else ():
                    if needle in text:
                        for second, indices in inner.items():
                            if second in text:
                                found += indices
        return sorted(set(found)) if found else found


def _needles(pattern: CommandPattern, common: Counter[str]) -> tuple[str, str]:
    """Two texts of *pattern*: the one that most others have too, so that one look rules all out; and the longest."""
    telling = [text for text in pattern.literals if len(text) >= TELLING]
    first = max(telling, key=lambda text: common[text], default=pattern.needle)
    second = next((text for text in pattern.literals if text != first), "")
    return first, second
