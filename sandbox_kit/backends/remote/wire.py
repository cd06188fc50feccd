"""HTTP to one service: bounded answers, and an end to every wait. What may have an effect is never sent twice."""

from __future__ import annotations

import os
import selectors
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ssl import create_default_context

from attrs import field, frozen

from sandbox_kit.backends.remote.place import Place, proxy_of
from sandbox_kit.errors import RemoteProtocolError, SandboxError, SandboxTimeoutError, SandboxUnavailableError

__all__ = ["Answer", "Pause", "Request", "Wire", "whole"]

Pause = Callable[[float | None], float | None]
"""Given how many seconds are left, returns for how many to wait until it is asked again; raises to give up."""

_FRESH = 2.0
"""Seconds after which a connection at rest is not used again: services drop theirs after five."""

_KEPT = 4
_CHUNK = 2**16


def whole(left: float | None) -> float | None:
    """The :data:`Pause` of a call that nobody gives up."""
    return left


@frozen
class Request:
    """What is asked of a service.

    Attributes:
        method, path, body: as HTTP has them; the path begins with a slash.
        headers: beside those of HTTP itself.
        timeout: how long the whole exchange may take once it is connected, in seconds.
        limit: the most bytes that the answer may have.
        repeats: whether asking twice changes nothing.
        pause: called while the answer is waited for.
    """

    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    limit: int
    repeats: bool
    pause: Pause = whole


@frozen
class Answer:
    """What the service answered; ``kind`` is its media type."""

    status: int
    kind: str
    body: bytes


class _Dropped(Exception):
    """The connection ended before the answer began."""


class Wire:
    """Connections to one service, each used by one thread at a time.

    Args:
        place: where it is.
        connect_timeout: in seconds.
    """

    def __init__(self, place: Place, connect_timeout: float) -> None:
        self._place = place
        self._connect_timeout = connect_timeout
        self._lock = threading.Lock()
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._pid = os.getpid()
        weakref.finalize(self, _close_all, self._idle)

    def ask(self, request: Request) -> Answer:
        """Send *request* and return the answer.

        Raises:
            SandboxUnavailableError: the service cannot be reached, or the connection broke: what the request
                did until then is not known.
            SandboxTimeoutError: there was no answer in time.
            RemoteProtocolError: what came is no HTTP, too much, or cut short.
        """
        try:
            return self._exchange(self._take(), request)
        except _Dropped as error:
            if not request.repeats:
                raise self._lost(error) from error
        try:
            return self._exchange(self._connect(), request)
        except _Dropped as error:
            raise self._lost(error) from error

    def close(self) -> None:
        """Let go of the connections at rest."""
        with self._lock:
            _close_all(self._idle)

    def _lost(self, error: _Dropped) -> SandboxUnavailableError:
        return SandboxUnavailableError(
            f"the connection to {self._place} was lost before an answer came: what was asked for may have been "
            f"done, and is not asked for again ({error})"
        )

    def _take(self) -> HTTPConnection:
        """Return a connection that was used just now and is still quiet, or a new one."""
        if self._pid != os.getpid():
            self._lock, self._pid = threading.Lock(), os.getpid()
            self.close()
        with self._lock:
            while self._idle:
                connection, since = self._idle.pop()
                if time.monotonic() - since < _FRESH and not _is_readable(connection, 0):
                    return connection
                connection.close()
        return self._connect()

    def _connect(self) -> HTTPConnection:
        connection = self._made()
        try:
            connection.connect()
        except TimeoutError as error:
            connection.close()
            raise SandboxTimeoutError(f"{self._place} could not be reached in time", self._connect_timeout) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise SandboxUnavailableError(f"{self._place} cannot be reached: {error}") from error
        return connection

    def _made(self) -> HTTPConnection:
        place, proxy = self._place, proxy_of(self._place)
        host, port = (place.host, place.port) if proxy is None else (proxy.host, proxy.port)
        if place.scheme == "https":
            secure = HTTPSConnection(host, port, timeout=self._connect_timeout, context=create_default_context())
            if proxy is not None:
                secure.set_tunnel(place.host, place.port, headers=proxy.headers)
            return secure
        return HTTPConnection(host, port, timeout=self._connect_timeout)

    def _exchange(self, connection: HTTPConnection, request: Request) -> Answer:
        deadline = time.monotonic() + request.timeout
        kept = False
        try:
            response = self._respond(connection, request, deadline)
            body = _body(connection, response, request.limit, deadline)
            kept = response.isclosed() and not response.will_close
        except SandboxError:
            raise
        except TimeoutError as error:
            raise SandboxTimeoutError(f"{self._place} did not answer in time", request.timeout) from error
        except OSError as error:
            raise _Dropped(type(error).__name__) from error
        except HTTPException as error:
            raise RemoteProtocolError(f"{self._place} answered with what is no HTTP: {type(error).__name__}") from error
        finally:
            self._give_back(connection, kept=kept)
        return Answer(response.status, response.headers.get_content_type(), body)

    def _respond(self, connection: HTTPConnection, request: Request, deadline: float) -> HTTPResponse:
        place = self._place
        proxy = proxy_of(place) if place.scheme == "http" else None
        path = f"{place if proxy else place.prefix}{request.path}"
        headers = {**request.headers, "Accept": "application/json", **(proxy.headers if proxy else {})}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        _limit(connection, deadline)
        connection.request(request.method, path, request.body, headers)
        while not _is_readable(connection, request.pause(_left(deadline))):
            pass
        _limit(connection, deadline)
        return connection.getresponse()

    def _give_back(self, connection: HTTPConnection, *, kept: bool) -> None:
        with self._lock:
            if kept and len(self._idle) < _KEPT:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


def _close_all(idle: list[tuple[HTTPConnection, float]]) -> None:
    while idle:
        idle.pop()[0].close()


def _body(connection: HTTPConnection, response: HTTPResponse, limit: int, deadline: float) -> bytes:
    """Return what *response* holds.

    Raises:
        RemoteProtocolError: it is more than *limit*, or less than was announced.
    """
    body = bytearray()
    while chunk := response.read(_CHUNK):
        body += chunk
        if len(body) > limit:
            raise RemoteProtocolError(f"the service answered with more than {limit} bytes")
        _limit(connection, deadline)
    if response.length:
        raise RemoteProtocolError(f"the service's answer broke off after {len(body)} bytes")
    return bytes(body)


def _left(deadline: float) -> float:
    """Return the seconds until *deadline*.

    Raises:
        TimeoutError: it has come.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _limit(connection: HTTPConnection, deadline: float) -> None:
    """Have the next step on *connection* end at *deadline*."""
    if connection.sock is not None:
        connection.sock.settimeout(_left(deadline))


def _is_readable(connection: HTTPConnection, timeout: float | None) -> bool:
    """Wait until something, or the end, has come on *connection*; whether it has."""
    if connection.sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(timeout))
