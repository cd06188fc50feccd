"""The output of an external grep: how it is asked for, and how it is taken apart.

ripgrep and GNU grep print the same records, one a line, that no file name and no content can forge::

    name NUL line-number ":" byte-offset ":" content LF        a line that matched
    name NUL line-number "-" byte-offset "-" content LF        a line of context

A name has no NUL and a line no LF; so a name may hold LF, colons, dashes or bytes that are not
UTF-8, and a line may hold NUL. Both programs are told to treat every file as text.

Both exit with 0 if a line matched, 1 if none did, and 2 if something could not be searched, which
standard error tells.
"""

from __future__ import annotations

import re

from sandbox_kit.errors import RemoteProtocolError
from sandbox_kit.search.context import ContextWindow, Line
from sandbox_kit.search.dialect import Dialect
from sandbox_kit.search.hits import MAX_LINE, Hit, clean

__all__ = ["MAX_NAME", "RecordParser", "grep_options", "ripgrep_options"]

MAX_NAME = 2**16
"""The longest file name, in bytes; a longer one means that the stream is something else."""

_BOTH = ("--color=never", "--null", "--with-filename", "--line-number", "--byte-offset", "--text")
_RIPGREP = (
    *("--no-config", "--no-ignore", "--no-mmap", "--no-heading", "--no-context-separator"),
    *("--encoding=none", "--case-sensitive"),
    *_BOTH,
)
_GREP = ("--recursive", "--devices=skip", "--no-group-separator", *_BOTH)

_WHOLE = re.compile(rb"(?:[^\0]++\0\d{1,20}[:-]\d{1,20}[:-][^\n]*+\n)*+")
_RECORD = re.compile(rb"([^\0]++)\0(\d++)([:-])(\d++)[:-]([^\n]*+)\n")
_HEADER = re.compile(rb"([^\0]++)\0(\d{1,20})([:-])(\d{1,20})[:-]")
_PART_OF_HEADER = re.compile(rb"[^\0]*+(?:\0(?:\d{1,20}(?:[:-]\d{0,20})?)?)?")


def ripgrep_options(dialect: Dialect, *, context: int = 0, hidden: bool = False) -> list[str]:
    """Return ripgrep's options; only paths can follow them.

    Args:
        dialect: what to search for.
        context: how many lines to print around each match.
        hidden: whether to search dot names met in a walk.
    """
    options = [*_RIPGREP, *(["--hidden"] if hidden else []), *_context(context)]
    return [*options, *dialect.to_ripgrep(), "--"]


def grep_options(dialect: Dialect, *, context: int = 0, hidden: bool = False) -> list[str]:
    """Return GNU grep's options; only paths can follow them.

    The program needs :data:`~sandbox_kit.search.dialect.GREP_ENV` in its environment. Without
    *hidden*, it leaves out a start whose own last component is a dot name, but for ``.``.
    """
    shown = [] if hidden else ["--exclude=.?*", "--exclude-dir=.?*"]
    return [*_GREP, *shown, *_context(context), *dialect.to_grep(), "--"]


def _context(context: int) -> list[str]:
    return [f"--context={context}"] if context else []


class _OpenLine:
    """A record whose line end has not come yet: its beginning is kept, the rest only looked at."""

    def __init__(self, header: re.Match[bytes], keep: int) -> None:
        self.header = header
        self.keep = keep
        self.text = bytearray()
        self.binary = False

    def add(self, piece: bytes) -> None:
        self.binary = self.binary or b"\0" in piece
        self.text += piece[: self.keep - len(self.text)]


class RecordParser:
    """Takes records in chunks of any size and gives hits, in memory that a chunk and few lines bound.

    Args:
        context: how many lines of context were asked for.
        max_line: how many bytes of a line are kept.
    """

    def __init__(self, *, context: int = 0, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._window = ContextWindow(context) if context else None
        self._carry = b""
        self._open: _OpenLine | None = None
        self._binary_name: bytes | None = None

    @property
    def ended(self) -> bytes | None:
        """The file whose last hit, a binary one, was given; None if there is none, or another file came since."""
        return self._binary_name

    def feed(self, chunk: bytes) -> list[Hit]:
        """Return the hits that *chunk* made whole, in order.

        Raises:
            RemoteProtocolError: the stream is not made of such records.
        """
        hits: list[Hit] = []
        if self._open is not None:
            end = chunk.find(b"\n")
            self._open.add(chunk if end < 0 else chunk[:end])
            if end < 0:
                return hits
            hits += self._close_line(self._open)
            chunk = chunk[end + 1 :]
        data = self._carry + chunk if self._carry else chunk
        whole = _WHOLE.match(data)
        end = whole.end() if whole else 0
        if end:
            hits += self._records(data, end)
        self._keep(data[end:])
        return hits

    def close(self) -> list[Hit]:
        """Return the hits that waited for more context: the stream has ended.

        Raises:
            RemoteProtocolError: it ended inside a record.
        """
        if self._carry or self._open is not None:
            raise RemoteProtocolError("the output of the search ends inside a record")
        return self._window.flush() if self._window else []

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of a record for the next chunk."""
        header = _HEADER.match(rest)
        if header:
            self._carry = b""
            self._open = _OpenLine(header, self._max_line + 1)
            self._open.add(rest[header.end() :])
        elif len(rest) > MAX_NAME or not _PART_OF_HEADER.fullmatch(rest):
            raise RemoteProtocolError("the output of the search is not made of NUL-framed records")
        else:
            self._carry = rest

    def _close_line(self, line: _OpenLine) -> list[Hit]:
        name, number, sign, offset = line.header.groups()
        text = b"" if line.binary else clean(bytes(line.text), self._max_line)[0]
        self._open = None
        return self._push(Line(name, int(number), int(offset), text, line.binary, sign == b":"))

    def _records(self, data: bytes, end: int) -> list[Hit]:
        """Return the hits of the whole records that *data* has before *end*."""
        hits: list[Hit] = []
        for name, number, sign, offset, raw in _RECORD.findall(data, 0, end):
            hits += self._push(Line(name, int(number), int(offset), *clean(raw, self._max_line), sign == b":"))
        return hits

    def _push(self, line: Line) -> list[Hit]:
        if line.name != self._binary_name:
            self._binary_name = line.name if line.binary and line.matched else None
        elif line.matched:
            line = line._replace(matched=False)
        if self._window:
            return self._window.push(line)
        return [Hit(line.name, line.number, line.offset, line.text, (), (), line.binary)] if line.matched else []
