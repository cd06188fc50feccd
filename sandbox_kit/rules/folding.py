"""Names and patterns without regard to case, for file systems that fold it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from sandbox_kit.rules.globs import Steps
from sandbox_kit.rules.segments import Part, Step, Wild

__all__ = ["folded_paths", "folded_steps"]


# Source: Default_Ignorable_Code_Point, DerivedCoreProperties.txt of Unicode 15.0.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)
_FOLDS = ((False, False), (False, True), (True, False), (True, True))


def folded_paths(path: str) -> tuple[str, ...]:
    """The spellings that stand for *path*: each character folded to one, and fully (``ß`` to ``ss``).

    Both with the characters that Unicode lets a reader ignore, such as U+200D, and without: file systems
    differ in which of these they do.
    """
    if path.isascii():
        return (path.lower(),)
    return tuple(dict.fromkeys(_fold_path(path, full, bare) for full, bare in _FOLDS))


def _fold_path(path: str, full: bool, bare: bool) -> str:
    return "/".join(_fold_name(name, full, bare) for name in path.split("/")) if bare else _fold_text(path, full)


def _fold_name(name: str, full: bool, bare: bool) -> str:
    """*name* folded; one that would have no character left keeps those that can be ignored."""
    return _fold_text(_IGNORABLE.sub("", name) or name if bare else name, full)


def folded_steps(steps: Steps) -> Iterator[Steps]:
    """The same for a pattern: the forms to hold folded paths to, each once."""
    yield from dict.fromkeys(tuple(_fold(step, full, bare) for step in steps) for full, bare in _FOLDS)


def _fold(step: Step, full: bool, bare: bool) -> Step:
    if isinstance(step, Wild):
        return Wild(tuple(_fold_part(part, full, bare) for part in step.parts), fold=True)
    return _fold_name(step, full, bare) if isinstance(step, str) else step


def _fold_part(part: Part, full: bool, bare: bool) -> Part:
    return _fold_name(part, full, bare) if isinstance(part, str) else part


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
