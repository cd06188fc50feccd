"""One execute pattern, matched against the text of a command in linear time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

from sandbox_kit.errors import PatternError

__all__ = ["ANY", "CommandPattern", "compile_command", "whole_text"]

ANY = ".*"
_BLANK = re.escape(" ")
_LONE_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_NOT_LITERAL = re.compile(r"\[[!^]?\]?(?:\\.|[^]\\])*+\]|[*?]|\\.", re.DOTALL)


def compile_command(pattern: str) -> CommandPattern:
    """Return the matcher of an execute pattern.

    ``*`` matches anything, nothing included; ``?`` matches one character, ``[a-z]`` and ``[!a-z]`` one
    of a class; a backslash makes the punctuation after it literal; braces are literal. Blanks, slashes and
    newlines are characters like any other. A trailing `` *`` also matches the bare program: ``rm *``
    holds for ``rm``.

    Args:
        pattern: such as ``"git log *"``.

    Raises:
        PatternError: it is empty, starts or ends with a blank, holds a NUL or a lone surrogate, ends in a
            backslash, escapes a letter or digit, or has a class that is unclosed, reversed or POSIX.
    """
    return CommandPattern(pattern, tuple(_tokens(pattern)))


class CommandPattern:
    """A compiled execute pattern; made by :func:`compile_command`.

    Attributes:
        source: the pattern as it was given.
        prefix: the literal text that every match starts with.
        needle: the longest literal text that every match holds.
        literals: all of these, longest first; none is empty.
        first_word: what every match has before its first blank, or None where that differs.
    """

    def __init__(self, source: str, tokens: tuple[str, ...]) -> None:
        self.source = source
        self._tokens = tokens
        required = source[:-2] if self._optional_tail else source
        literals = _NOT_LITERAL.split(required)
        self.prefix = literals[0]
        self.literals = tuple(sorted(filter(None, literals), key=len, reverse=True))
        self.needle = self.literals[0] if self.literals else ""
        word, blank, _ = self.prefix.partition(" ")
        self.first_word = word if blank or len(literals) == 1 else None

    def __repr__(self) -> str:
        return f"CommandPattern({self.source!r})"

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole of *text*."""
        return text.startswith(self.prefix) and self.needle in text and self._regex.match(text) is not None

    @property
    def _optional_tail(self) -> bool:
        return len(self._tokens) > 2 and self._tokens[-2:] == (_BLANK, ANY)

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        forms = [whole_text(self._tokens)]
        if self._optional_tail:
            forms.append(whole_text(self._tokens[:-2]))
        return re.compile(rf"(?s:{'|'.join(forms)})\Z")


def whole_text(tokens: Sequence[str]) -> str:
    """A regex for all of a text, made of those of single characters and of ``ANY``.

    Every chunk after a star is taken at its leftmost place and kept: it has a fixed length, so that never
    loses a match, and each chunk costs one pass.
    """
    chunks: list[str] = [""]
    for is_star, run in groupby(tokens, key=ANY.__eq__):
        if is_star:
            chunks.append("")
        else:
            chunks[-1] = "".join(run)
    first, *middle = chunks
    if not middle:
        return rf"{first}\Z"
    last = middle.pop()
    return first + "".join(f"(?>.*?{chunk})" for chunk in middle) + rf".*{last}\Z"


def _tokens(pattern: str) -> list[str]:
    """The pattern as regexes, each for one character, or for a star."""
    if not pattern:
        raise PatternError("empty pattern", pattern, 0)
    if "\0" in pattern:
        raise PatternError("NUL in pattern", pattern, pattern.index("\0"))
    if surrogate := _LONE_SURROGATE.search(pattern):
        raise PatternError("a lone surrogate, which no command holds", pattern, surrogate.start())
    if pattern != pattern.strip():
        stray = 0 if pattern[0].isspace() else len(pattern.rstrip())
        raise PatternError("stray blank at the end of the pattern", pattern, stray)
    tokens, at = [], 0
    while at < len(pattern):
        token, at = _token(pattern, at)
        tokens.append(token)
    return tokens


def _token(pattern: str, at: int) -> tuple[str, int]:
    """The regex of what stands at *at*, and where the next one starts."""
    char = pattern[at]
    if char == "*":
        return ANY, at + 1
    if char == "?":
        return ".", at + 1
    if char == "[":
        return _char_class(pattern, at)
    if char != "\\":
        return re.escape(char), at + 1
    if at + 1 == len(pattern):
        raise PatternError("dangling backslash", pattern, at)
    if pattern[at + 1].isalnum():
        raise PatternError("backslash before a letter or digit", pattern, at)
    return f"[{re.escape(pattern[at + 1])}]", at + 2


def _char_class(pattern: str, start: int) -> tuple[str, int]:
    at = start + 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    while pattern[at : at + 1] != "]" or not items:
        low, at = _member(pattern, start, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", ""):
            high, end = _member(pattern, start, at + 1)
            if high < low:
                raise PatternError("reversed range in a class", pattern, at - 1)
            items.append(f"{re.escape(low)}-{re.escape(high)}")
            at = end
        else:
            items.append(re.escape(low))
    return f"[{'^' if negated else ''}{''.join(items)}]", at + 1


def _member(pattern: str, start: int, at: int) -> tuple[str, int]:
    """One character of the class that opens at *start*, and where the next stands."""
    if pattern[at : at + 2] in ("[:", "[=", "[."):
        raise PatternError("POSIX class", pattern, at)
    if pattern[at : at + 1] == "\\":
        at += 1
        if pattern[at : at + 1].isalnum():
            raise PatternError("backslash before a letter or digit", pattern, at - 1)
    if at >= len(pattern):
        raise PatternError("unclosed class", pattern, start)
    return pattern[at], at + 1
