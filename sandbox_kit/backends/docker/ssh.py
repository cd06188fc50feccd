"""An engine behind ssh, as a socket of this machine: each connection is one ``docker system dial-stdio`` over there."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError
from sandbox_kit.host.aside import begin
from sandbox_kit.host.forks import abandon_in_child

__all__ = ["Gate"]

_SSH = 'exec 3<&0; ssh -o BatchMode=yes "$@" <&3 3<&- 2>/dev/null &'
"""In the background of a shell that ends at once, so that it is no child of this process."""


class Gate:
    """Listens where only this user may connect, until it is dropped.

    Args:
        url: ``ssh://[user@]host[:port]``.

    Attributes:
        url: of the socket, for any client of the engine.

    Raises:
        InvalidArgumentError: *url* names no host.
        SandboxUnavailableError: there is no ``ssh`` here.
    """

    def __init__(self, url: str) -> None:
        told = urlsplit(url)
        if not told.hostname or told.hostname.startswith("-"):
            raise InvalidArgumentError(f"DOCKER_HOST: {url!r} names no host")
        if shutil.which("ssh") is None:
            raise SandboxUnavailableError(f"the engine {url} is behind ssh, and there is no ssh here")
        port = ["-p", str(told.port)] if told.port else []
        user = ["-l", told.username] if told.username else []
        self._call = [*port, *user, "--", told.hostname, "docker system dial-stdio"]
        directory = tempfile.mkdtemp(prefix="sandbox-kit-ssh-")
        self.url = f"unix://{directory}/s"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"{directory}/s")
        self._listener.listen(64)
        self._finalizer = weakref.finalize(self, _close, self._listener, directory)
        abandon_in_child(self)
        begin(_Server(self._listener, self._call).serve)

    def abandon(self) -> None:
        """In a forked child: the gate is its parent's."""
        self._finalizer.detach()
        self._listener.close()


class _Server:
    """Accepts connections, and gives each to an ``ssh`` of its own."""

    def __init__(self, listener: socket.socket, call: list[str]) -> None:
        self._listener = listener
        self._call = call

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    end = connection.fileno()
                    subprocess.run(["/bin/sh", "-c", _SSH, "sh", *self._call], stdin=end, stdout=end, check=False)


def _close(listener: socket.socket, directory: str) -> None:
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    shutil.rmtree(Path(directory), ignore_errors=True)
