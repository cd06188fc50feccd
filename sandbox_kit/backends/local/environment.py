"""The environment of commands: built here, never passed on from the host."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox_kit.errors import InvalidArgumentError, printable

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_environment(home: str) -> dict[str, str]:
    """The variables that every command gets.

    Args:
        home: the directory that ``HOME`` names.
    """
    return {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb"}


def command_environment(home: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The base variables with *env* added; a name in both has the value of *env*.

    Raises:
        InvalidArgumentError: a name is empty or holds ``=``, a name or value is no text or holds a NUL.
    """
    merged = base_environment(home)
    for name, value in (env or {}).items():
        _check(name, value)
        merged[name] = value
    return merged


def encode_environment(env: Mapping[str, str]) -> dict[bytes, bytes]:
    """*env* as the kernel takes it.

    Raises:
        InvalidArgumentError: as :func:`command_environment`.
    """
    encoded = {}
    for name, value in env.items():
        _check(name, value)
        encoded[name.encode("utf-8", "surrogateescape")] = value.encode("utf-8", "surrogateescape")
    return encoded


def _check(name: str, value: str) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise InvalidArgumentError(f"environment: {name!r} and its value must be str")
    if not name or "=" in name or "\0" in name:
        raise InvalidArgumentError(f"environment: {printable(name)!r} cannot name a variable")
    if "\0" in value:
        raise InvalidArgumentError(f"environment: the value of {printable(name)!r} holds a NUL")
