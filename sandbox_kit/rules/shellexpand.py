"""What a coded word can become: braces expanded, known variables put in, unknown ones left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise, product

from sandbox_kit.rules.shellwords import ShellSyntaxError, escape, plain

__all__ = ["HOME", "expand_braces", "has_glob", "resolve_expansions"]

HOME = "~"
"""How the home directory is written in a word and in the base of a claim."""

MAX_BRACE_WORDS = 1024
MAX_BRACE_CHARS = 1 << 20
MAX_BRACE_DEPTH = 16
MAX_VALUE_CHARS = 4096
MAX_EXPANSIONS = 256

_GLOB = re.compile(r"(?:[^\\*?\[]++|\\.)*+[*?\[]", re.DOTALL)
_TOKEN = re.compile(r"\0[^\0]*\0|\\.|[^\\\0{},]+|[{},]", re.DOTALL)
_NUMBERS = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?")

_MARK = re.compile(r"\0([^\0]*)\0")
_VARIABLE = re.compile(r"\$(?:(\w+|[@*#?$!-])|\{(\w+|[@*])(.*)\})", re.DOTALL)
_WITH_WORD = re.compile(r":?[-=+](.*)", re.DOTALL)
_PWD = re.compile(r"\$\(\s*pwd\s*(?:-[LP]\s*)?\)|`\s*pwd\s*(?:-[LP]\s*)?`")
_ECHO = re.compile(r"(?:\$\(|`)\s*(?:echo|printf)\s+(?:-\w+\s+)*+([^$`|;&<>()]*+)[)`]")
_QUOTING = re.compile(r"['\"\\]")
_SELF_ROOT = re.compile(r"/proc/[^/\0]+(?:/task/[^/\0]+)?/root/*(?=\0(?:\$\{?PWD\}?|\$\(\s*pwd\s*\)|`\s*pwd\s*`)\0)")


def has_glob(code: str) -> bool:
    """Whether an unquoted ``*``, ``?`` or ``[`` is in the coded word."""
    return _GLOB.match(code) is not None


def resolve_expansions(code: str, variables: Mapping[str, str]) -> str:
    """The coded word with every expansion replaced by what it most likely is.

    Args:
        code: a coded word.
        variables: the code of each variable that the line sets.

    Returns:
        the code without marks: the work directory of the shell for ``$PWD`` is ``.``, the home is
        ``~``, a default value counts, what is unknown is nothing.

    Raises:
        ShellSyntaxError: it has too many expansions.
    """
    if code.count("\0") > 2 * MAX_EXPANSIONS:
        raise ShellSyntaxError("too many expansions in a word")
    return _MARK.sub(lambda mark: _value(plain(mark[1]), variables), _SELF_ROOT.sub("", code))


def _value(source: str, variables: Mapping[str, str]) -> str:
    """The code of one expansion, which is typed as *source*."""
    if _PWD.fullmatch(source):
        return "."
    if echo := _ECHO.fullmatch(source):
        return escape(_QUOTING.sub("", echo[1].strip()))
    match = _VARIABLE.fullmatch(source)
    if match is None:
        return ""
    bare, braced, rest = match.groups()
    known = variables.get(bare or braced)
    word = _WITH_WORD.fullmatch(rest or "")
    if known is None and word is not None:
        known = escape(_QUOTING.sub("", word[1]))
    return known if known is not None and len(known) <= MAX_VALUE_CHARS else ""


def expand_braces(code: str) -> list[str]:
    """The words that brace expansion makes of a coded word, in order.

    Raises:
        ShellSyntaxError: they would be too many, too long, or the braces nest too deep.
    """
    if "{" not in code:
        return [code]
    tokens = _TOKEN.findall(code)
    words = _Braces(tokens).span(0, len(tokens), 0)
    return [word for word in words if word]


class _Braces:
    """The brace groups of one tokenised word.

    ``closes`` maps the index of each opening brace to that of its closing one, ``commas`` to those between.
    """

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.closes: dict[int, int] = {}
        self.commas: dict[int, list[int]] = {}
        unclosed: list[int] = []
        for at, token in enumerate(tokens):
            if token == "{":
                unclosed.append(at)
                self.commas[at] = []
            elif token == "," and unclosed:
                self.commas[unclosed[-1]].append(at)
            elif token == "}" and unclosed:
                self.closes[unclosed.pop()] = at

    def span(self, start: int, end: int, depth: int) -> list[str]:
        """What the tokens from *start* to *end* become."""
        if depth > MAX_BRACE_DEPTH:
            raise ShellSyntaxError("braces nest too deep")
        parts: list[list[str]] = []
        count = size = 1
        for part in self._parts(start, end, depth):
            parts.append(part)
            count *= len(part)
            size += max(map(len, part), default=0)
            if count > MAX_BRACE_WORDS or (count > 1 and count * size > MAX_BRACE_CHARS):
                raise ShellSyntaxError("braces make too many words")
        return ["".join(choice) for choice in product(*parts)]

    def _parts(self, start: int, end: int, depth: int) -> Iterator[list[str]]:
        """The alternatives of each stretch of the span, in order."""
        at = start
        literal: list[str] = []
        while at < end:
            group = self._group(at, depth) if self.tokens[at] == "{" else None
            if group is None:
                literal.append(self.tokens[at])
                at += 1
            else:
                yield ["".join(literal)]
                literal = []
                yield group
                at = self.closes[at] + 1
        yield ["".join(literal)]

    def _group(self, opening: int, depth: int) -> list[str] | None:
        """The alternatives of the group at *opening*; None if it is none."""
        close = self.closes.get(opening)
        if close is None:
            return None
        cuts = [opening, *self.commas[opening], close]
        if len(cuts) == 2:
            return _sequence("".join(self.tokens[opening + 1 : close]))
        if len(cuts) > MAX_BRACE_WORDS:
            raise ShellSyntaxError("braces make too many words")
        return [word for left, right in pairwise(cuts) for word in self.span(left + 1, right, depth + 1)]


def _sequence(content: str) -> list[str] | None:
    """The alternatives of ``{1..3}`` or ``{a..e..2}``, given without its braces; None for anything else."""
    numbers, letters = _NUMBERS.fullmatch(content), _LETTERS.fullmatch(content)
    match = numbers or letters
    if match is None:
        return None
    first, last = (int(match[1]), int(match[2])) if numbers else (ord(match[1]), ord(match[2]))
    step = abs(int(match[3] or 1)) or 1
    values = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(values) > MAX_BRACE_WORDS:
        raise ShellSyntaxError("braces make too many words")
    if letters:
        return [escape(chr(value)) for value in values]
    width = max(len(match[1]), len(match[2])) if re.match(r"-?0\d", match[1]) or re.match(r"-?0\d", match[2]) else 0
    return [f"{value:0{width}d}" if width else str(value) for value in values]
