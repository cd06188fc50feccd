"""Where a name stands in a path that any of some segments may match: one search, not a look-up for each name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from sandbox_kit.rules.segments import Segment, Wild

__all__ = ["compile_scan"]

MAX_SEGMENTS = 128
MAX_INNER = 8
"""How many segments may be known by a text somewhere in the name: each costs a pass over every name."""
INNER_CHARS = 16
"""How much of such a text is searched for."""


def compile_scan(segments: Collection[Segment]) -> re.Pattern[str] | None:
    """Return a regex that finds, in a normal absolute path, the slash before the next name to look at.

    A name that it passes over is matched by no segment; one that it finds may still be matched by none.

    Args:
        segments: what names are held to.

    Returns:
        The regex; None where there are too many segments for it to be worth while, or one has no literal text.
    """
    if len(segments) > MAX_SEGMENTS:
        return None
    wilds = [segment for segment in segments if isinstance(segment, Wild)]
    prefixes = {wild.prefix for wild in wilds if wild.prefix}
    suffixes = {wild.suffix for wild in wilds if wild.suffix and not wild.prefix}
    inner = {wild.required[:INNER_CHARS] for wild in wilds if not wild.prefix and not wild.suffix}
    if "" in inner or len(inner) > MAX_INNER:
        return None
    wholes = [segment for segment in segments if isinstance(segment, str)]
    alternatives = [*_starts(wholes, prefixes), *_ends(suffixes), *(f"[^/]*?{re.escape(text)}" for text in inner)]
    return re.compile(f"/(?:{'|'.join(alternatives) or '(?!)'})")


def _starts(wholes: Iterable[str], prefixes: Iterable[str]) -> Iterator[str]:
    """The names that are one of *wholes* or start with one of *prefixes*; most are told by their first character."""
    alternatives = [*(f"{re.escape(whole)}(?![^/])" for whole in wholes), *map(re.escape, prefixes)]
    if alternatives:
        yield f"(?={_one_of(text[0] for text in (*wholes, *prefixes))})(?:{'|'.join(alternatives)})"


def _ends(suffixes: Collection[str]) -> Iterator[str]:
    """The names that end with one of *suffixes*; most are told by their last character."""
    if suffixes:
        alternatives = (f"(?<={re.escape(suffix)})" for suffix in suffixes)
        yield f"[^/]*+(?<={_one_of(text[-1] for text in suffixes)})(?:{'|'.join(alternatives)})"


def _one_of(chars: Iterable[str]) -> str:
    return f"[{''.join(map(re.escape, dict.fromkeys(chars)))}]"
