"""Where the output of a command goes: kept to a limit, or read line by line."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Literal

from sandbox_kit.types import CommandResult

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[str, str], object]


class Capture:
    """The first bytes of both streams, decoded as they arrive.

    Args:
        limit: how many bytes of both streams together are kept; the rest is dropped.
        on_output: called with the stream's name and each piece of text that is kept.
            The pieces together are the result's ``output``.
    """

    def __init__(self, limit: int, on_output: OnOutput | None = None) -> None:
        self._room = limit
        self._on_output = on_output
        self._truncated = False
        self._bytes: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._text: dict[Stream, list[str]] = {"stdout": [], "stderr": []}
        self._output: list[str] = []
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {
            "stdout": decoder("replace"),
            "stderr": decoder("replace"),
        }

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take what arrived on *stream*."""
        if len(data) > self._room:
            self._truncated = True
            data = data[: self._room]
        if data:
            self._room -= len(data)
            self._bytes[stream] += data
            self._emit(stream, self._decoders[stream].decode(data))

    def result(self, exit_code: int | None, duration: float) -> CommandResult:
        """The record of what arrived; a character cut short at the end is U+FFFD."""
        for stream, decoder in self._decoders.items():
            self._emit(stream, decoder.decode(b"", final=True))
        return CommandResult(
            exit_code=exit_code,
            stdout="".join(self._text["stdout"]),
            stderr="".join(self._text["stderr"]),
            output="".join(self._output),
            truncated=self._truncated,
            duration=duration,
            stdout_bytes=bytes(self._bytes["stdout"]),
            stderr_bytes=bytes(self._bytes["stderr"]),
        )

    def _emit(self, stream: Stream, text: str) -> None:
        if text:
            self._text[stream].append(text)
            self._output.append(text)
            if self._on_output is not None:
                self._on_output(stream, text)


class Lines:
    """The unread lines of one stream, an iterator that waits for more until the stream ends.

    Lines keep their end, as those of a file do; the last one may lack it. Undecodable bytes
    are U+FFFD.

    Whoever waits takes a token first. One is there when there is something to read, or the end.

    Args:
        limit: how many unread bytes are kept. Over it the oldest lines are dropped, and of
            a single longer line its beginning.

    Attributes:
        dropped: how many bytes were dropped unread.
    """

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self._limit = limit
        self._unread = bytearray()
        self._searched = 0
        self._ended = False
        self._lock = threading.Lock()
        self._tokens: SimpleQueue[None] = SimpleQueue()

    def feed(self, data: bytes) -> None:
        """Append what arrived."""
        with self._lock:
            self._unread += data
            if len(self._unread) > self._limit:
                self._drop(len(self._unread) - self._limit)
        self._wake()

    def end(self) -> None:
        """Nothing more will arrive."""
        self._ended = True
        self._wake()

    def abandon(self) -> None:
        """End in a forked child, where the thread that feeds it does not run."""
        self._lock = threading.Lock()
        self._tokens = SimpleQueue()
        self._ended = True

    def _wake(self) -> None:
        if self._tokens.empty():
            self._tokens.put(None)

    def _drop(self, excess: int) -> None:
        whole = self._unread.find(b"\n", excess - 1) + 1
        excess = whole if 0 < whole < len(self._unread) else excess
        del self._unread[:excess]
        self.dropped += excess
        self._searched = 0

    def _take(self) -> bytes | None:
        """The next line; the unended rest after the end; None when neither is there."""
        size = self._unread.find(b"\n", self._searched) + 1
        if not size and self._ended:
            size = len(self._unread)
        self._searched = 0 if size else len(self._unread)
        line = bytes(self._unread[:size])
        del self._unread[:size]
        return line or None

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        while (line := self._next()) is None:
            if self._is_over():
                raise StopIteration
            self._tokens.get()
        if self._unread:
            self._wake()
        return line.decode("utf-8", "replace")

    def _next(self) -> bytes | None:
        with self._lock:
            line = self._take()
        return line

    def _is_over(self) -> bool:
        """Whether the end has come and nothing is left; then others that wait are told as well."""
        if self._ended:
            self._wake()
        return self._ended and not self._unread
