"""Reads a pattern in Python's syntax; what no linear engine has is refused, with its place."""

from __future__ import annotations

import itertools
import re
from typing import Literal, NoReturn

from sandbox_kit.errors import PatternError
from sandbox_kit.search.charset import DIGIT, SPACE, TEXT, WORD, CharSet, charset, complement, fold
from sandbox_kit.search.syntax import EMPTY, Alt, Assertion, Chars, Concat, Node, Repeat, size

__all__ = ["MAX_DEPTH", "MAX_REPEAT", "MAX_SIZE", "parse_literal", "parse_regex"]

MAX_REPEAT = 1000
MAX_DEPTH = 50
MAX_SIZE = 20_000
"""In byte ranges; what an engine is given then stays under 128 KiB, the longest argument that Linux takes."""

_CLASSES = {"d": DIGIT, "s": SPACE, "w": WORD}
_CONTROLS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_NOT_TEXT = {0: "a NUL", 10: "a line feed", 13: "a carriage return"}
_BRACES = re.compile(r"\{(?=[0-9,])([0-9]*)(,?)([0-9]*)\}")
_POSIX_CLASS = re.compile(r"\[[:.=][^\]]*[:.=]\]")
_GROUP_NAME = re.compile(r"[^\W\d]\w*>")
_REFUSED_GROUPS = {
    "?=": "lookahead is not supported",
    "?!": "lookahead is not supported",
    "?<=": "lookbehind is not supported",
    "?<!": "lookbehind is not supported",
    "?>": "atomic groups are not supported",
    "?(": "conditional groups are not supported",
    "?P=": "backreferences are not supported",
    "?#": "comments are not supported",
}


def parse_regex(pattern: str, *, ignore_case: bool = False) -> Node:
    """Return the tree of a regular expression.

    Raises:
        PatternError: it is malformed, too large, or asks for what is not in the dialect.
    """
    parser = _Parser(pattern, ignore_case)
    node = parser.parse()
    if size(node) > MAX_SIZE:
        raise PatternError("the pattern is too large with its repetitions written out", pattern)
    return node


def parse_literal(text: str, *, ignore_case: bool = False) -> Node:
    """Return the tree of the string *text* itself.

    Raises:
        PatternError: it is too large, or holds what no line holds.
    """
    parser = _Parser(text, ignore_case)
    node = Concat(tuple(parser.char(ord(char), offset) for offset, char in enumerate(text)))
    if size(node) > MAX_SIZE:
        raise PatternError("the pattern is too large", text)
    return node


