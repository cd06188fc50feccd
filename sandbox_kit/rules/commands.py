"""The simple commands and the paths that a command line names.

The line is looked at as text; nothing is run, expanded against a file system or looked up. This catches
mistakes. It is no boundary: a name that only the running command knows is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from attrs import frozen

from sandbox_kit.rules.claims import PathClaim
from sandbox_kit.rules.command_analysis import Analysis, SimpleCommand
from sandbox_kit.rules.command_pattern import CommandPattern, compile_command
from sandbox_kit.rules.shellexpand import HOME
from sandbox_kit.rules.wrappers import READERS

__all__ = [
    "HOME",
    "READERS",
    "CommandLine",
    "CommandPattern",
    "PathClaim",
    "SimpleCommand",
    "compile_command",
    "split_command",
]

_MAX_KEY = 1024
"""How many characters a line has at most that is remembered, as callers run the same ones over and over."""


@frozen
class CommandLine:
    """What a command line names.

    Attributes:
        line: as given; words given as a sequence are joined by one blank.
        commands: every simple command in it, those inside ``sudo``, ``sh -c`` and the like besides the
            ones that run them; None for a line that cannot be split.
        candidates: *commands*, or what was found of them in a line that cannot be split: enough to deny by,
            not to allow by.
        claims: the paths that it names, also those of a line that cannot be split.
        overflow: whether it names more paths than can be judged; *claims* is then incomplete.
    """

    line: str
    commands: tuple[SimpleCommand, ...] | None
    candidates: tuple[SimpleCommand, ...]
    claims: tuple[PathClaim, ...]
    overflow: bool = False


def split_command(command: str | Sequence[str]) -> CommandLine:
    """Return the simple commands and paths of a command line; no text makes it raise.

    Args:
        command: shell text, read as both Bash and a plain POSIX shell do where they differ, or the words of
            one command.
    """
    if isinstance(command, str):
        return _remembered(command) if len(command) <= _MAX_KEY else _split(command)
    words = tuple(command)
    return _remembered(words) if sum(map(len, words)) <= _MAX_KEY else _split(words)


def _split(command: str | tuple[str, ...]) -> CommandLine:
    analysis = Analysis()
    if isinstance(command, str):
        line = command
        analysis.read_text(line)
    else:
        line = " ".join(command)
        analysis.read_words(command)
    found = tuple(analysis.commands)
    claims = analysis.claims
    return CommandLine(line, found if analysis.is_split else None, found, claims.found, claims.overflow)


_remembered = lru_cache(maxsize=64)(_split)
