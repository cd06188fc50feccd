"""The environment of commands: built here, never passed on from the host.

The one thing in it that depends on the host is the first entry of ``PATH``: the directory of the
Python that runs this process, so that commands find ``python`` and what is installed beside
it, as in a virtual environment. Confined commands see that directory anyway.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from sandbox_kit.backends.local.interpreter import interpreter

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked up, after the directory of this Python."""


def base_environment(home: str) -> dict[str, str]:
    """The variables that every command gets.

    Args:
        home: the directory that ``HOME`` names.
    """
    return {"PATH": _path(interpreter()), "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb"}


@cache
def _path(python: str) -> str:
    """PATH, with the directory of *python* in front, unless it is one of them or cannot stand in a PATH."""
    own = os.path.dirname(python)
    return PATH if own in PATH.split(":") or ":" in own or not os.path.isabs(own) else f"{own}:{PATH}"


def command_environment(home: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The base variables with *env* added; a name in both has the value of *env*."""
    return {**base_environment(home), **(env or {})}


def encode_environment(env: Mapping[str, str]) -> dict[bytes, bytes]:
    """*env* as the kernel takes it."""
    return {_encoded(name): _encoded(value) for name, value in env.items()}


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