class _Parser:
    """A recursive descent over one pattern; each method begins at ``pos`` and leaves it after what it read."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self.pattern = pattern
        self.pos = 0
        self.depth = 0
        self.names: set[str] = set()
        self.ignore_case = ignore_case

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        raise PatternError(message, self.pattern, self.pos if offset is None else offset)

    def accept(self, text: str) -> bool:
        """Step over *text* if it comes next."""
        if not self.pattern.startswith(text, self.pos):
            return False
        self.pos += len(text)
        return True

    def next(self, missing: str, offset: int | None = None) -> str:
        """Return the next character and step over it; *missing* says what is wrong at the end."""
        if self.pos >= len(self.pattern):
            self.fail(missing, offset)
        self.pos += 1
        return self.pattern[self.pos - 1]

    # --- structure ---

    def parse(self) -> Node:
        if self.accept("(?i)"):
            self.ignore_case = True
        node = self.alternatives()
        if self.pos < len(self.pattern):
            self.fail("unbalanced parenthesis")
        self.check_ends(node, first=True, last=True)
        return node

    def alternatives(self) -> Node:
        branches = [self.branch()]
        while self.accept("|"):
            branches.append(self.branch())
        if len(branches) > 1 and all(isinstance(branch, Chars) for branch in branches):
            return Chars(charset(pair for branch in branches if isinstance(branch, Chars) for pair in branch.chars))
        return branches[0] if len(branches) == 1 else Alt(tuple(branches))

    def branch(self) -> Node:
        items: list[Node] = []
        while self.pos < len(self.pattern) and self.pattern[self.pos] not in "|)":
            items.append(self.quantified(self.atom()))
        items = _ordered(items)
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def check_ends(self, node: Node, *, first: bool, last: bool) -> None:
        """Refuse a ``^`` after something and a ``$`` before something: where engines begin to differ."""
        match node:
            case Assertion("^") if not first:
                self.fail("nothing can come before the start of the line", node.offset)
            case Assertion("$") if not last:
                self.fail("nothing can follow the end of the line", node.offset)
            case Concat(items):
                starts, ends = _count(items, "^"), _count(items[::-1], "$")
                for index, item in enumerate(items):
                    at_end = index >= len(items) - 1 - ends
                    self.check_ends(item, first=first and index <= starts, last=last and at_end)
            case Alt(items):
                for item in items:
                    self.check_ends(item, first=first, last=last)
            case Repeat(item):
                self.check_ends(item, first=False, last=False)

    def quantified(self, atom: Node) -> Node:
        start = self.pos
        bounds = self.bounds()
        if bounds is None:
            return atom
        if isinstance(atom, Assertion):
            self.fail("nothing to repeat", start)
        if self.accept("+"):
            self.fail("possessive repetition is not supported", start)
        self.accept("?")
        again = self.pos
        if self.bounds() is not None:
            self.fail("multiple repeat", again)
        least, most = bounds
        return EMPTY if atom == EMPTY or most == 0 else Repeat(atom, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        """Return the repetition that comes next, None if none does."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.accept(sign):
                return bounds
        braces = _BRACES.match(self.pattern, self.pos)
        if braces is None:
            return None
        low, comma, high = braces.groups()
        if max(len(low), len(high)) > 6 or max(int(low or 0), int(high or 0)) > MAX_REPEAT:
            self.fail(f"a repetition over {MAX_REPEAT} is not supported")
        least, most = int(low or 0), int(high) if high else None if comma else int(low)
        if most is not None and least > most:
            self.fail("the least repetition is greater than the most")
        self.pos = braces.end()
        return least, most

    def atom(self) -> Node:
        start = self.pos
        char = self.next("the pattern ends too early")
        if char == "(":
            return self.group(start)
        if char == "[":
            return Chars(self.bracket(start))
        if char == "\\":
            return self.escape(start)
        if char in "*+?" or _BRACES.match(self.pattern, start):
            self.fail("nothing to repeat", start)
        if char == "^":
            return Assertion("^", start)
        if char == "$":
            return Assertion("$", start)
        return Chars(TEXT) if char == "." else self.char(ord(char), start)

    def char(self, code: int, offset: int) -> Node:
        """Return a single character, with its case forms if case is ignored."""
        if code in _NOT_TEXT:
            self.fail(f"no line holds {_NOT_TEXT[code]} that a pattern could match", offset)
        if not charset([(code, code)]):
            self.fail("not a character", offset)
        return Chars(self.folded(((code, code),)))

    def folded(self, chars: CharSet) -> CharSet:
        return fold(chars) if self.ignore_case else chars

    # --- groups ---

    def group(self, start: int) -> Node:
        outer = self.ignore_case
        self.group_head(start)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail("groups are nested too deeply", start)
        node = self.alternatives()
        if not self.accept(")"):
            self.fail("missing ), unterminated group", start)
        self.depth -= 1
        self.ignore_case = outer
        # A lone assertion in a group may be repeated, and stays a group.
        return Concat((node,)) if isinstance(node, Assertion) else node

    def group_head(self, start: int) -> None:
        """Step over what makes a group special."""
        if not self.pattern.startswith("?", self.pos):
            return
        for head, message in _REFUSED_GROUPS.items():
            if self.pattern.startswith(head, self.pos):
                self.fail(message, start)
        if self.accept("?P<"):
            name = _GROUP_NAME.match(self.pattern, self.pos)
            if name is None or name[0] in self.names:
                self.fail("bad group name")
            self.names.add(name[0])
            self.pos = name.end()
        elif self.accept("?i:"):
            self.ignore_case = True
        elif self.accept("?-i:"):
            self.ignore_case = False
        elif not self.accept("?:"):
            self.fail("this flag or extension is not supported: only (?i) at the start, (?i:...) and (?-i:...)", start)

    # --- escapes ---

    def escape(self, start: int) -> Node:
        char = self.next("bad escape, the pattern ends in a backslash")
        if char in "bB":
            return Assertion("b" if char == "b" else "B", start)
        if char in "AZ":
            return Assertion("^" if char == "A" else "$", start)
        members = self.class_escape(char)
        if members is not None:
            return Chars(members)
        if char in "123456789":
            self.fail("backreferences are not supported", start)
        return self.char(self.char_escape(char, start), start)

    def class_escape(self, char: str) -> CharSet | None:
        members = _CLASSES.get(char.lower())
        return complement(members) if members and char.isupper() else members

    def char_escape(self, char: str, start: int) -> int:
        """Return the code point that ``\\`` and *char* stand for."""
        if char in _HEX_DIGITS:
            return self.hex_escape(_HEX_DIGITS[char], start)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isascii() and char.isalnum():
            self.fail("bad escape" if char.isalpha() else "octal escapes are not supported: use \\xhh", start)
        return ord(char)

    def hex_escape(self, count: int, start: int) -> int:
        digits = self.pattern[self.pos : self.pos + count]
        if len(digits) < count or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            self.fail(f"bad escape: {count} hexadecimal digits are needed", start)
        self.pos += count
        code = int(digits, 16)
        if code > 0x10FFFF:
            self.fail("bad escape: not a character", start)
        return code

    # --- sets ---

    def bracket(self, start: int) -> CharSet:
        """Read a set, after its ``[``.

        A member that no line holds is left out, so that ``[^\\r\\n]`` is what it says.
        """
        negated = self.accept("^")
        ranges: list[tuple[int, int]] = []
        first = self.pos
        while self.pos == first or not self.accept("]"):
            ranges.extend(self.member(start))
        members = self.folded(charset(ranges))
        chars = complement(members) if negated else members
        if not chars:
            self.fail("no character of a line is in this set", start)
        return chars

    def member(self, start: int) -> CharSet:
        at = self.pos
        low = self.endpoint(start)
        if not self.pattern.startswith("-", self.pos) or self.pattern.startswith("-]", self.pos):
            return low if isinstance(low, tuple) else ((low, low),)
        self.pos += 1
        high = self.endpoint(start)
        if isinstance(low, tuple) or isinstance(high, tuple) or low > high:
            self.fail("bad character range", at)
        return ((low, high),)

    def endpoint(self, start: int) -> int | CharSet:
        """Return the code point, or the members of the class escape, that comes next in a set."""
        at = self.pos
        if _POSIX_CLASS.match(self.pattern, at):
            self.fail("POSIX classes are not supported", at)
        char = self.next("unterminated character set", start)
        if char != "\\":
            return ord(char)
        char = self.next("unterminated character set", start)
        members = self.class_escape(char)
        return self.char_escape(char, at) if members is None else members


def _ordered(items: list[Node]) -> list[Node]:
    """Put assertions that stand side by side, and so hold in any order, in the order that all engines know."""
    ordered: list[Node] = []
    for _, run in itertools.groupby(items, lambda item: isinstance(item, Assertion)):
        ordered += sorted(run, key=_rank)
    return ordered


def _rank(node: Node) -> int:
    return 0 if node == Assertion("^") else 2 if node == Assertion("$") else 1


def _count(items: tuple[Node, ...], kind: Literal["^", "$"]) -> int:
    """Return how many of the first *items* are that assertion."""
    return sum(1 for _ in itertools.takewhile(lambda item: item == Assertion(kind), items))
