"""A file of the sandbox as a stream, in ranges that demand the same file each time."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

from sandbox_kit.backends.shell.reading import ATTEMPTS, FIRST, WHOLE, Reading
from sandbox_kit.backends.shell.spots import Spot, Stat
from sandbox_kit.errors import PathAccessError, PathError, SandboxConflictError

__all__ = ["RangedFile", "open_file"]

_MOST = 2**23


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
        count = FIRST if judged else WHOLE
        piece = small or reading.piece(way, 0, count)
        judge(piece.spot)
        if piece.data is None or piece.spot.stat is None:
            raise PathAccessError(reading.path)
        ended = small is not None or len(piece.data) < count
        file = RangedFile(reading, piece.spot, piece.spot.stat, piece.data, ended=ended)
        if piece.spot.stat.size > WHOLE or file.held_whole():
            return io.BufferedReader(file, FIRST)
    raise reading.replaced()


class RangedFile(io.RawIOBase):
    """A file that was judged, read by ranges of growing size; between two of them it holds nothing.

    Args:
        reading: finds it again.
        spot: the place.
        file: which file is there.
        first: its first bytes.
        ended: whether these are all.

    Every method that reads raises SandboxConflictError when another file has the name by now.
    """

    def __init__(self, reading: Reading, spot: Spot, file: Stat, first: bytes, *, ended: bool) -> None:
        self._reading = reading
        self._spot = spot
        self._file = file
        self._held = memoryview(first)
        self._start = 0
        self._at = 0
        self._size = FIRST
        self._ended = ended

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
                self._fetch(WHOLE)
            except (SandboxConflictError, PathError):
                return False
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill *buffer* with what comes next, at least in part; 0 at the file's end."""
        if not self._covers():
            self._size = min(self._size * 4, _MOST)
            self._fetch(self._size)
        begin = self._at - self._start
        piece = self._held[begin : begin + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _covers(self) -> bool:
        """Whether the bytes at hand tell what comes next: some of them, or that the file has ended."""
        begin = self._at - self._start
        return 0 <= begin < len(self._held) or (self._ended and begin >= len(self._held))

    def _fetch(self, count: int) -> None:
        """Bring the range that begins here."""
        self._held = memoryview(b"")
        piece = self._reading.piece(self._spot.real, self._at, count)
        found = piece.spot
        if found.stat is None or found.real != self._spot.real or not self._is_file(found.stat):
            raise self._reading.replaced()
        if piece.data is None:
            raise PathAccessError(self._reading.path)
        self._held, self._start = memoryview(piece.data), self._at
        self._ended = len(piece.data) < count

    def _is_file(self, found: Stat) -> bool:
        return found.is_same(self._file) and found.born == self._file.born
