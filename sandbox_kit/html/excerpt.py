"""The beginning and the end of an output, in bounded memory."""

from __future__ import annotations

from collections import deque

__all__ = ["SHOWN", "Excerpt", "Piece"]

Piece = tuple[str, str]
"""What a piece is, ``"stdout"``, ``"stderr"``, or ``"cut"`` for what stands where the middle was, and its text."""

SHOWN = 32 * 2**10
"""How many characters of an output are shown."""


class Excerpt:
    """What was added first and last.

    Args:
        limit: how many characters are kept; half of them of the beginning.
    """

    def __init__(self, limit: int = SHOWN) -> None:
        self._head: list[Piece] = []
        self._head_room = limit // 2
        self._tail: deque[Piece] = deque()
        self._tail_room = limit - limit // 2
        self._dropped = 0

    def add(self, stream: str, text: str) -> None:
        """Take what arrived on *stream*."""
        first, rest = text[: self._head_room], text[self._head_room :]
        self._head_room -= len(first)
        if first:
            self._head.append((stream, first))
        if rest:
            self._tail.append((stream, rest))
            self._tail_room -= len(rest)
        while self._tail_room < 0:
            self._drop()

    def _drop(self) -> None:
        """Drop the oldest piece of the end, or as much of it as there is too much."""
        stream, text = self._tail.popleft()
        excess = min(len(text), -self._tail_room)
        if excess < len(text):
            self._tail.appendleft((stream, text[excess:]))
        self._tail_room += excess
        self._dropped += excess

    @property
    def pieces(self) -> list[Piece]:
        """What there is to show, in order."""
        cut = [("cut", f"… {self._dropped:,} characters are not shown …\n")] if self._dropped else []
        return [*self._head, *cut, *self._tail]
