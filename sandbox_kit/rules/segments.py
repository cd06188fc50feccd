"""What stands between two slashes of a pattern: a literal name, or wildcards matched in linear time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import cached_property

from attrs import frozen

__all__ = ["ANY_CHAR", "CharSet", "Gap", "Part", "Segment", "Step", "Wild"]


class Gap(Enum):
    """A wildcard of any length."""

    STAR = "*"
    GLOBSTAR = "**"


@frozen
class CharSet:
    """The characters that one place of a segment accepts.

    Attributes:
        ranges: pairs of first and last code point, both included.
        negated: whether the characters outside *ranges* are meant.
    """

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    @property
    def single(self) -> str | None:
        """The one character that it accepts, or None when there are more."""
        if len(self.ranges) == 1 and not self.negated and self.ranges[0][0] == self.ranges[0][1]:
            return self.ranges[0][0]
        return None

    def accepts(self, char: str) -> bool:
        """Whether *char*, one character, is among them."""
        return any(first <= char <= last for first, last in self.ranges) != self.negated

    @property
    def regex(self) -> str:
        """The same set in the syntax of ``re``."""
        if not self.ranges:
            return "."
        body = "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in self.ranges)
        return f"[{'^' if self.negated else ''}{body}]"


ANY_CHAR = CharSet((), negated=True)

Part = str | CharSet | Gap


@frozen(slots=False)
class Wild:
    """A segment with wildcards, matched against one name in linear time.

    Attributes:
        parts: literal texts, character sets and :attr:`Gap.STAR`, in order.
        fold: whether character sets ignore case (literal texts are then folded already).
    """

    parts: tuple[Part, ...]
    fold: bool = False

    @cached_property
    def prefix(self) -> str:
        """The literal text that every match starts with."""
        return self.parts[0] if isinstance(self.parts[0], str) else ""

    @cached_property
    def suffix(self) -> str:
        """The literal text that every match ends with."""
        return self.parts[-1] if isinstance(self.parts[-1], str) else ""

    @cached_property
    def required(self) -> str:
        """The longest literal text that every match holds."""
        return max((part for part in self.parts if isinstance(part, str)), key=len, default="")

    @cached_property
    def affixed(self) -> bool:
        """Whether it is *prefix*, one star and *suffix*, and nothing else."""
        return len([part for part in self.parts if not isinstance(part, str)]) == 1 and Gap.STAR in self.parts

    @cached_property
    def contained(self) -> bool:
        """Whether it is *required* between two stars, and nothing else."""
        return self.parts == (Gap.STAR, self.required, Gap.STAR)

    @cached_property
    def _least(self) -> int:
        return sum(len(part) if isinstance(part, str) else isinstance(part, CharSet) for part in self.parts)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(_wild_regex(self.parts), re.DOTALL | (re.IGNORECASE if self.fold else 0))

    def matches(self, name: str) -> bool:
        """Whether the whole of *name* matches."""
        if len(name) < self._least or not name.startswith(self.prefix) or not name.endswith(self.suffix):
            return False
        if self.affixed or self.contained:
            return self.required in name
        return self._regex.fullmatch(name) is not None


def _wild_regex(parts: Sequence[Part]) -> str:
    """Commit to the leftmost fit of every chunk between two stars, so that nothing backtracks."""
    chunks = [""]
    for part in parts:
        if isinstance(part, Gap):
            chunks.append("")
        else:
            chunks[-1] += re.escape(part) if isinstance(part, str) else part.regex
    if len(chunks) == 1:
        return chunks[0]
    head, *inner, tail = chunks
    return head + "".join(f"(?>.*?{chunk})" for chunk in inner) + ".*" + tail


Segment = str | Wild
Step = Segment | Gap
