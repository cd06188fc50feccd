"""What is printed, and how: bytes as they are into a pipe, harmless text and colour onto a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Literal, TextIO

from sandbox_kit.errors import printable
from sandbox_kit.types import Action

__all__ = ["COLOUR_OF", "Colour", "Screen", "complain"]

Colour = Literal["red", "green", "yellow", "blue", "magenta", "cyan"]
COLOUR_OF: dict[Action, Colour] = {"allow": "green", "ask": "yellow", "deny": "red"}

_CODES: dict[Colour, int] = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
_LAYOUT = re.compile(r"(\r?\n|\t)")


class Screen:
    """Standard output.

    Args:
        stream: written to as UTF-8, undecodable names as the bytes that they were.

    Attributes:
        is_terminal: whether a person, and not a pipe, is at the other end.
        has_colour: whether colour is wanted: on a terminal, unless NO_COLOR is set.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self.has_colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def line(self, text: str = "") -> None:
        """Print *text*, which holds no newline of its own, at once."""
        self.write(f"{text}\n".encode("utf-8", "surrogateescape"))

    def write(self, data: bytes) -> None:
        """Print *data* as it is, at once."""
        self._stream.flush()
        self._stream.buffer.write(data)
        self._stream.buffer.flush()

    def json(self, document: Any, *, indent: int | None = None) -> None:
        """Print *document* as JSON in ASCII, on one line unless there is an *indent*."""
        self.line(json.dumps(document, indent=indent))

    def name(self, text: str) -> str:
        """Return a name or message as it can be printed: without control characters onto a terminal."""
        return printable(text) if self.is_terminal else text

    def text(self, text: str) -> str:
        """Return the content of a file as it can be printed: on a terminal only line ends and tabs act."""
        if not self.is_terminal:
            return text
        return "".join(piece if _LAYOUT.fullmatch(piece) else printable(piece) for piece in _LAYOUT.split(text))

    def paint(self, text: str, colour: Colour | None, *, bold: bool = False) -> str:
        """Return *text* in *colour*, if colour is wanted."""
        if colour is None or not self.has_colour:
            return text
        return f"\x1b[{'1;' if bold else ''}{_CODES[colour]}m{text}\x1b[0m"


def complain(message: str) -> None:
    """Print *message* to standard error, as one line without control characters."""
    print(f"sandbox-kit: {printable(message)}", file=sys.stderr, flush=True)
