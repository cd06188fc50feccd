"""The line that matched, as bytes: what every search produces, and what must bear it out."""

from __future__ import annotations

from typing import NamedTuple

from sandbox_kit.types import GrepMatch

__all__ = ["MAX_LINE", "Hit", "clean", "confirm"]

MAX_LINE = 2**20
"""How many bytes of a line are kept, unless told otherwise."""

_LINE_FEED = 10


class Hit(NamedTuple):
    """One line that matched.

    Attributes:
        name: the file, as the search named it.
        line_number: 1-based.
        offset: where the line begins in the file, in bytes.
        line: the line without its end, cut to the longest length kept; empty if *binary*.
        before: the lines before it, oldest first, in the same form; empty where they hold a NUL.
        after: the lines after it.
        binary: whether the line holds a NUL. No later hit of that file follows.
    """

    name: bytes
    line_number: int
    offset: int
    line: bytes
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    binary: bool = False

    def to_match(self, path: str) -> GrepMatch:
        """Return the public record, under the name *path*; undecodable bytes become U+FFFD."""
        line = self.line.decode("utf-8", "replace")
        if not self.before and not self.after:
            return GrepMatch(path, self.line_number, line, (), (), self.binary)
        return GrepMatch(path, self.line_number, line, _decoded(self.before), _decoded(self.after), self.binary)


def _decoded(lines: tuple[bytes, ...]) -> tuple[str, ...]:
    return tuple(line.decode("utf-8", "replace") for line in lines)


def clean(raw: bytes, max_line: int) -> tuple[bytes, bool]:
    """Return what is kept of a line given up to its ``\\n``, and whether it holds a NUL."""
    if b"\0" in raw:
        return b"", True
    return raw.removesuffix(b"\r")[:max_line], False


def confirm(hit: Hit, data: bytes, *, base: int = 0, context: int = 0, max_line: int = MAX_LINE) -> Hit | None:
    """Return *hit* with every line taken from *data*, or None if *data* does not hold its line.

    A search program is only an index of candidates: what it printed is released once a file that the
    library itself opened, pinned and judged has the same line at the same place::

        data = read_all(pinned_descriptor)
        hits = (confirm(hit, data, context=context) for hit in expand(search_filter.feed(chunk)))
        yield from (hit.to_match(path) for hit in hits if hit is not None)

    Args:
        hit: what the program printed.
        data: the file's bytes from *base* on, with the whole line in them and what follows as context.
        base: where *data* begins in the file; if not 0, before the line and its context begin.
        context: how many lines before and after to take from *data*.
        max_line: as in the search that made the hit.
    """
    start = hit.offset - base
    if start >= len(data) or not (data[start - 1] == _LINE_FEED if start > 0 else start == base == 0):
        return None
    end = data.find(b"\n", start)
    raw = data[start:end] if end >= 0 else data[start:]
    if (raw != hit.line or hit.binary) and clean(raw, max_line) != (hit.line, hit.binary):
        return None
    if not context:
        return hit if not hit.before and not hit.after else hit._replace(before=(), after=())
    first = data.find(b"\n") + 1 if base else 0
    before = _lines_before(data, start, first, context)
    after = _lines_after(data, start + len(raw) + 1, context)
    return hit._replace(
        before=tuple(clean(line, max_line)[0] for line in before),
        after=tuple(clean(line, max_line)[0] for line in after),
    )


def _lines_before(data: bytes, start: int, first: int, count: int) -> list[bytes]:
    lines: list[bytes] = []
    while start > first and len(lines) < count:
        begin = data.rfind(b"\n", 0, start - 1) + 1
        lines.append(data[begin : start - 1])
        start = begin
    return lines[::-1]


def _lines_after(data: bytes, start: int, count: int) -> list[bytes]:
    lines: list[bytes] = []
    while start < len(data) and len(lines) < count:
        end = data.find(b"\n", start)
        lines.append(data[start:end] if end >= 0 else data[start:])
        start += len(lines[-1]) + 1
    return lines
