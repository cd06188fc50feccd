"""Writes a pattern's tree in the syntax of each engine.

Python's ``re`` over bytes and GNU grep in the C locale see bytes, so a character is written as
its UTF-8 sequences; ripgrep sees characters. None of the three needs its own idea of case, of
``\\w`` or of a dot: every set is written out.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from sandbox_kit.search.charset import CharSet, utf8
from sandbox_kit.search.syntax import Alt, Assertion, Chars, Concat, Node

__all__ = ["AsciiWriter", "GrepWriter", "PythonWriter", "RipgrepWriter", "Writer"]

Span = tuple[int, int]

_RUST_SPECIAL = frozenset("\\.+*?()|[]{}^$#&-~")
_ERE_SPECIAL = frozenset(b"\\.+*?()|[{^$")
_BRACKET_SPECIAL = b"[]^-"


class Writer(ABC):
    """How one engine spells a pattern."""

    assertions: ClassVar[dict[str, str]]
    opening: ClassVar[str] = "(?:"

    def write(self, node: Node) -> str:
        """Return the whole pattern."""
        match node:
            case Chars(chars):
                return self.chars(chars)
            case Assertion(kind):
                return self.assertions[kind]
            case Concat(items):
                return "".join(self.grouped(item) if isinstance(item, Alt) else self.write(item) for item in items)
            case Alt(items):
                return "|".join(self.write(item) for item in items)
            case _:
                atom = self.write(node.item) if isinstance(node.item, Chars) else self.grouped(node.item)
                return atom + _quantifier(node.least, node.most)

    def grouped(self, node: Node) -> str:
        return self.group(self.write(node))

    def group(self, text: str) -> str:
        return f"{self.opening}{text})"

    @abstractmethod
    def chars(self, chars: CharSet) -> str:
        """Return an atom for one character of the set."""


def _quantifier(least: int, most: int | None) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (least, most) in known:
        return known[least, most]
    if least == most:
        return f"{{{least}}}"
    return f"{{{least},}}" if most is None else f"{{{least},{most}}}"


class ByteWriter(Writer):
    """An engine that sees bytes; the text is Latin-1."""

    def chars(self, chars: CharSet) -> str:
        sequences = utf8(chars)
        alone = [sequence[0] for sequence in sequences if len(sequence) == 1]
        if len(alone) == len(sequences):
            return self.one_of(alone)
        longer = ("".join(self.one_of([span]) for span in sequence) for sequence in sequences if len(sequence) > 1)
        return self.group("|".join([*([self.one_of(alone)] if alone else []), *longer]))

    def one_of(self, spans: list[Span]) -> str:
        """Return an atom for one byte of *spans*."""
        if len(spans) == 1 and spans[0][0] == spans[0][1]:
            return self.byte(spans[0][0])
        return self.bracket(spans)

    @abstractmethod
    def byte(self, byte: int) -> str:
        """Return an atom for one byte."""

    @abstractmethod
    def bracket(self, spans: Iterable[Span]) -> str:
        """Return a bracket expression for more than one byte."""


class PythonWriter(ByteWriter):
    """``re`` over bytes, with MULTILINE."""

    # "\B" does not match in an empty line before Python 3.14.
    assertions = {"^": "^", "$": "\\r?$", "b": "\\b", "B": "(?!\\b)"}

    def byte(self, byte: int) -> str:
        return re.escape(chr(byte))

    def bracket(self, spans: Iterable[Span]) -> str:
        return "[" + "".join(f"\\x{low:02x}-\\x{high:02x}" for low, high in spans) + "]"


class AsciiWriter(PythonWriter):
    """The same, for text that is ASCII throughout."""

    def chars(self, chars: CharSet) -> str:
        ascii_part = tuple((low, min(high, 0x7F)) for low, high in chars if low <= 0x7F)
        return super().chars(ascii_part) if ascii_part else "(?!)"


class GrepWriter(ByteWriter):
    """GNU grep's extended syntax, in the C locale."""

    assertions = {"^": "^", "$": "\r?$", "b": "\\b", "B": "\\B"}
    opening = "("

    def byte(self, byte: int) -> str:
        return f"\\{byte:c}" if byte in _ERE_SPECIAL else chr(byte)

    def bracket(self, spans: Iterable[Span]) -> str:
        spans = list(spans)
        special = {chr(byte) for byte in _BRACKET_SPECIAL if any(low <= byte <= high for low, high in spans)}
        for byte in _BRACKET_SPECIAL:
            spans = [part for span in spans for part in _without(span, byte)]
        plain = "".join(f"{low:c}-{high:c}" if low < high else chr(low) for low, high in spans)
        body = ("]" if "]" in special else "") + plain + "".join(char for char in "[^-" if char in special)
        return f"[{'-^' if body == '^-' else body}]"


def _without(span: Span, byte: int) -> list[Span]:
    """Return what is left of *span* without *byte*."""
    low, high = span
    if not low <= byte <= high:
        return [span]
    return [part for part in ((low, byte - 1), (byte + 1, high)) if part[0] <= part[1]]


class RipgrepWriter(Writer):
    """The syntax of Rust's ``regex``, over characters."""

    assertions = {"^": "^", "$": "\\r?$", "b": "(?-u:\\b)", "B": "(?-u:\\B)"}

    def chars(self, chars: CharSet) -> str:
        if len(chars) == 1 and chars[0][0] == chars[0][1]:
            return self.char(chars[0][0])
        return "[" + "".join(map(self.span, chars)) + "]"

    def span(self, span: Span) -> str:
        low, high = span
        return self.char(low) if low == high else f"{self.char(low)}-{self.char(high)}"

    def char(self, code: int) -> str:
        char = chr(code)
        if char in _RUST_SPECIAL:
            return f"\\{char}"
        return char if 0x20 <= code < 0x7F else f"\\x{{{code:X}}}"
