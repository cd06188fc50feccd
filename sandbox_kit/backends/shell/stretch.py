"""A long piece of a file, taken as it comes: what is told of it stands before its bytes."""

from __future__ import annotations

from sandbox_kit.backends.shell.flow import Flow
from sandbox_kit.backends.shell.line import Line

__all__ = ["BEGUN", "Stretch", "records_of"]

BEGUN = b"\0b\0"
"""What comes between the records and the bytes."""


class Stretch:
    """The reply to one script; it keeps a loop until its end, or until it is closed.

    Args:
        line: reaches the sandbox.
        script: prints records, and then bytes.

    Attributes:
        records: as they came.
        has_bytes: whether bytes follow them.
    """

    def __init__(self, line: Line, script: str) -> None:
        self._flow = Flow(line, script, line.timeout)
        self._chunks = self._flow.chunks()
        head = bytearray()
        while (place := head.find(BEGUN)) < 0 and (chunk := next(self._chunks, b"")):
            head += chunk
        self.has_bytes = place >= 0
        self.records = records_of(head[:place] if self.has_bytes else head)
        self._first = bytes(head[place + len(BEGUN) :]) if self.has_bytes else b""

    @property
    def ended(self) -> bool:
        """Whether the script has come to its end."""
        return self._flow.code is not None

    @property
    def failed(self) -> bool:
        """Whether the bytes ended because they could not be read."""
        return bool(self._flow.code)

    def take(self) -> bytes:
        """Return what comes next; nothing at the end.

        Raises:
            SandboxUnavailableError: the loop is gone.
            SandboxTimeoutError: nothing came for too long.
        """
        first, self._first = self._first, b""
        return first or next(self._chunks, b"")

    def close(self) -> None:
        """Let go of what has not been taken; twice is fine."""
        self._chunks.close()


def records_of(data: bytearray) -> list[str]:
    """Return the records of a reply; undecodable bytes are surrogate escapes."""
    return data.decode("utf-8", "surrogateescape").split("\0")
