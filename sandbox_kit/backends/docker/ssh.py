"""An engine behind ssh, as a socket of this machine: each connection is one ``docker system dial-stdio`` over there."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import socket
import subprocess
import tempfile
import time
import weakref
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path
from urllib.parse import urlsplit

from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError
from sandbox_kit.host.aside import begin
from sandbox_kit.host.forks import abandon_in_child

__all__ = ["Gate"]

_SSH = 'exec 3<&0; ssh -o BatchMode=yes -o LogLevel=ERROR "$@" <&3 3<&- &'
"""In the background of a shell that ends at once, so that it is no child of this process."""

_CLOSED = (errno.EBADF, errno.EINVAL)
"""What accepting on a socket that was closed here ends with."""

_PAUSE = 0.1
"""Seconds until connections are accepted again after an error, of too many open files for one."""

_log = logging.getLogger("sandbox_kit")


class Gate:
    """Listens where only this user may connect, until it is dropped. What ``ssh`` complains of is logged, at WARNING.

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
        told_by, tell = os.pipe()
        self._tell = FileIO(tell, "wb")
        self._finalizer = weakref.finalize(self, _close, self._listener, self._tell, directory)
        abandon_in_child(self)
        begin(partial(_log_lines, told_by, told.hostname))
        begin(_Server(self._listener, self._call, self._tell).serve)

    def abandon(self) -> None:
        """In a forked child: the gate is its parent's."""
        self._finalizer.detach()
        self._listener.close()
        self._tell.close()


class _Server:
    """Accepts connections, and gives each to an ``ssh`` of its own."""

    def __init__(self, listener: socket.socket, call: list[str], tell: FileIO) -> None:
        self._listener = listener
        self._call = call
        self._tell = tell

    def serve(self) -> None:
        while True:
            try:
                self._serve_one()
            except OSError as error:
                if error.errno in _CLOSED:
                    return
                _log.warning("a connection over ssh could not be made: %s", error)
                time.sleep(_PAUSE)

    def _serve_one(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            end = connection.fileno()
            call = ["/bin/sh", "-c", _SSH, "sh", *self._call]
            subprocess.run(call, stdin=end, stdout=end, stderr=self._tell, check=False)


def _log_lines(fd: int, host: str) -> None:
    with open(fd, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip():
                _log.warning("ssh to %s: %s", host, line.strip())


def _close(listener: socket.socket, tell: FileIO, directory: str) -> None:
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    tell.close()
    shutil.rmtree(Path(directory), ignore_errors=True)
