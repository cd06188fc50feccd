"""Which of many execute patterns can match a text: a look-up of its first word, and of literal texts in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sandbox_kit.rules.command_pattern import CommandPattern

__all__ = ["CommandIndex"]


class CommandIndex:
    """Patterns by the first word that a match must have, or else by a literal texts that it must hold.

    Args:
        patterns: in the order of their indices.
    """

    def __init__(self, patterns: Sequence[CommandPattern]) -> None:
        self._by_word: dict[str, list[int]] = {}
        self._by_needle: dict[str, dict[str, list[int]]] = {}
        for index, pattern in enumerate(patterns):
            if pattern.first_word is not None:
                self._by_word.setdefault(pattern.first_word, []).append(index)
            else:
                inner = self._by_needle.setdefault(pattern.needle, {})
                inner.setdefault(pattern.second_needle, []).append(index)

    def candidates(self, texts: Iterable[str]) -> list[int]:
        """Return the indices of the patterns that may match one of *texts*, ascending; the others do not."""
        found: list[int] = []
        for text in texts:
            found += self._by_word.get(text.partition(" ")[0], ())
            for needle, inner in self._by_needle.items():
                if needle in text:
                    for second, indices in inner.items():
                        if second in text:
                            found += indices
        return sorted(set(found)) if found else found
