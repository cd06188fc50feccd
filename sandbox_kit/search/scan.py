"""Search without an external grep: one stream after another, in memory that a block and a line bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from sandbox_kit.errors import LimitExceededError
from sandbox_kit.search.clock import Clock
from sandbox_kit.search.context import ContextWindow, Line
from sandbox_kit.search.dialect import Dialect
from sandbox_kit.search.hits import MAX_LINE, Hit, clean

__all__ = ["LONGEST_LINE", "Scanner"]

LONGEST_LINE = 2**26
"""The longest line that is searched, in bytes: a line is held whole while it is matched."""

_FIRST_READ = 2**16
_READ = 2**20

Span = tuple[int, int]
"""Where a line begins in a block, and where its ``\\n`` is, or the block's end."""


class Scanner:
    """Finds the lines that match in any number of streams. It is for one thread.

    Args:
        dialect: what to search for.
        context: how many lines before and after each hit to give with it.
        max_line: how many bytes of a line are kept.
        time_limit: for each stream, in seconds, without what the caller takes between hits; None for none.
    """

    def __init__(
        self, dialect: Dialect, *, context: int = 0, max_line: int = MAX_LINE, time_limit: float | None = None
    ) -> None:
        self._context = context
        self._max_line = max_line
        self._clock = None if time_limit is None else Clock(time_limit)
        self._required = dialect.required_literal
        self._exact = dialect.literal is not None
        self._linear = dialect.linear
        self._matches = dialect.matcher(self._clock)
        self._text = dialect.to_python()
        self._ascii = dialect.to_python(ascii_only=True)

    def scan(self, stream: BinaryIO, name: bytes = b"") -> Iterator[Hit]:
        """Yield the hits in *stream*, in order; closing the iterator ends the search, not the stream.

        Args:
            stream: read from where it stands; that is line 1 and offset 0.
            name: what to call it in the hits.

        Raises:
            LimitExceededError: a line is longer than :data:`LONGEST_LINE`.
            SandboxTimeoutError: the time limit is over.
        """
        hits = self._hits_around(stream, name) if self._context else self._hits(stream, name)
        if self._clock is not None:
            hits = self._timed(hits, self._clock)
        for hit in hits:
            yield hit
            if hit.binary:
                return

    def _timed(self, hits: Iterator[Hit], clock: Clock) -> Iterator[Hit]:
        clock.restart()
        for hit in hits:
            clock.pause()
            yield hit
            clock.resume()

    def _blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the stream in blocks of whole lines."""
        parts: list[bytes] = []
        held, size = 0, _FIRST_READ
        while data := stream.read(size):
            if self._clock is not None:
                self._clock.check()
            end = data.rfind(b"\n") + 1
            if end:
                yield b"".join([*parts, data[:end]]) if parts else data[:end]
                parts, held = [], 0
            parts += [data[end:]] if end < len(data) else []
            held += len(data) - end
            if held > LONGEST_LINE:
                raise LimitExceededError(f"a line is longer than {LONGEST_LINE} bytes", LONGEST_LINE)
            size = _READ
        if parts:
            yield b"".join(parts)

    # --- which lines match ---

    def _spans(self, block: bytes) -> Iterator[Span]:
        """Yield where the lines that match stand in *block*."""
        if self._required is not None:
            return self._spans_with(block, self._required)
        return self._spans_found(block) if self._linear else self._spans_tested(block)

    def _spans_with(self, block: bytes, required: bytes) -> Iterator[Span]:
        """Test the lines that have the literal that all matches have."""
        begin = 0
        while (found := block.find(required, begin)) >= 0:
            span = _line_around(block, found)
            if self._exact or self._matches(block[slice(*span)]):
                yield span
            begin = span[1] + 1

    def _spans_found(self, block: bytes) -> Iterator[Span]:
        """Search the block as a whole: no match of the dialect holds a line feed."""
        search = (self._ascii if block.isascii() else self._text).search
        begin = 0
        while begin < len(block) and (found := search(block, begin)):
            span = _line_around(block, found.start())
            if span[0] == len(block):
                return
            yield span
            begin = span[1] + 1

    def _spans_tested(self, block: bytes) -> Iterator[Span]:
        """Test each line."""
        begin = 0
        while begin < len(block):
            span = _line_around(block, begin)
            if self._matches(block[slice(*span)]):
                yield span
            begin = span[1] + 1

    # --- what is told of them ---

    def _hits(self, stream: BinaryIO, name: bytes) -> Iterator[Hit]:
        number, offset = 1, 0
        for block in self._blocks(stream):
            counted = 0
            for begin, end in self._spans(block):
                number += block.count(b"\n", counted, begin)
                counted = begin
                text, binary = clean(block[begin:end], self._max_line)
                yield Hit(name, number, offset + begin, text, (), (), binary)
            number += block.count(b"\n", counted)
            offset += len(block)

    def _hits_around(self, stream: BinaryIO, name: bytes) -> Iterator[Hit]:
        """Give the window the lines that can be near a hit, and yield the hits that it makes whole."""
        window = ContextWindow(self._context)
        number, offset = 1, 0
        for block in self._blocks(stream):
            spans = self._spans(block)
            match = next(spans, None)
            begin = 0
            while begin < len(block):
                if not window.waits:
                    near = _lines_back(block, match[0] if match else len(block), self._context)
                    number += block.count(b"\n", begin, near)
                    begin = max(begin, near)
                span = _line_around(block, begin)
                text, binary = clean(block[slice(*span)], self._max_line)
                yield from window.push(Line(name, number, offset + begin, text, binary, span == match))
                match = next(spans, None) if span == match else match
                begin, number = span[1] + 1, number + 1
            offset += len(block)
        yield from window.flush()


def _line_around(block: bytes, at: int) -> Span:
    end = block.find(b"\n", at)
    return block.rfind(b"\n", 0, at) + 1, len(block) if end < 0 else end


def _lines_back(block: bytes, begin: int, count: int) -> int:
    """Return where the line begins that is *count* lines before the one at *begin*, or the first."""
    while begin > 0 and count:
        begin = block.rfind(b"\n", 0, begin - 1) + 1
        count -= 1
    return begin
