"""A file of the sandbox as a stream, in long ranges that demand the same file each time."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

from sandbox_kit.backends.shell.reading import ATTEMPTS, FIRST, WHOLE, Reading
from sandbox_kit.backends.shell.spots import Spot, Stat
from sandbox_kit.backends.shell.stretch import Stretch
from sandbox_kit.errors import (
    PathAccessError,
    PathError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxUnavailableError,
)

__all__ = ["RangedFile", "open_file"]

_MOST = 2**26
"""How many bytes come at once: whoever needs the shell in between takes what is left of them first."""

_GROWTH = 4
"""How many times the last range the next one is, where nobody says how much will be wanted."""


def open_file(reading: Reading, way: str, judge: Callable[[Spot], None], *, judged: bool, exact: bool) -> BinaryIO:
    """Open a regular file.

    Args:
        reading: finds it.
        way: the absolute path to follow.
        judge: raises where the place, or what is there, must not be read.
        judged: whether it may; then few bytes come before its answer.
        exact: whether it needs what stat says.

    Raises:
        PathAccessError: the file system refuses.
        SandboxConflictError: another file took the name, each time.
    """
    small = None if exact else reading.small(way, judged=judged)
    for _ in range(ATTEMPTS):
        piece = small or reading.piece(way, 0, FIRST)
        judge(piece.spot)
        if piece.data is None or piece.spot.stat is None:
            raise PathAccessError(reading.path)
        ended = small is not None or len(piece.data) < FIRST
        file = RangedFile(reading, piece.spot, piece.spot.stat, piece.data, ended=ended)
        if piece.spot.stat.size > WHOLE or file.held_whole():
            return io.BufferedReader(file, FIRST)
    raise reading.replaced()


class RangedFile(io.RawIOBase):
    """A file that was judged, read by ranges that are streams; between two of them it holds nothing.

    Each range is longer than the one before; after a seek they are short again.

    Args:
        reading: finds it again.
        spot: the place.
        file: which file is there.
        first: its first bytes.
        ended: whether these are all.

    Every method that reads raises SandboxConflictError when another file has the name by now.
    """

    def __init__(self, reading: Reading, spot: Spot, file: Stat, first: memoryview, *, ended: bool) -> None:
        self._reading = reading
        self._spot = spot
        self._file = file
        self._held = first
        self._start = 0
        self._at = 0
        self._size = FIRST
        self._ended = ended
        self._range: Stretch | None = None
        self._left = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place; the end is where it was when the file was opened."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        if base + offset < 0:
            raise ValueError(f"negative seek position {base + offset}")
        self._at = base + offset
        return self._at

    def held_whole(self) -> bool:
        """Bring a small file at once; False where another one has the name by now."""
        if not self._ended:
            try:
                piece = self._reading.piece(self._spot.real, 0, WHOLE + 1)
                self._check(piece.spot)
            except (SandboxConflictError, PathError):
                return False
            if piece.data is None:
                return False
            self._held, self._ended = piece.data, len(piece.data) <= WHOLE
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill *buffer* with what comes next, at least in part; 0 at the file's end."""
        if not self._covers():
            self._advance(len(buffer))
        begin = self._at - self._start
        piece = self._held[begin : begin + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._stop()
        super().close()

    def _covers(self) -> bool:
        """Whether the bytes at hand tell what comes next: some of them, or that the file has ended."""
        begin = self._at - self._start
        return 0 <= begin < len(self._held) or (self._ended and begin >= len(self._held))

    def _advance(self, wanted: int) -> None:
        """Have the bytes at hand that come next.

        Args:
            wanted: how many will be asked for, as far as is known.
        """
        if self._at != self._start + len(self._held):
            self._stop()
            self._size = FIRST // _GROWTH
        self._held, self._start, self._ended = memoryview(b""), self._at, False
        while not self._held and not self._ended:
            self._take(self._range or self._begin(wanted))

    def _begin(self, wanted: int) -> Stretch:
        """Begin the range that starts here."""
        self._size = self._left = min(max(_GROWTH * self._size, wanted), _MOST)
        spot, self._range = self._reading.stretch(self._spot.real, self._at, self._size)
        try:
            self._check(spot)
        except SandboxConflictError:
            self._stop()
            raise
        return self._range

    def _take(self, stretch: Stretch) -> None:
        """Take what comes next of a range; one that is shorter than asked for ends where the file does."""
        self._held = memoryview(self._taken(stretch))
        self._left -= len(self._held)
        if not self._held:
            self._range = None
            if stretch.failed:
                raise self._reading.unreadable()
            self._ended = self._left > 0 and stretch.ended

    def _taken(self, stretch: Stretch) -> bytes:
        """What comes next; nothing where the loop is lost in mid-range, and another range may go on from here."""
        try:
            return stretch.take()
        except SandboxClosedError:
            raise
        except SandboxUnavailableError:
            if self._left == self._size:
                raise
            return b""

    def _stop(self) -> None:
        """Let go of a range that nobody wants any more."""
        stretch, self._range = self._range, None
        if stretch is not None:
            stretch.close()

    def _check(self, found: Spot) -> None:
        """Refuse another file than the one that was judged."""
        if found.stat is None or found.real != self._spot.real or not self._is_file(found.stat):
            raise self._reading.replaced()

    def _is_file(self, found: Stat) -> bool:
        return found.is_same(self._file) and found.born == self._file.born
