"""What a service's refusals mean here, by HTTP status."""

from __future__ import annotations

from collections.abc import Callable

from sandbox_kit.backends.remote.place import Place
from sandbox_kit.errors import (
    InvalidArgumentError,
    LimitExceededError,
    RemoteProtocolError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    SessionLimitError,
)

__all__ = ["refusal"]

_LONGEST = 500
_SERVER_ERROR = 500
_TOKEN = "the service refuses the token: give the one that it was started with, which may have changed"
_GONE = "the service has no such session any more: stop() and start() the sandbox to go on with the files that it kept"

_MEANINGS: dict[int, tuple[Callable[[str], SandboxError], str]] = {
    400: (InvalidArgumentError, "the service refused"),
    401: (SandboxUnavailableError, _TOKEN),
    403: (SandboxUnavailableError, _TOKEN),
    404: (SandboxClosedError, _GONE),
    409: (SandboxConflictError, "the service refused"),
    413: (LimitExceededError, "the service takes no request of that size"),
    422: (InvalidArgumentError, "the service refused"),
    429: (SessionLimitError, "a ceiling of the service is reached"),
    504: (SandboxTimeoutError, "the service gave up"),
}


def refusal(status: int, detail: str, place: Place) -> SandboxError:
    """Return the error for a refusal.

    Args:
        status: HTTP's.
        detail: what the service said.
        place: where it is.
    """
    said = f" ({detail[:_LONGEST]})" if detail else ""
    if status in _MEANINGS:
        make, meaning = _MEANINGS[status]
        return make(f"{place}: {meaning}{said}")
    if status >= _SERVER_ERROR:
        return SandboxUnavailableError(f"{place}: the service failed with status {status}{said}")
    return RemoteProtocolError(f"{place}: answered with status {status}, which a sandbox service does not{said}")
