"""Neighbouring lines of one file that matched, taken as one: how nearly all of a search's output comes.

Text here is ISO 8859-1, one character a byte: positions stay those of the bytes, and what is ASCII
need not be decoded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from sandbox_kit.search.hits import Hit
from sandbox_kit.types import GrepMatch

__all__ = ["Found", "Run", "as_text", "expand", "run_of"]

_ROW = re.compile(r"\0([0-9]{1,20}):([0-9]{1,20}):([^\n]*+\n)")
_TEXT = "latin-1"


class Run(NamedTuple):
    """Lines of one file that matched, in order, none with a NUL, a carriage return or context.

    Attributes:
        name: the file, as the search named it.
        rows: of each line its number, its byte offset, and itself with its ``\\n``, as text.
    """

    name: bytes
    rows: list[tuple[str, str, str]]

    def hits(self) -> list[Hit]:
        """Return the lines one by one."""
        return [Hit(self.name, int(number), int(offset), line[:-1].encode(_TEXT)) for number, offset, line in self.rows]

    def matches(self, path: str, text: str) -> list[GrepMatch]:
        """Return the lines that stand in a file as they were found, as public records.

        It is :func:`~sandbox_kit.search.hits.confirm` for all of them at once. A last line without
        ``\\n`` needs that closer look, as does one that is not there by now; neither is returned.

        Args:
            path: what to call the file.
            text: the whole file, by :func:`as_text`.
        """
        stands = text.startswith
        return [
            GrepMatch(path, int(number), line[:-1] if line.isascii() else _decoded(line))
            for number, offset, line in self.rows
            if stands(line, at := int(offset)) and (text[at - 1] == "\n" or not at)
        ]


Found = Run | Hit


def as_text(data: bytes) -> str:
    """Return *data*, one character a byte."""
    return data.decode(_TEXT)


def run_of(name: bytes, records: bytes) -> Run | None:
    """Take whole records of one file apart; None unless each is of a line as :class:`Run` has them."""
    text = as_text(records)
    rows: list[tuple[str, str, str]] = _ROW.findall(text)
    return Run(name, rows) if len(rows) == text.count("\0") and "\r" not in text else None


def expand(found: Iterable[Found]) -> list[Hit]:
    """Return all lines of *found* one by one."""
    hits: list[Hit] = []
    for each in found:
        hits += each.hits() if isinstance(each, Run) else (each,)
    return hits


def _decoded(line: str) -> str:
    return line[:-1].encode(_TEXT).decode("utf-8", "replace")
