"""GrepFilter: the output of an external grep in, the hits in allowed files out.

Neither needs more memory than a chunk and a few lines, whatever comes in.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sandbox_kit.errors import RemoteProtocolError
from sandbox_kit.search.hits import MAX_LINE, Hit
from sandbox_kit.search.records import MAX_NAME, RecordParser

__all__ = ["ByteFilter", "GrepFilter"]

Allow = Callable[[bytes], bool]

# All the whole records of one file that stand side by side.
_RUN = re.compile(rb"([^\0]++)\0[^\n]*+\n(?:\1\0[^\n]*+\n)*+")


class ByteFilter:
    """Passes on the records of allowed files, byte for byte, from chunks of any size.

    Args:
        allow: whether the file of that name may be seen; asked once for neighbouring records.
    """

    def __init__(self, allow: Allow) -> None:
        self._allow = allow
        self._name: bytes | None = None
        self._allowed = False
        self._carry = b""
        self._inside = False

    def feed(self, chunk: bytes) -> bytes:
        """Return what *chunk* has of records of allowed files, in order.

        Raises:
            RemoteProtocolError: the stream is not made of NUL-framed records.
        """
        kept: list[bytes] = []
        if self._inside:
            end = chunk.find(b"\n") + 1
            if not end:
                return chunk if self._allowed else b""
            self._inside = False
            kept += [chunk[:end]] if self._allowed else []
            chunk = chunk[end:]
        data = self._carry + chunk if self._carry else chunk
        end = self._runs(data, kept)
        self._rest(data[end:], kept)
        return kept[0] if len(kept) == 1 else b"".join(kept)

    def close(self) -> None:
        """Say that the stream has ended.

        Raises:
            RemoteProtocolError: it ended inside a record.
        """
        if self._carry or self._inside:
            raise RemoteProtocolError("the output of the search ends inside a record")

    def _runs(self, data: bytes, kept: list[bytes]) -> int:
        """Add the allowed whole records of *data*, neighbours in one piece; return where they end."""
        begin = end = 0
        match = _RUN.match
        while run := match(data, end):
            if not self._judge(run[1]):
                if begin < end:
                    kept.append(data[begin:end])
                begin = run.end()
            end = run.end()
        if begin < end:
            kept.append(data[begin:end])
        return end

    def _rest(self, rest: bytes, kept: list[bytes]) -> None:
        """Keep the part of a name for the next chunk; of a record whose name is known, keep nothing."""
        name, nul, _ = rest.partition(b"\0")
        if len(name) > MAX_NAME or (nul and not name):
            raise RemoteProtocolError("the output of the search is not made of NUL-framed records")
        self._inside = bool(nul)
        self._carry = b"" if nul else rest
        if nul and self._judge(name):
            kept.append(rest)

    def _judge(self, name: bytes) -> bool:
        if name != self._name:
            self._allowed = self._allow(name)
            self._name = name
        return self._allowed


class GrepFilter:
    """Gives the hits in allowed files, from chunks of any size.

    Nothing of another file leaves it: no line, no context, no count.

    Args:
        allow: whether the file of that name may be seen; asked once for neighbouring records.
        limit: how many hits to give at most; None sets no limit.
        context: how many lines of context the search was asked for.
        max_line: how many bytes of a line are kept.
    """

    def __init__(self, allow: Allow, *, limit: int | None = None, context: int = 0, max_line: int = MAX_LINE) -> None:
        self._bytes = ByteFilter(allow)
        self._records = RecordParser(context=context, max_line=max_line)
        self._left = limit
        self._truncated = False

    @property
    def truncated(self) -> bool:
        """Whether there was another hit, over the limit: the search can be stopped."""
        return self._truncated

    def feed(self, chunk: bytes) -> list[Hit]:
        """Return the hits that *chunk* made whole, in order; none once :attr:`truncated`.

        Raises:
            RemoteProtocolError: the stream is not made of NUL-framed records.
        """
        return [] if self._truncated else self._limited(self._records.feed(self._bytes.feed(chunk)))

    def close(self) -> list[Hit]:
        """Return the hits that waited for more context: the stream has ended.

        Raises:
            RemoteProtocolError: it ended inside a record.
        """
        if self._truncated:
            return []
        self._bytes.close()
        return self._limited(self._records.close())

    def _limited(self, hits: list[Hit]) -> list[Hit]:
        if self._left is None:
            return hits
        self._truncated = len(hits) > self._left
        hits = hits[: self._left]
        self._left -= len(hits)
        return hits
