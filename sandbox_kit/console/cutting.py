"""Long texts, cut to what a model can take in; a mark tells what is missing, and how to see it."""

from __future__ import annotations

from itertools import accumulate

__all__ = ["cut_line", "keep_ends", "shorten", "take_until_full"]

_NEAR = 5


def cut_line(line: str, limit: int) -> str:
    """Return *line*, or its first *limit* characters and how many there are."""
    if len(line) <= limit:
        return line
    return f"{line[:limit]} ... (line cut at {limit:,} of {len(line):,} characters)"


def shorten(text: str, limit: int) -> str:
    """Return *text*, of one line, or *limit* characters of its beginning and end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} characters cut) ... {text[-half:]}"


def keep_ends(text: str, limit: int, advice: str) -> str:
    """Return *text*, or about *limit* characters of its beginning and end, cut at the ends of lines.

    Args:
        advice: how to see the rest.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    head, tail = _without_last_piece(text[:half]), _without_first_piece(text[-half:])
    missing = len(text) - len(head) - len(tail)
    gap = "" if head.endswith("\n") else "\n"
    return f"{head}{gap}... {missing:,} of {len(text):,} characters cut here: {advice} ...\n{tail}"


def take_until_full(lines: list[str], limit: int) -> list[str]:
    """Return the first of *lines*, at least one, for as long as they hold no more than *limit* characters."""
    sizes = accumulate(len(line) + 1 for line in lines)
    count = next((index for index, size in enumerate(sizes) if size > limit), len(lines))
    return lines[: max(count, 1)]


def _without_last_piece(head: str) -> str:
    """Return *head* without a last line that is not whole, unless it is most of it."""
    end = head.rfind("\n") + 1
    return head[:end] if end > len(head) - len(head) // _NEAR else head


def _without_first_piece(tail: str) -> str:
    start = tail.find("\n") + 1
    return tail[start:] if start < len(tail) // _NEAR else tail
