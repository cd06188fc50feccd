"""The lines around a match, gathered from lines that come one by one."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from sandbox_kit.search.hits import Hit

__all__ = ["ContextWindow", "Line"]


class Line(NamedTuple):
    """A line on its way to a hit, or to the context of one; *text* and *binary* are from :func:`clean`."""

    name: bytes
    number: int
    offset: int
    text: bytes
    binary: bool
    matched: bool


class ContextWindow:
    """Gathers the lines around each match from lines that come in order; some may be missing.

    It holds at most ``2 * context + 1`` lines.

    Args:
        context: how many lines before and after; at least 1.
    """

    def __init__(self, context: int) -> None:
        self._context = context
        self._last: Line | None = None
        self._recent: deque[bytes] = deque(maxlen=context)
        self._waiting: deque[tuple[Line, tuple[bytes, ...], list[bytes]]] = deque()

    @property
    def waits(self) -> bool:
        """Whether a match still waits for lines after it."""
        return bool(self._waiting)

    def push(self, line: Line) -> list[Hit]:
        """Take the next line; return the hits that it made whole, in order."""
        last = self._last
        if last is None or line.name != last.name or line.number != last.number + 1:
            whole = self.flush()
        else:
            whole = self._follow(line.text)
        if line.matched:
            self._waiting.append((line, tuple(self._recent), []))
        self._recent.append(line.text)
        self._last = line
        return whole

    def flush(self) -> list[Hit]:
        """Return the hits that wait, with the lines that there are: no line follows."""
        whole = [_hit(*waiting) for waiting in self._waiting]
        self._waiting.clear()
        self._recent.clear()
        return whole

    def _follow(self, text: bytes) -> list[Hit]:
        for _, _, after in self._waiting:
            after.append(text)
        whole: list[Hit] = []
        while self._waiting and len(self._waiting[0][2]) == self._context:
            whole.append(_hit(*self._waiting.popleft()))
        return whole


def _hit(line: Line, before: tuple[bytes, ...], after: list[bytes]) -> Hit:
    return Hit(line.name, line.number, line.offset, line.text, before, tuple(after), line.binary)
