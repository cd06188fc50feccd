"""The calls of a sandbox service: JSON in and out, and its refusals as the library's own errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlencode

from attrs import field, frozen

from sandbox_kit.backends.remote.failures import refusal
from sandbox_kit.backends.remote.place import Place, check_url
from sandbox_kit.backends.remote.token import Token
from sandbox_kit.backends.remote.wire import Answer, Pause, Request, Wire, whole
from sandbox_kit.errors import RemoteProtocolError, SandboxError

__all__ = ["ANSWER_WITHIN", "CONNECT_WITHIN", "LOOK", "Refused", "Service", "Terms", "the"]

CONNECT_WITHIN = 10.0
ANSWER_WITHIN = 10.0
"""Default time limits, in seconds."""

_LIMIT = 16 * 2**20
_TOKEN = "X-Sandbox-Token"
_OK = range(200, 300)

_T = TypeVar("_T")


@frozen
class Terms:
    """How a call is made.

    Attributes:
        repeats: whether asking twice changes nothing.
        query: what stands behind the path.
        takes: how long the call itself may take, in seconds.
        limit: the most bytes of an answer.
        pause: as in :class:`Request`.
    """

    repeats: bool = False
    query: Mapping[str, str] = field(factory=dict)
    takes: float = 0.0
    limit: int = _LIMIT
    pause: Pause = whole


LOOK = Terms(repeats=True)
_ONCE = Terms()


class Refused(Exception):
    """The service refused a call: the status, and what it said of the reason."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail

    def meaning(self, place: Place) -> SandboxError:
        """Return the error that a caller can do something with."""
        return refusal(self.status, self.detail, place)


class Service:
    """One service, for one holder of its token.

    Args:
        url: its address.
        token: what it asks for.
        connect_timeout: in seconds.
        answer_timeout: how long it may take to answer, beside what the call itself takes, in seconds.
    """

    def __init__(
        self,
        url: str,
        token: str | Callable[[], str],
        *,
        connect_timeout: float = CONNECT_WITHIN,
        answer_timeout: float = ANSWER_WITHIN,
    ) -> None:
        self.place = check_url(url)
        self._token = Token(token)
        self._connect_timeout = connect_timeout
        self.answer_timeout = answer_timeout
        self._wire = Wire(self.place, connect_timeout)

    def __repr__(self) -> str:
        return f"Service('{self.place}')"

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_wire"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._wire = Wire(self.place, self._connect_timeout)

    def call(self, method: str, path: str, body: Mapping[str, object] | None = None, terms: Terms = _ONCE) -> object:
        """Return what the service answers, taken from JSON; None where it answers with nothing.

        Args:
            method, path, body: of the request; a body becomes JSON.
            terms: how it is made.

        Raises:
            SandboxError: the service refused, or cannot be reached, or is none.
        """
        try:
            return self.attempt(method, path, body, terms)
        except Refused as error:
            raise error.meaning(self.place) from None

    def attempt(self, method: str, path: str, body: Mapping[str, object] | None = None, terms: Terms = _ONCE) -> object:
        """As :meth:`call`, for who knows what a refusal means.

        Raises:
            Refused: the service refused.
        """
        token = self._token()
        request = Request(
            method=method,
            path=f"{path}?{urlencode(terms.query)}" if terms.query else path,
            body=None if body is None else json.dumps(body).encode(),
            headers={_TOKEN: token},
            timeout=terms.takes + self.answer_timeout,
            limit=terms.limit,
            repeats=terms.repeats,
            pause=terms.pause,
        )
        answer = self._wire.ask(request)
        if answer.status in _OK:
            return self._parsed(answer)
        raise Refused(answer.status, _detail(answer).replace(token, "..."))

    def close(self) -> None:
        """Let go of connections at rest."""
        self._wire.close()

    def _parsed(self, answer: Answer) -> object:
        if not answer.body:
            return None
        if answer.kind != "application/json":
            raise RemoteProtocolError(f"{self.place} answered with {answer.kind}: it is no sandbox service")
        try:
            return json.loads(answer.body)
        except ValueError as error:
            raise RemoteProtocolError(f"{self.place} answered with what is no JSON") from error


def the(kind: type[_T], answer: object, name: str) -> _T:
    """Return the field *name* of an answer.

    Raises:
        RemoteProtocolError: there is none of that kind.
    """
    value = answer.get(name) if isinstance(answer, dict) else None
    if isinstance(value, kind):
        return value
    raise RemoteProtocolError(f"the service answered without {name}, or with one that is no {kind.__name__}")


def _detail(answer: Answer) -> str:
    """Return what a refusal says of its reason, one line; of one that is no JSON nothing."""
    try:
        told = json.loads(answer.body)
    except ValueError:
        return ""
    detail = told.get("detail") if isinstance(told, dict) else None
    if isinstance(detail, list):
        return "; ".join(_problem(each) for each in detail)
    return " ".join(str(detail or "").split())


def _problem(told: object) -> str:
    """Return one thing that is wrong with a request, with its field."""
    if not isinstance(told, dict):
        return str(told)
    place = ".".join(str(part) for part in told.get("loc") or () if part != "body")
    return f"{place}: {told.get('msg')}"
