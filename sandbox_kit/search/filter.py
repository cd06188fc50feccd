"""The output of an external grep in, the lines of allowed files out.

No filter needs more memory than a chunk and a few lines, whatever comes in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sandbox_kit.errors import RemoteProtocolError
from sandbox_kit.search.hits import MAX_LINE
from sandbox_kit.search.records import MAX_NAME, RecordParser
from sandbox_kit.search.runs import Found, Run, expand, run_of

__all__ = ["ByteFilter", "GrepFilter"]

Allow = Callable[[bytes], bool]

# All the whole records of one file that stand side by side.
_RUN = re.compile(rb"([^\0]++)\0[^\n]*+\n(?:\1\0[^\n]*+\n)*+")
_SHORT = 2**12

_Piece = tuple[bytes | None, bytes]
"""Whole records of one file and its name; or None and a part of a record."""


class _Pieces:
    """Takes a stream of records in chunks of any size apart, and gives the pieces that are of allowed files."""

    def __init__(self, allow: Allow) -> None:
        self._allow = allow
        self._name: bytes | None = None
        self._allowed = False
        self._carry = b""
        self._inside = False

    def feed(self, chunk: bytes) -> list[_Piece]:
        pieces: list[_Piece] = []
        if self._inside:
            end = chunk.find(b"\n") + 1 or len(chunk)
            if self._allowed:
                pieces.append((None, chunk[:end]))
            if not chunk.endswith(b"\n", 0, end):
                return pieces
            chunk = chunk[end:]
        data = self._carry + chunk if self._carry else chunk
        self._rest(data[self._runs(data, pieces) :], pieces)
        return pieces

    def close(self) -> None:
        if self._carry or self._inside:
            raise RemoteProtocolError("the output of the search ends inside a record")

    def _runs(self, data: bytes, pieces: list[_Piece]) -> int:
        """Add the whole records of *data*; return where they end."""
        end = 0
        match, judge = _RUN.match, self._judge
        while run := match(data, end):
            end = run.end()
            name = run[1]
            if judge(name):
                pieces.append((name, run[0]))
        return end

    def _rest(self, rest: bytes, pieces: list[_Piece]) -> None:
        """Keep the short beginning of a record for the next chunk; of a long one, once its name is known, nothing."""
        name, nul, _ = rest.partition(b"\0")
        if len(name) > MAX_NAME or (nul and not name):
            raise RemoteProtocolError("the output of the search is not made of NUL-framed records")
        self._inside = bool(nul) and len(rest) > _SHORT
        self._carry = b"" if self._inside else rest
        if self._inside and self._judge(name):
            pieces.append((None, rest))

    def _judge(self, name: bytes) -> bool:
        if name != self._name:
            self._allowed = self._allow(name)
            self._name = name
        return self._allowed


class ByteFilter:
    """Passes on the records of allowed files, byte for byte, from chunks of any size.

    Args:
        allow: whether the file of that name may be seen; asked once for neighbouring records.
    """

    def __init__(self, allow: Allow) -> None:
        self._pieces = _Pieces(allow)

    def feed(self, chunk: bytes) -> bytes:
        """Return what *chunk* has of records of allowed files, in order; at most the last record comes later.

        Raises:
            RemoteProtocolError: the stream is not made of NUL-framed records.
        """
        return b"".join(piece for _, piece in self._pieces.feed(chunk))

    def close(self) -> None:
        """Say that the stream has ended.

        Raises:
            RemoteProtocolError: it ended inside a record.
        """
        self._pieces.close()


class GrepFilter:
    """Gives the lines that matched in allowed files, from chunks of any size.

    Nothing of another file leaves it: no line, no context, no count.

    Args:
        allow: whether the file of that name may be seen; asked once for neighbouring records.
        limit: how many lines to give at most; None sets no limit.
        context: how many lines of context the search was asked for.
        max_line: how many bytes of a line are kept.
    """

    def __init__(self, allow: Allow, *, limit: int | None = None, context: int = 0, max_line: int = MAX_LINE) -> None:
        self._pieces = _Pieces(allow)
        self._records = RecordParser(context=context, max_line=max_line)
        self._longest = 0 if context else max_line
        self._left = limit
        self._truncated = False

    @property
    def truncated(self) -> bool:
        """Whether there was another line, over the limit: the search can be stopped."""
        return self._truncated

    def feed(self, chunk: bytes) -> Sequence[Found]:
        """Return the lines that *chunk* made whole, in order; none once :attr:`truncated`.

        Raises:
            RemoteProtocolError: the stream is not made of NUL-framed records.
        """
        if self._truncated:
            return []
        found: list[Found] = []
        for name, records in self._pieces.feed(chunk):
            run = self._run(name, records)
            found += self._records.feed(records) if run is None else (run,)
        return self._limited(found)

    def close(self) -> Sequence[Found]:
        """Return the lines that waited for more context: the stream has ended.

        Raises:
            RemoteProtocolError: it ended inside a record.
        """
        if self._truncated:
            return []
        self._pieces.close()
        return self._limited(self._records.close())

    def _run(self, name: bytes | None, records: bytes) -> Run | None:
        """Take *records* as one; None where the lines have to be taken one by one."""
        if name is None or name == self._records.ended or len(records) > self._longest:
            return None
        return run_of(name, records)

    def _limited(self, found: Sequence[Found]) -> Sequence[Found]:
        if self._left is None:
            return found
        hits = expand(found)
        self._truncated = len(hits) > self._left
        hits = hits[: self._left]
        self._left -= len(hits)
        return hits
