"""A raw connection to the engine, for a stream that both sides write to at will.

docker-py serves every plain request. It hides the connection of a hijacked one behind objects
that differ by transport, so that one is opened here: each transport comes down to a socket.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from sandbox_kit.backends.docker.relay import relayed
from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError

__all__ = ["DEFAULT_HOST", "Wire", "hijack", "reach"]

DEFAULT_HOST = "unix:///var/run/docker.sock"
_DIAL_WITHIN = 20.0
"""Seconds that connecting and the engine's first answer may take, each."""

_MAX_HEAD = 1 << 16

Wire = socket.socket
"""A connected socket that can be polled and of which each half can be ended: never one of TLS itself."""


def reach(url: str) -> None:
    """See that somebody listens on a local socket: docker-py leaks a descriptor on finding out.

    Raises:
        SandboxUnavailableError: nobody does.
    """
    if url.startswith("unix://"):
        _connect(url, None).close()


def hijack(url: str, path: str, body: object, *, certificates: str | None = None) -> Wire:
    """Send a request that turns its connection into a raw stream, and return that.

    Args:
        url: the engine, as in ``DOCKER_HOST``.
        path: of the request, with the API's version.
        body: sent as JSON.
        certificates: a directory with ``ca.pem``, ``cert.pem`` and ``key.pem``; None for no TLS.

    Raises:
        SandboxUnavailableError: the engine cannot be reached, or refused.
    """
    wire = _connect(url, certificates)
    try:
        _upgrade(wire, path, body)
    except BaseException as error:
        wire.close()
        if isinstance(error, OSError | http.client.HTTPException):
            raise SandboxUnavailableError(f"the Docker engine at {url} did not open a stream: {error}") from error
        raise
    return wire


def _connect(url: str, certificates: str | None) -> Wire:
    try:
        return _dial(urlsplit(url), certificates)
    except (OSError, ValueError) as error:
        raise SandboxUnavailableError(f"no connection to the Docker engine at {url}: {error}") from error


def _dial(url: SplitResult, certificates: str | None) -> Wire:
    if url.scheme == "unix":
        return _dial_unix(url.path)
    if url.scheme not in ("tcp", "http", "https"):
        raise InvalidArgumentError(f"DOCKER_HOST: {url.scheme!r} is none of unix, tcp, http, https and ssh")
    host, port = url.hostname or "localhost", url.port or (2376 if certificates else 2375)
    wire = socket.create_connection((host, port), timeout=_DIAL_WITHIN)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if certificates is None and url.scheme != "https":
        return wire
    try:
        return relayed(wire, _context(certificates), host)
    except BaseException:
        wire.close()
        raise


def _dial_unix(path: str) -> Wire:
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        wire.settimeout(_DIAL_WITHIN)
        wire.connect(path)
    except BaseException:
        wire.close()
        raise
    return wire


def _context(certificates: str | None) -> ssl.SSLContext:
    if certificates is None:
        return ssl.create_default_context()
    place = Path(certificates)
    context = ssl.create_default_context(cafile=place / "ca.pem")
    context.load_cert_chain(place / "cert.pem", place / "key.pem")
    return context


def _upgrade(wire: Wire, path: str, body: object) -> None:
    """Send the request, and read the head of the answer to its last byte: what follows is the stream's already.

    Raises:
        http.client.HTTPException: the engine refused, or speaks another language.
    """
    content = json.dumps(body).encode()
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: docker",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Connection: Upgrade",
        "Upgrade: tcp",
    )
    wire.sendall("\r\n".join((*lines, "\r\n")).encode() + content)
    head = bytearray()
    while not head.endswith(b"\r\n\r\n"):
        byte = wire.recv(1)
        if not byte or len(head) > _MAX_HEAD:
            raise http.client.HTTPException(f"it answered {bytes(head[:100])!r}")
        head += byte
    status = head.split(b" ", 2)[1:2]
    if status not in ([b"101"], [b"200"]):
        raise http.client.HTTPException(f"{os.fsdecode(b''.join(status))} {os.fsdecode(wire.recv(1000)).strip()}")
