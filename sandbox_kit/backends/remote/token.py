"""The secret that a service asks for: looked up for each request, and shown nowhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError

__all__ = ["Token"]

_VARIABLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Token:
    """A token, or where to get it.

    Args:
        given: the token; ``"$NAME"`` for the environment variable of that name, which each process looks up
            for itself; or what returns it, called for each request.

    Raises:
        InvalidArgumentError: it is none of these.
    """

    def __init__(self, given: str | Callable[[], str]) -> None:
        if not callable(given) and not (isinstance(given, str) and given):
            raise InvalidArgumentError("token: is neither a text nor a function that returns one")
        self._given = given
        if isinstance(given, str) and not _VARIABLE.fullmatch(given):
            _checked(given)

    def __repr__(self) -> str:
        return "Token(...)"

    def __call__(self) -> str:
        """Return the token.

        Raises:
            SandboxUnavailableError: the environment variable is not set.
            InvalidArgumentError: what was found is no token.
        """
        if not isinstance(self._given, str):
            return _checked(self._given())
        variable = _VARIABLE.fullmatch(self._given)
        if variable is None:
            return self._given
        found = os.environ.get(variable[1])
        if not found:
            raise SandboxUnavailableError(f"token: the environment variable {variable[1]} is not set")
        return _checked(found)


def _checked(token: object) -> str:
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidArgumentError("token: is not a text of printable ASCII characters without a blank")
    return token
