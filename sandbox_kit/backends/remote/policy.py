"""The ceilings of a service: what is in force, and changes of it by its operator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing

from sandbox_kit.backends.remote.service import LOOK, Refused, Service
from sandbox_kit.errors import PolicyError, RemoteProtocolError

__all__ = ["read_remote_policy", "update_remote_policy"]

_REFUSED = (400, 422)
_BY_ALIAS = "runtimes"


def read_remote_policy(url: str, *, token: str | Callable[[], str] = "$SANDBOXD_TOKEN") -> dict[str, object]:
    """Return what a sandbox service holds its sandboxes to, by name; ``runtimes`` is a mapping by alias.

    Args:
        url, token: as for :class:`~sandbox_kit.RemoteSandbox`.

    Raises:
        InvalidArgumentError: *url* or *token* is none.
        SandboxUnavailableError: the service cannot be reached, or refuses the token.
        RemoteProtocolError: it is no sandbox service.
    """
    with closing(Service(url, token)) as service:
        return _policy(service.call("GET", "/policy", terms=LOOK))


def update_remote_policy(
    url: str, update: Mapping[str, object], *, token: str | Callable[[], str] = "$SANDBOXD_TOKEN"
) -> list[str]:
    """Change ceilings of a sandbox service while it runs, and return the dotted names of what differs since.

    The service takes an update whole or not at all where a field is unknown, or a value no value; one
    that names an unknown runtime may be applied in part. Sandboxes that run keep the ceilings they have.

    Args:
        url, token: as for :class:`~sandbox_kit.RemoteSandbox`.
        update: fields by name, and under ``runtimes`` those of each alias. What is absent stays as it is.

    Raises:
        PolicyError: the service refused; names the field.
        InvalidArgumentError: *url* or *token* is none.
        SandboxUnavailableError: the service cannot be reached, or refuses the token.
        RemoteProtocolError: it is no sandbox service.
    """
    _check(update)
    with closing(Service(url, token)) as service:
        before = _policy(service.call("GET", "/policy", terms=LOOK))
        try:
            after = _policy(service.attempt("PUT", "/policy", dict(update)))
        except Refused as error:
            if error.status in _REFUSED:
                raise PolicyError(error.detail.split("; ")) from None
            raise error.meaning(service.place) from None
        return sorted(_changed(before, after))


def _check(update: object) -> None:
    """Raise where *update* is nothing that could be sent."""
    try:
        problem = None if isinstance(update, Mapping) and json.dumps(dict(update)) else "is not a mapping"
    except (TypeError, ValueError) as error:
        problem = str(error)
    if problem is not None:
        raise PolicyError([f"update: {problem}"])


def _policy(answer: object) -> dict[str, object]:
    if not isinstance(answer, dict) or not isinstance(answer.get(_BY_ALIAS), list):
        raise RemoteProtocolError("the service answered with what is no policy")
    runtimes = {each["alias"]: each for each in answer[_BY_ALIAS] if isinstance(each, dict) and "alias" in each}
    return {**answer, _BY_ALIAS: runtimes}


def _changed(before: Mapping[str, object], after: Mapping[str, object], place: str = "") -> list[str]:
    """Return the dotted names of what differs."""
    names = []
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            names += _changed(old, value, f"{place}{name}.")
        elif value != old:
            names.append(f"{place}{name}")
    return names
