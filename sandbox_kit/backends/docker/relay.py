"""A TLS connection as a plain socket, which can be polled and whose halves end apart."""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress

from sandbox_kit.host.aside import begin

__all__ = ["relayed"]

_SIZE = 1 << 16


def relayed(wire: socket.socket, context: ssl.SSLContext, host: str) -> socket.socket:
    """A socket whose other end a thread connects with *wire*, over TLS; all end together.

    The end of the caller's sending half is told to the engine as TLS tells it, and what still
    comes is passed on. An :class:`ssl.SSLSocket` cannot do that while data is on its way.

    Raises:
        OSError: the engine is not the one that the certificates speak of, or does not answer.
    """
    relay = _Relay(wire, context, host)
    relay.shake_hands()
    ours, relay.plain = socket.socketpair()
    begin(relay.serve)
    return ours


class _Relay:
    """Copies both ways until the engine has ended its half, or nobody takes what it sends."""

    plain: socket.socket

    def __init__(self, wire: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._wire = wire
        self._arrived, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._secure = context.wrap_bio(self._arrived, self._to_send, server_hostname=host)
        self._caller_ended = False
        self._unsent = memoryview(b"")

    def shake_hands(self) -> None:
        while True:
            try:
                self._secure.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._wire.sendall(self._to_send.read())
                self._take()
        self._wire.sendall(self._to_send.read())
        self._wire.setblocking(False)

    def serve(self) -> None:
        with self._wire, self.plain, suppress(OSError):
            while True:
                self._fill()
                ready = self._wait()
                wire = ready.get(self._wire.fileno(), 0)
                if wire & select.POLLOUT:
                    self._unsent = self._unsent[self._wire.send(self._unsent) :]
                if wire & ~select.POLLOUT and not self._pass_down():
                    return
                if self.plain.fileno() in ready:
                    self._pass_up()

    def _wait(self) -> dict[int, int]:
        """What can be done now: the events of each descriptor."""
        watch = select.poll()
        watch.register(self._wire, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        if not self._caller_ended and not self._unsent:
            watch.register(self.plain, select.POLLIN)
        return dict(watch.poll())

    def _fill(self) -> None:
        if not self._unsent and self._to_send.pending:
            self._unsent = memoryview(self._to_send.read())

    def _pass_down(self) -> bool:
        """All that has arrived; False at the engine's end."""
        more = self._take()
        with suppress(ssl.SSLWantReadError):
            while data := self._secure.read(_SIZE):
                self.plain.sendall(data)
            return False
        return more

    def _pass_up(self) -> None:
        """What the caller sent, or the end of it; here nothing that has arrived waits to be read."""
        data = self.plain.recv(_SIZE)
        if data:
            self._secure.write(data)
        else:
            self._caller_ended = True
            with suppress(ssl.SSLWantReadError):
                self._secure.unwrap()

    def _take(self) -> bool:
        data = self._wire.recv(_SIZE)
        if data:
            self._arrived.write(data)
        else:
            self._arrived.write_eof()
        return bool(data)
