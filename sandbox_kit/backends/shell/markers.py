"""One reply in a stream that others may have written to: what stands between two marks that they cannot know."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from attrs import field, frozen

__all__ = ["Bounds", "Reader"]

_MAX_CODE = 48
"""The most bytes that a number and the line's end take."""


@frozen
class Bounds:
    """The two marks around one reply, of 128 random bits each.

    Attributes:
        begin: what stands before it. It ends the line.
        end: what stands after it, followed by a blank, a number and a line's end.
    """

    begin: bytes = field(factory=lambda: secrets.token_hex(16).encode())
    end: bytes = field(factory=lambda: secrets.token_hex(16).encode())


class Reader:
    """Takes a stream apart; bytes before the begin mark and after the end mark are dropped.

    Args:
        bounds: the marks.
        take: called with each piece of the reply, as it arrives.

    Attributes:
        begun: whether the begin mark has come.
        exit_code: what stood after the end mark; None until then.
    """

    def __init__(self, bounds: Bounds, take: Callable[[bytes], None]) -> None:
        self._begin = bounds.begin + b"\n"
        self._end = bounds.end
        self._take = take
        self._rest = b""
        self._ended = False
        self.begun = False
        self.exit_code: int | None = None

    def feed(self, data: bytes) -> None:
        """Take what arrived."""
        data = self._rest + data if self._rest else data
        if not self.begun:
            data = self._skip(data)
        if self.begun and not self._ended:
            data = self._pass_on(data)
        if self._ended and self.exit_code is None:
            self.exit_code = _code(data)
        self._rest = data if self.exit_code is None else b""

    def _skip(self, data: bytes) -> bytes:
        place = data.find(self._begin)
        if place < 0:
            return data[len(data) - _overlap(data, self._begin) :]
        self.begun = True
        return data[place + len(self._begin) :]

    def _pass_on(self, data: bytes) -> bytes:
        place = data.find(self._end)
        self._ended = place >= 0
        kept = place if self._ended else len(data) - _overlap(data, self._end)
        if kept:
            self._take(data[:kept])
        return data[kept + len(self._end) :] if self._ended else data[kept:]


def _code(data: bytes) -> int | None:
    """The number that a line holds; None while the line has no end.

    What cannot be one counts as 255.
    """
    line, newline, _ = data.partition(b"\n")
    if not newline and len(data) < _MAX_CODE:
        return None
    return int(line) if re.fullmatch(rb" \d{1,40}", line) else 255


def _overlap(data: bytes, mark: bytes) -> int:
    """How many bytes at the end of *data* are a beginning of *mark*."""
    start = max(0, len(data) - len(mark) + 1)
    place = data.find(mark[:1], start)
    while place >= 0 and not mark.startswith(data[place:]):
        place = data.find(mark[:1], place + 1)
    return 0 if place < 0 else len(data) - place
