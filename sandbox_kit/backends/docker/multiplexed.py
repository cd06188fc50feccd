"""The engine's hijacked stream: both outputs of a program in frames, its input as it is."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

from sandbox_kit.backends.docker.dialing import Wire
from sandbox_kit.backends.shell.duplex import Duplex, Piece
from sandbox_kit.errors import RemoteProtocolError, SandboxUnavailableError
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.output import Stream

__all__ = ["Frames", "WireDuplex"]

_SIZE = 1 << 16
_HEADER = struct.Struct(">BxxxL")
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}


class Frames:
    """Takes frames apart: 8 bytes of header, which name the stream and the length, then that many bytes.

    Source: "Stream format" of the engine's API, ``POST /containers/{id}/attach``.
    """

    def __init__(self) -> None:
        self._header = b""
        self._stream: Stream = "stdout"
        self._left = 0

    def feed(self, data: bytes | memoryview) -> list[Piece]:
        """Return what *data* holds for each stream; a frame may come in many pieces.

        Raises:
            RemoteProtocolError: these are no frames.
        """
        pieces: list[Piece] = []
        place, size = 0, len(data)
        while place < size:
            if not self._left:
                place += self._begin(data, place)
                continue
            end = min(size, place + self._left)
            pieces.append((self._stream, bytes(data[place:end])))
            self._left -= end - place
            place = end
        return pieces

    def _begin(self, data: bytes | memoryview, place: int) -> int:
        """Take what there is of a header; return how many bytes that was."""
        taken = bytes(data[place : place + _HEADER.size - len(self._header)])
        self._header += taken
        if len(self._header) == _HEADER.size:
            kind, self._left = _HEADER.unpack(self._header)
            self._header = b""
            if kind not in _STREAMS:
                raise RemoteProtocolError(f"the Docker engine sent a frame for stream {kind}")
            self._stream = _STREAMS[kind]
        return len(taken)


class WireDuplex(Duplex):
    """A hijacked connection.

    Args:
        wire: the connection; closed with this.
    """

    def __init__(self, wire: Wire) -> None:
        wire.setblocking(False)
        self._wire = wire
        self._frames = Frames()
        self._room = memoryview(bytearray(_SIZE))
        self._closed = False
        self._poller = select.poll()
        abandon_in_child(self)

    def fileno(self) -> int:
        """The connection's descriptor."""
        return self._wire.fileno()

    def wait(self, timeout: float | None, *, to_send: bool = False) -> None:
        self._poller.register(self._wire, select.POLLIN | (select.POLLOUT if to_send else 0))
        self._poller.poll(None if timeout is None else min(timeout, 3600.0) * 1000 + 1)

    def receive(self) -> Sequence[Piece] | None:
        try:
            size = self._wire.recv_into(self._room)
        except BlockingIOError:
            return ()
        except OSError as error:
            raise _lost(error) from error
        return self._frames.feed(self._room[:size]) if size else None

    def send(self, data: memoryview) -> int:
        try:
            return self._wire.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise _lost(error) from error

    def end_input(self) -> None:
        with suppress(OSError):
            self._wire.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            with suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)
            self._wire.close()

    def abandon(self) -> None:
        self._closed = True
        self._wire.close()


def _lost(error: OSError) -> SandboxUnavailableError:
    return SandboxUnavailableError(f"the connection to the Docker engine was lost: {error}")
