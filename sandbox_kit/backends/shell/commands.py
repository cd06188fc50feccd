"""A command as shell code: a child that has nothing of the shell that starts it."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Mapping

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.primitives import Command

__all__ = ["script"]

_MAX_WORD = 128 * 1024 - 4096
"""The most bytes of one argument: Linux takes 128 KiB with the end."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CHILD = "</dev/null >/proc/self/fd/8 2>/proc/self/fd/9 8>&- 9>&-"


def script(command: Command, cwd: str) -> str:
    """Shell code that runs *command* and leaves its exit code in ``c``.

    Args:
        command: without standard input.
        cwd: the real name of the directory that it starts in; a command does not start where that is another by now.

    Raises:
        InvalidArgumentError: a variable's name that no program could be given.
    """
    line, inputs = _start(command)
    steps = [f"cd -P -- {shlex.quote(cwd)} && [ \"$PWD\" = {shlex.quote(cwd)} ] || exit 126", *_exports(command.env)]
    return f"( {'; '.join(steps)}; exec {_odd(command.env)}{line} ) {_CHILD} {inputs}\nc=$?"


def _start(command: Command) -> tuple[str, str]:
    """What is executed, and the here-document that it needs."""
    if command.line is None:
        return f'/bin/sh -c \'exec "$@"\' sh {shlex.join(command.argv)}', ""
    if len(command.line.encode("utf-8", "surrogateescape")) <= _MAX_WORD:
        return f"/bin/sh -c {shlex.quote(command.line)}", ""
    end = secrets.token_hex(16)
    return "/bin/sh /proc/self/fd/7", f"7<<'{end}'\n{command.line}\n{end}"


def _exports(env: Mapping[str, str]) -> list[str]:
    plain = [f"{name}={shlex.quote(value)}" for name, value in env.items() if _NAME.fullmatch(name)]
    return [f"export {' '.join(plain)}"] if plain else []


def _odd(env: Mapping[str, str]) -> str:
    """A prefix that sets variables whose names the shell does not take."""
    odd = {name: value for name, value in env.items() if not _NAME.fullmatch(name)}
    if any(not name or "=" in name for name in odd):
        raise InvalidArgumentError("env: a name is empty or holds '='")
    return f"env {shlex.join(f'{name}={value}' for name, value in odd.items())} " if odd else ""
