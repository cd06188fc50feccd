"""Checks of what a caller passes in, shared by every public method."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO, Literal, get_args

from sandbox_kit.cancelling import take
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.paths import SandboxPath, check_path
from sandbox_kit.primitives import Command
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.types import parse_size

__all__ = [
    "MAX_OUTPUT",
    "CommandMode",
    "check_callable",
    "check_commands",
    "check_count",
    "check_denied",
    "check_ruleset",
    "check_string",
    "check_timeout",
    "command",
]

CommandMode = Literal["auto", "confined", "inspected"]
"""How commands are held to rules: by the kernel, by a look at their line, or by the kernel where it can."""


MAX_OUTPUT = 10 * 2**20
_LONGEST = sys.float_info.max


def check_string(value: str, name: str) -> str:
    """Return *value*.

    Raises:
        InvalidArgumentError: it is no string.
    """
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name}: is a str, not {type(value).__name__}")
    return value


def check_count(value: int, name: str) -> int:
    """Return *value*.

    Raises:
        InvalidArgumentError: it is no integer, or negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidArgumentError(f"{name}: {value!r} is not an integer from 0 on")
    return value


def check_timeout(value: float | None, name: str = "timeout") -> float | None:
    """Return *value* in seconds, None for no limit.

    Raises:
        InvalidArgumentError: it is no positive, finite number.
    """
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST:
        return float(value)
    raise InvalidArgumentError(f"{name}: {value!r} is not a positive number of seconds")


def check_callable(value: object, name: str) -> None:
    """Check that *value* is None or can be called.

    Raises:
        InvalidArgumentError: it cannot be called.
    """
    if value is not None and not callable(value):
        raise InvalidArgumentError(f"{name}: {value!r} cannot be called")


def check_ruleset(value: PermissionRuleset | None, *, optional: bool = True) -> None:
    """Check that *value* is a ruleset, or None where it is *optional*.

    Raises:
        InvalidArgumentError: it is something else.
    """
    if not isinstance(value, PermissionRuleset) and not (optional and value is None):
        raise InvalidArgumentError(f"ruleset: {value!r} is not a PermissionRuleset")


def check_commands(value: str) -> None:
    """Check that *value* is one of :data:`CommandMode`.

    Raises:
        InvalidArgumentError: it is none.
    """
    if value not in get_args(CommandMode):
        raise InvalidArgumentError(f"commands: {value!r} is none of {', '.join(map(repr, get_args(CommandMode)))}")


def check_denied(value: str) -> Literal["error", "skip"]:
    """Return *value*.

    Raises:
        InvalidArgumentError: it is neither ``"error"`` nor ``"skip"``.
    """
    if value == "error":
        return "error"
    if value == "skip":
        return "skip"
    raise InvalidArgumentError(f"denied: {value!r} is neither 'error' nor 'skip'")


def command(
    given: str | Sequence[SandboxPath],
    *,
    timeout: float | None = None,
    cwd: SandboxPath | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | BinaryIO | int | None = None,
    user: str | int | None = None,
    on_output: Callable[[str, str], None] | None = None,
    max_output: int | str = MAX_OUTPUT,
    pipe: bool = False,
) -> Command:
    """Return a :class:`Command`, checked.

    Args:
        pipe: whether *stdin* may be ``subprocess.PIPE``.

    Raises:
        InvalidArgumentError: any argument that no command could be run with.
    """
    check_callable(on_output, "on_output")
    return Command(
        argv=_argv(given),
        line=given if isinstance(given, str) else None,
        cwd="." if cwd is None else check_path(cwd),
        env=_env({} if env is None else env),
        stdin=_stdin(stdin, pipe),
        user=_user(user),
        timeout=check_timeout(timeout),
        max_output=parse_size(max_output, "max_output"),
        on_output=on_output,
        cancellation=take(),
    )


def _argv(given: str | Sequence[SandboxPath]) -> tuple[str, ...]:
    if not isinstance(given, str | Sequence) or not given:
        raise InvalidArgumentError("a command is a text or a sequence of texts, and not empty")
    words = ("/bin/sh", "-c", given) if isinstance(given, str) else given
    argv = tuple(str(word) if isinstance(word, PurePosixPath) else word for word in words)
    for word in argv:
        _check_text(word, "command")
    if not argv[0]:
        raise InvalidArgumentError("command: the program has no name")
    return argv


def _check_text(value: object, name: str) -> None:
    """Raise unless a process can be given *value*: text without a NUL that has bytes."""
    if not isinstance(value, str) or "\0" in value:
        raise InvalidArgumentError(f"{name}: {value!r} is not a text without a NUL")
    _encode(value, name, "surrogateescape")


def _encode(text: str, name: str, errors: str) -> bytes:
    try:
        return text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name}: UTF-8 cannot hold the character at {error.start}") from error


def _env(env: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise InvalidArgumentError(f"env: is a mapping, not {type(env).__name__}")
    for name, value in env.items():
        _check_text(name, "env")
        _check_text(value, f"env[{name!r}]")
        if not name or "=" in name:
            raise InvalidArgumentError(f"env: {name!r}: a name cannot be empty or hold '='")
    return dict(env)


def _stdin(stdin: str | bytes | BinaryIO | int | None, pipe: bool) -> bytes | BinaryIO | int | None:
    if isinstance(stdin, str):
        return _encode(stdin, "stdin", "strict")
    if stdin is None or isinstance(stdin, bytes) or (pipe and stdin == subprocess.PIPE):
        return stdin
    if isinstance(stdin, int) or not callable(getattr(stdin, "read", None)):
        raise InvalidArgumentError("stdin: is a text, bytes, a binary file, or subprocess.PIPE to spawn with")
    return stdin


def _user(user: str | int | None) -> str | int | None:
    if isinstance(user, str) and user:
        _check_text(user, "user")
    elif user is not None and (not isinstance(user, int) or isinstance(user, bool) or user < 0):
        raise InvalidArgumentError(f"user: {user!r} is not a name or a number from 0 on")
    return user
