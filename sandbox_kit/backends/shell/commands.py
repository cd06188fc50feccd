"""A command as shell code: a child that has nothing of the shell that starts it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.primitives import Command

__all__ = ["script"]

_MAX_WORD = 128 * 1024 - 4096
"""The most bytes of one argument: Linux takes 128 KiB with the end."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = frozenset(
    {
        "BASHOPTS",
        "BASH_VERSINFO",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "EUID",
        "GROUPS",
        "IFS",
        "LINENO",
        "OPTIND",
        "PPID",
        "RANDOM",
        "SHELLOPTS",
        "UID",
    }
)
"""Variables that mean something to a shell: it would take another value for them, or refuse theirs."""

_CHILD = ">/proc/self/fd/8 2>/proc/self/fd/9 8>&- 9>&-"


def script(command: Command, cwd: str, source: str = "</dev/null") -> str:
    """Shell code that runs *command* and leaves its exit code in ``c``.

    Args:
        command: its standard input is not looked at.
        source: the redirection that gives it one.
        cwd: the real name of the directory that it starts in; a command does not start where that is another by now.

    Raises:
        InvalidArgumentError: a variable's name that no program could be given.
    """
    place = shlex.quote(cwd)
    enter = f'cd -P -- {place} && [ "$PWD" = {place} ] || exit 126'
    return f"( {'; '.join([enter, *_exports(command.env), _start(command)])} ) {source} {_CHILD}\nc=$?"


def _start(command: Command) -> str:
    """What is executed. A long line comes through a pipe: dash loses bytes of here-documents that are not ASCII."""
    odd = _odd(command.env)
    if command.line is None:
        return f"exec /bin/sh -c 'exec \"$@\"' sh {odd}{shlex.join(command.argv)}"
    line = shlex.quote(command.line)
    if len(command.line.encode("utf-8", "surrogateescape")) <= _MAX_WORD:
        return f"exec {odd}/bin/sh -c {line}"
    return f"printf %s {line} | {{ exec 7<&0 </dev/null; exec {odd}/bin/sh /proc/self/fd/7; }}"


def _exports(env: Mapping[str, str]) -> list[str]:
    plain = [f"{name}={shlex.quote(value)}" for name, value in env.items() if _is_plain(name)]
    return [f"export {' '.join(plain)}"] if plain else []


def _odd(env: Mapping[str, str]) -> str:
    """A prefix that sets variables whose names the shell does not take."""
    odd = {name: value for name, value in env.items() if not _is_plain(name)}
    if any(not name or "=" in name for name in odd):
        raise InvalidArgumentError("env: a name is empty or holds '='")
    return f"env -- {shlex.join(f'{name}={value}' for name, value in odd.items())} " if odd else ""


def _is_plain(name: str) -> bool:
    return name not in _SPECIAL and _NAME.fullmatch(name) is not None
