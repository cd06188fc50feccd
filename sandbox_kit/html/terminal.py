"""What a command prints, as a terminal would show it: colours as colours, every other escape sequence left out.

A carriage return begins the line anew, so that a progress bar is one line.

Source: ECMA-48, 8.3.117 (SGR); what a terminal takes for red and green is the style sheet's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from sandbox_kit.html.excerpt import Excerpt, Piece
from sandbox_kit.html.fragments import Markup, framed, joined, span, text, visible

__all__ = ["plain", "terminal", "terminal_text"]

_CONTROL = re.compile(
    r"\x1b\[(?P<select>[0-9;:]*)m"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b\n]*\x1b\\"
    r"|\x1b[ -/]*[0-~]?"
    r"|(?P<end>\r*\n)"
    r"|(?P<again>\r+)"
)

_Looks = dict[str, str]

_CHANGES: dict[int, tuple[str, str]] = {
    1: ("weight", "sbk-bold"),
    2: ("weight", "sbk-dim"),
    3: ("slant", "sbk-slant"),
    4: ("under", "sbk-under"),
    7: ("swap", "sbk-swap"),
    22: ("weight", ""),
    23: ("slant", ""),
    24: ("under", ""),
    27: ("swap", ""),
    39: ("fg", ""),
    49: ("bg", ""),
    **{base + n: ("fg", f"sbk-fg{n}") for base in (30, 90) for n in range(8)},
    **{base + n: ("bg", f"sbk-bg{n}") for base in (40, 100) for n in range(8)},
}
_CLASS_OF = {"stderr": "sbk-err", "cut": "sbk-cut"}


class _Writer:
    """The lines of one stream, and how text on it looks at the moment."""

    def __init__(self) -> None:
        self._looks: _Looks = {}
        self._done: list[tuple[str, tuple[str, ...]]] = []
        self._line: list[tuple[str, tuple[str, ...]]] = []
        self._returned = False

    def write(self, value: str) -> None:
        """Take a piece of text with its control sequences."""
        start = 0
        for control in _CONTROL.finditer(value):
            self._put(value[start : control.start()])
            self._obey(control)
            start = control.end()
        self._put(value[start:])

    def taken(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return what was written since the last time: texts, each with its classes."""
        taken, self._done, self._line = self._done + self._line, [], []
        return taken

    def _put(self, value: str) -> None:
        if value:
            if self._returned:
                self._line.clear()
                self._returned = False
            self._line.append((value, tuple(filter(None, self._looks.values()))))

    def _obey(self, control: re.Match[str]) -> None:
        if control["select"] is not None:
            self._looks = _changed(self._looks, control["select"])
        elif control["end"]:
            self._done += [*self._line, ("\n", ())]
            self._line.clear()
            self._returned = False
        elif control["again"]:
            self._returned = True


def _changed(looks: _Looks, parameters: str) -> _Looks:
    """Return how text looks after an SGR sequence; colours beyond the sixteen are left out."""
    codes = [int(each) if each else 0 for each in re.split("[;:]", parameters) if len(each) <= 3]
    changed = dict(looks)
    while codes:
        code = codes.pop(0)
        if code == 0:
            changed.clear()
        elif code in (38, 48):
            del codes[: 4 if codes[:1] == [2] else 2]
        elif code in _CHANGES:
            slot, value = _CHANGES[code]
            changed[slot] = value
    return changed


def terminal(pieces: Iterable[Piece]) -> Markup:
    """Return what a command printed, in a frame; what came on stderr is told apart, on lines of its own.

    Args:
        pieces: in order of arrival, no more than is to be shown.
    """
    writers: dict[str, _Writer] = {}
    blocks = []
    for stream, group in groupby(pieces, key=lambda piece: piece[0]):
        writer = writers.setdefault(stream, _Writer())
        writer.write("".join(value for _, value in group))
        spans = joined(span(text(value), *looks) for value, looks in writer.taken())
        blocks.append(span(spans, _CLASS_OF.get(stream, "sbk-out")))
    return framed(Markup(f'<pre class="sbk-output">{joined(blocks)}</pre>'))


def terminal_text(stream: str, value: str) -> Markup:
    """Return the output of one stream, its beginning and its end if it is long."""
    excerpt = Excerpt()
    excerpt.add(stream, value)
    return terminal(excerpt.pieces)


def plain(value: str) -> str:
    """Return *value* without escape sequences and control characters, for a place that shows text only."""
    writer = _Writer()
    writer.write(value)
    return visible("".join(each for each, _ in writer.taken()))
