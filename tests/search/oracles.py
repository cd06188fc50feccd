"""Slow and obviously right: what a search of bytes gives, and what an external grep prints of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable

from sandbox_kit.search.hits import Hit

Matches = Callable[[bytes], bool]


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file, without their ``\\n``; no line follows the last ``\\n``."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def kept(raw: bytes, max_line: int = 2**20) -> bytes:
    if b"\0" in raw:
        return b""
    return (raw[:-1] if raw.endswith(b"\r") else raw)[:max_line]


def hits_in(data: bytes, matches: Matches, *, name: bytes = b"", context: int = 0, max_line: int = 2**20) -> list[Hit]:
    """Every hit of a file, up to the first that is binary."""
    lines = lines_of(data)
    hits = []
    offset = 0
    for index, raw in enumerate(lines):
        if matches(raw):
            before = tuple(kept(line, max_line) for line in lines[max(0, index - context) : index])
            after = tuple(kept(line, max_line) for line in lines[index + 1 : index + 1 + context])
            hits.append(Hit(name, index + 1, offset, kept(raw, max_line), before, after, b"\0" in raw))
            if b"\0" in raw:
                break
        offset += len(raw) + 1
    return hits


def printed(name: bytes, data: bytes, matches: Matches, *, context: int = 0) -> bytes:
    """What ripgrep or GNU grep prints of a file."""
    lines = lines_of(data)
    matching = [matches(raw) for raw in lines]
    output = []
    offset = 0
    for index, raw in enumerate(lines):
        if any(matching[max(0, index - context) : index + 1 + context]):
            sign = b":" if matching[index] else b"-"
            output.append(b"%s\0%d%s%d%s%s\n" % (name, index + 1, sign, offset, sign, raw))
        offset += len(raw) + 1
    return b"".join(output)


def cut_at(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The pieces of *data* between the cuts, which are taken modulo its length."""
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


def has_word(word: bytes) -> Matches:
    return re.compile(re.escape(word)).search  # type: ignore[return-value]
