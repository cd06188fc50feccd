"""Resource limits of a shell: a command can lower those of the shell that started it, for all that come after it."""

from __future__ import annotations

import re

__all__ = ["TELL", "keeping"]

_OPTIONS = "c d e f l m n p r s t v w"
TELL = f"for k in {_OPTIONS}; do echo $k; ulimit -H -$k; ulimit -S -$k; done 2>/dev/null"
"""Prints each option of ``ulimit``, then the hard and the soft limit where the shell has it."""

_TOLD = re.compile(r"^([a-z])\n(unlimited|\d+)\n(unlimited|\d+)$", re.MULTILINE)


def keeping(told: str) -> str:
    """Shell code that defines ``limits``: it sets what was *told*, and fails where one is lower for good."""
    return f"limits() {{ {''.join(f'{_set(*each)} && ' for each in _TOLD.findall(told))}:; }}"


def _set(option: str, hard: str, soft: str) -> str:
    """Shell code that sets a limit: both at once where they are the same."""
    if hard == soft:
        return f"ulimit -{option} {hard}"
    return f"ulimit -H -{option} {hard} && ulimit -S -{option} {soft}"
