"""Where the texts of a command line go: what is printed, here-documents, and the commands that may get them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attrs import frozen

from sandbox_kit.rules.rawcommands import RawCommand
from sandbox_kit.rules.shellwords import plain

__all__ = ["Datum", "Flow", "last_name"]

# How a command or process substitution starts in a coded word.
_SUBSTITUTED = re.compile(r"\0(?:\$\(|[`<>])")


@frozen
class Datum:
    """A text that is printed, or a here-document.

    Attributes:
        text: as the program gets it.
        write: whether what it names must be allowed for writing too.
        files: the last components of the files that it is stored in.
    """

    text: str
    write: bool
    files: tuple[str, ...]


@frozen
class Flow:
    """Where what a simple command reads comes from, and where its output goes.

    Attributes:
        reached: whether it may get texts of the same line as its input: by a pipe or a here-document.
        substituted: whether it may get them as words.
        files: the last components of the files that its output is stored in.
    """

    reached: bool = False
    substituted: bool = False
    files: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: RawCommand, codes: Sequence[str]) -> Flow:
        """The flow of *raw*, whose words are *codes*."""
        substituted = any("\0" in code and _SUBSTITUTED.search(code) for code in codes)
        return cls(raw.piped or raw.has_body, substituted, _stored(raw, codes))


def _stored(raw: RawCommand, codes: Sequence[str]) -> tuple[str, ...]:
    """The last components of the files that the output of *raw* goes to, as far as they are known."""
    targets = [redirection.target.code for redirection in raw.redirections if redirection.write]
    if "tee" in map(last_name, codes):
        targets += codes[1:]
    return tuple(name for name in map(last_name, targets) if name)


def last_name(code: str) -> str:
    """The last component of the path that a coded word spells."""
    return plain(code).rstrip("/").rpartition("/")[2]
