"""The syntax of path patterns: text in, alternatives of segments out, or the reason why not.

A pattern is read in three steps: into tokens and braces, each token with its place; then
every brace is expanded; then each alternative is cut at its slashes, anchored and cleaned.
Whatever could make a rule inert without a word is refused.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import chain, groupby, product
from math import prod
from typing import NamedTuple, NoReturn

from attrs import frozen

from sandbox_kit.errors import PatternError
from sandbox_kit.rules.segments import ANY_CHAR, CharSet, Gap, Part, Step, Wild

__all__ = ["Alternative", "Anchor", "decode_escaped", "parse_alternatives"]

MAX_ALTERNATIVES = 1024
MAX_NESTING = 10
MAX_EXPANDED = 2**20


class Anchor(Enum):
    """Where a pattern starts."""

    ROOT = "/"
    WORK_DIR = "./"
    ANYWHERE = "**/"


@frozen
class Alternative:
    """One pattern after its braces are expanded.

    Attributes:
        anchor: where it starts.
        segments: literal names, wildcards and :attr:`Gap.GLOBSTAR`, in order; never two of the last in a row.
        directory: whether it was written with a trailing slash.
    """

    anchor: Anchor
    segments: tuple[Step, ...]
    directory: bool = False


class _Kind(Enum):
    TEXT = "text"
    ESCAPED = "escaped text"
    MARK = "leading mark"
    SET = "set"
    STAR = "*"
    GLOBSTAR = "**"
    SLASH = "/"


class _Token(NamedTuple):
    kind: _Kind
    value: str | CharSet
    offset: int


class _Braces(NamedTuple):
    alternatives: tuple[tuple[_Item, ...], ...]


_Item = _Token | _Braces

_PLAIN = re.compile(r"[^/\\\[{},*?(!~]+")
_STARS = re.compile(r"\*+")
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(\.\.-?\d+)?")
_POSIX = re.compile(r"\[([:.=])[^]/]*\1\]")


def parse_alternatives(pattern: str) -> tuple[Alternative, ...]:
    """Return what *pattern* means, one entry for each combination of its braces, in order.

    Raises:
        PatternError: it is malformed, ambiguous, or could never match anything.
    """
    text = _composed(pattern)
    try:
        return _Parser(text).parse()
    except PatternError as error:
        if text == pattern:
            raise
        raise PatternError(error.reason, pattern, _offset_in(pattern, error.offset or 0)) from None


def _composed(pattern: str) -> str:
    return pattern if pattern.isascii() else unicodedata.normalize("NFC", _decoded(pattern))


def _offset_in(pattern: str, offset: int) -> int:
    """Return where in *pattern*, as it was given, the character at *offset* of its composed form begins."""
    return bisect_right(range(1, len(pattern) + 1), offset, key=lambda end: len(_composed(pattern[:end])))


def decode_escaped(text: str) -> str:
    """*text* with the bytes that surrogateescape stands for decoded where they are UTF-8.

    Raises:
        UnicodeEncodeError: it holds a surrogate that stands for no byte.
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _decoded(pattern: str) -> str:
    try:
        return decode_escaped(pattern)
    except UnicodeEncodeError as error:
        raise PatternError("a lone surrogate, which no file name holds", pattern, error.start) from None


def _is_blank(char: str) -> bool:
    return char.isspace() or unicodedata.category(char) == "Cf"


