"""Names and patterns without regard to case, for file systems that fold it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from sandbox_kit.rules.globs import Steps
from sandbox_kit.rules.segments import Part, Step, Wild

__all__ = ["folded_paths", "folded_steps"]


def folded_paths(path: str) -> tuple[str, ...]:
    """The spellings that stand for *path*: each character folded to one, and fully (``ß`` to ``ss``).

    File systems differ in which of the two they do.
    """
    if path.isascii():
        return (path.lower(),)
    return tuple(dict.fromkeys((_simple(path), _full(path))))


def folded_steps(steps: Steps) -> Iterator[Steps]:
    """The same for a pattern: the forms to hold folded paths to, each once."""
    yield from dict.fromkeys(tuple(_fold(step, full) for step in steps) for full in (False, True))


def _fold(step: Step, full: bool) -> Step:
    if isinstance(step, Wild):
        return Wild(tuple(_fold_part(part, full) for part in step.parts), fold=True)
    return _fold_text(step, full) if isinstance(step, str) else step


def _fold_part(part: Part, full: bool) -> Part:
    return _fold_text(part, full) if isinstance(part, str) else part


def _fold_text(text: str, full: bool) -> str:
    return _full(text) if full else _simple(text)


def _full(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())


def _simple(text: str) -> str:
    return unicodedata.normalize("NFC", "".join(map(_simple_char, text)))


def _simple_char(char: str) -> str:
    """*char* folded, if that is one character; so that ``?`` still stands for it."""
    for folded in (char.casefold(), char.lower()):
        if len(folded) == 1:
            return folded
    return char
