"""Questions to the person at the terminal."""

from __future__ import annotations

import os
import sys

from sandbox_kit.errors import printable
from sandbox_kit.judge import Ask

__all__ = ["asker", "can_ask", "confirm"]

_TERMINAL = "/dev/tty"
_LONGEST_ANSWER = 256


def can_ask() -> bool:
    """Whether there is somebody to ask: a terminal, and this process in its foreground."""
    if not any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        return False
    try:
        with open(_TERMINAL, "r+b", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def confirm(statement: str, question: str) -> bool:
    """Return whether the person says y or yes; anything else, and the end of input, is a no.

    Args:
        statement: what it is about; control characters are shown escaped.
        question: ends the prompt.
    """
    with open(_TERMINAL, "r+b", buffering=0) as terminal:
        terminal.write(f"sandbox-kit: {printable(statement)}\n{question} [y/N] ".encode("utf-8", "backslashreplace"))
        return terminal.readline(_LONGEST_ANSWER).strip().lower() in (b"y", b"yes")


def asker() -> Ask | None:
    """Return what asks where a rule says "ask", or None where nobody is there."""
    return _approve if can_ask() else None


def _approve(operation: str, target: str, reason: str) -> bool:
    return confirm(f"{operation} {target}: needs approval ({reason})", "Allow it?")