class _Parser:
    """Reads one pattern, once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset = 0
        self._escape_end = -1

    def parse(self) -> tuple[Alternative, ...]:
        if "\0" in self._text:
            self._fail("NUL", self._text.index("\0"))
        items = self._sequence(nesting=0)
        self._check_size(items)
        return tuple(dict.fromkeys(self._alternative(tokens) for tokens in _expand(items)))

    def _fail(self, reason: str, offset: int) -> NoReturn:
        raise PatternError(reason, self._text, offset)

    # -- text to tokens

    def _sequence(self, nesting: int) -> tuple[_Item, ...]:
        start, items = self._offset, list[_Item]()
        while self._offset < len(self._text):
            char = self._text[self._offset]
            if nesting and char in ",}":
                break
            items.append(self._braces(nesting) if char == "{" else self._token(char))
        self._check_ends(items, start)
        return tuple(items)

    def _check_ends(self, items: Sequence[_Item], start: int) -> None:
        for item, end, offset in ((items[:1], 0, start), (items[-1:], -1, self._offset - 1)):
            if (
                item
                and isinstance(item[0], _Token)
                and item[0].kind is _Kind.TEXT
                and _is_blank(str(item[0].value)[end])
            ):
                self._fail("stray blank (escape it if it is meant)", offset)

    def _braces(self, nesting: int) -> _Braces:
        start = self._offset
        if nesting == MAX_NESTING:
            self._fail(f"braces nested deeper than {MAX_NESTING}", start)
        alternatives, closing = [], ""
        while closing != "}":
            self._offset += 1
            first = self._offset
            alternatives.append(self._sequence(nesting + 1))
            if _RANGE.fullmatch(self._text, first, self._offset):
                self._fail("range in braces (list its members)", first)
            closing = self._text[self._offset : self._offset + 1]
            if not closing:
                self._fail("unclosed brace", start)
        if len(alternatives) == 1:
            self._fail("brace with a single alternative (escape it if it is meant)", start)
        self._offset += 1
        return _Braces(tuple(alternatives))

    def _token(self, char: str) -> _Token:
        start = self._offset
        if plain := _PLAIN.match(self._text, start):
            self._offset = plain.end()
            return _Token(_Kind.TEXT, plain[0], start)
        return _READERS.get(char, _Parser._mark)(self, start)

    def _slash(self, start: int) -> _Token:
        self._offset += 1
        return _Token(_Kind.SLASH, "/", start)

    def _mark(self, start: int) -> _Token:
        self._offset += 1
        return _Token(_Kind.MARK, self._text[start], start)

    def _comma(self, start: int) -> _Token:
        self._offset += 1
        return _Token(_Kind.TEXT, ",", start)

    def _question(self, start: int) -> _Token:
        self._offset += 1
        return _Token(_Kind.SET, ANY_CHAR, start)

    def _parenthesis(self, start: int) -> _Token:
        if self._text[:start].endswith(("?", "*", "+", "@", "!")) and start != self._escape_end:
            self._fail("extended glob (list the alternatives in braces)", start - 1)
        self._offset += 1
        return _Token(_Kind.TEXT, "(", start)

    def _stray_brace(self, start: int) -> NoReturn:
        self._fail("unbalanced brace", start)

    def _stars(self, start: int) -> _Token:
        stars = _STARS.match(self._text, start)
        assert stars is not None
        self._offset = stars.end()
        if len(stars[0]) > 2:
            self._fail("'**' glued to other text", start)
        return _Token(_Kind.STAR if len(stars[0]) == 1 else _Kind.GLOBSTAR, stars[0], start)

    def _escape(self, start: int) -> _Token:
        return _Token(_Kind.ESCAPED, self._escaped_char(), start)

    def _escaped_char(self) -> str:
        start = self._offset
        char = self._text[start + 1 : start + 2]
        if not char:
            self._fail("dangling backslash", start)
        if char == "/":
            self._fail("escaped slash", start)
        if char.isalnum():
            self._fail("backslash before a letter or digit", start)
        self._offset = self._escape_end = start + 2
        return char

    # -- classes

    def _class(self, start: int) -> _Token:
        self._check_posix(start)
        self._offset += 1
        negated = self._text.startswith(("!", "^"), self._offset)
        self._offset += negated
        ranges = [self._range(start)]
        while not self._text.startswith("]", self._offset):
            ranges.append(self._range(start))
        self._offset += 1
        chars = CharSet(tuple(ranges), negated)
        return _Token(_Kind.SET, chars, start) if chars.single is None else _Token(_Kind.ESCAPED, chars.single, start)

    def _range(self, start: int) -> tuple[str, str]:
        offset = self._offset
        first = self._member(start)
        if not self._text.startswith("-", self._offset) or self._text.startswith("-]", self._offset):
            return first, first
        self._offset += 1
        last = self._member(start)
        if last < first:
            self._fail("reversed range in a class", offset)
        return first, last

    def _member(self, start: int) -> str:
        char = self._text[self._offset : self._offset + 1]
        if not char:
            self._fail("unclosed class", start)
        if char == "/":
            self._fail("slash in a class", self._offset)
        if char == "\\":
            return self._escaped_char()
        self._check_posix(self._offset)
        self._offset += 1
        return char

    def _check_posix(self, offset: int) -> None:
        if _POSIX.match(self._text, offset):
            self._fail("POSIX class (write its ranges)", offset)

    # -- tokens to alternatives

    def _check_size(self, items: Sequence[_Item]) -> None:
        count = _count(items)
        if count > MAX_ALTERNATIVES or (count > 1 and count * len(self._text) > MAX_EXPANDED):
            self._fail("braces expand to too many alternatives", self._text.index("{"))

    def _alternative(self, tokens: Sequence[_Token]) -> Alternative:
        if not tokens:
            self._fail("empty pattern", 0)
        if tokens[0].kind is _Kind.MARK and tokens[0].value in ("!", "~"):
            self._fail(f"leading {tokens[0].value!r} (escape it if it is meant)", tokens[0].offset)
        raw = list(_split(tokens))
        anchor = _anchor(raw)
        segments = [self._segment(piece) for piece in raw if piece]
        steps = [step for step in segments if step != "."]
        if not steps:
            self._fail("pattern that reduces to nothing", tokens[0].offset)
        return Alternative(anchor, tuple(_collapse(steps)), directory=not raw[-1])

    def _segment(self, tokens: Sequence[_Token]) -> Step:
        for token in tokens:
            if token.kind is _Kind.GLOBSTAR:
                if len(tokens) > 1:
                    self._fail("'**' glued to other text", token.offset)
                return Gap.GLOBSTAR
        parts = tuple(_merge(tokens))
        if len(parts) > 1 or not isinstance(parts[0], str):
            return Wild(parts)
        if parts[0] == "..":
            self._fail("'..' in a pattern", tokens[0].offset)
        return parts[0]


_READERS: dict[str, Callable[[_Parser, int], _Token]] = {
    "/": _Parser._slash,
    ",": _Parser._comma,
    "?": _Parser._question,
    "(": _Parser._parenthesis,
    "}": _Parser._stray_brace,
    "*": _Parser._stars,
    "\\": _Parser._escape,
    "[": _Parser._class,
}


def _count(items: Sequence[_Item]) -> int:
    return prod(sum(map(_count, item.alternatives)) for item in items if isinstance(item, _Braces))


def _expand(items: Sequence[_Item]) -> Iterator[tuple[_Token, ...]]:
    choices: list[list[tuple[_Token, ...]]] = []
    for item in items:
        if isinstance(item, _Braces):
            choices.append([tokens for alternative in item.alternatives for tokens in _expand(alternative)])
        else:
            choices.append([(item,)])
    return (tuple(chain.from_iterable(choice)) for choice in product(*choices))


def _split(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """Cut at slashes; what stands before a leading or after a trailing one is an empty list."""
    piece: list[_Token] = []
    for token in tokens:
        if token.kind is _Kind.SLASH:
            yield piece
            piece = []
        else:
            piece.append(token)
    yield piece


def _anchor(raw: Sequence[Sequence[_Token]]) -> Anchor:
    """Decide before clean-up: a slash counts unless it trails."""
    if not raw[0] and len(raw) > 1:
        return Anchor.ROOT
    if [token.kind for token in raw[0]] == [_Kind.GLOBSTAR] or not any(raw[1:]):
        return Anchor.ANYWHERE
    return Anchor.WORK_DIR


def _collapse(steps: Sequence[Step]) -> Iterator[Step]:
    for step, run in groupby(steps):
        if step is Gap.GLOBSTAR:
            yield step
        else:
            yield from run


def _merge(tokens: Sequence[_Token]) -> Iterator[Part]:
    """Join neighbouring texts, in NFC, and neighbouring stars."""
    for part, run in groupby(tokens, key=_part):
        if part == "":
            text = "".join(str(token.value) for token in run)
            yield text if text.isascii() else unicodedata.normalize("NFC", text)
        elif part is Gap.STAR:
            yield Gap.STAR
        else:
            yield from (part for _ in run)


def _part(token: _Token) -> Part:
    if token.kind is _Kind.STAR:
        return Gap.STAR
    return token.value if isinstance(token.value, CharSet) else ""
