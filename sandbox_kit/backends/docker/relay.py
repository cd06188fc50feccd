"""A TLS connection as a plain socket, which can be polled and whose halves end apart."""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress

from sandbox_kit.host.aside import begin

__all__ = ["relayed"]

_SIZE = 1 << 16


def relayed(secure: ssl.SSLSocket) -> socket.socket:
    """A socket whose other end a thread connects with *secure*; both end with it.

    The end of the caller's sending half is told to the engine as TLS tells it, and what still comes is passed on.
    """
    ours, theirs = socket.socketpair()
    relay = _Relay(secure, theirs)
    begin(relay.serve)
    return ours


class _Relay:
    """Copies both ways until the engine has ended its half, or nobody takes what it sends."""

    def __init__(self, secure: ssl.SSLSocket, plain: socket.socket) -> None:
        self._secure = secure
        self._plain = plain
        self._open = True
        secure.setblocking(False)

    def serve(self) -> None:
        with self._secure, self._plain, suppress(OSError):
            while self._wait():
                if not self._pass_down() or not self._pass_up():
                    return

    def _wait(self) -> bool:
        if not self._secure.pending():
            ends = [self._secure, self._plain] if self._open else [self._secure]
            select.select(ends, [], [])
        return True

    def _pass_down(self) -> bool:
        """What the engine sent; False at its end."""
        try:
            data = self._secure.recv(_SIZE)
        except ssl.SSLWantReadError:
            return True
        self._plain.sendall(data)
        return bool(data)

    def _pass_up(self) -> bool:
        """What the caller sent."""
        if not self._open or not select.select([self._plain], [], [], 0)[0]:
            return True
        data = self._plain.recv(_SIZE)
        if data:
            self._send(memoryview(data))
        else:
            self._open = False
            self._end()
        return True

    def _send(self, rest: memoryview) -> None:
        while rest:
            try:
                rest = rest[self._secure.send(rest) :]
            except ssl.SSLWantWriteError:
                select.select([], [self._secure], [])

    def _end(self) -> None:
        """Say that nothing more is sent; the engine may still send."""
        with suppress(ssl.SSLWantReadError):
            self._secure.unwrap()
