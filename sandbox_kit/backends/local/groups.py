"""A command and its process group, where there is no supervisor to be had.

What leaves the group, as a daemon does, outlives the command.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sandbox_kit.backends.local import supervisor
from sandbox_kit.backends.local.forks import abandon_in_child
from sandbox_kit.backends.local.tree import END_WITHIN, Reply, Tree

_REAPED_WITHIN = 0.1
_STAND_IN = 'printf "%s: %s\\n" "$1" "$2" >&2; exit "$3"'


class GroupTree(Tree):
    """One process group, reported by a thread."""

    def __init__(self) -> None:
        self._control, self._far = socket.socketpair()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        abandon_in_child(self)

    @property
    def adopter(self) -> int | None:
        return None

    def fileno(self) -> int:
        return self._control.fileno()

    def start(
        self, argv: Sequence[bytes], env: Mapping[bytes, bytes], cwd: int | bytes, fds: Mapping[int, int]
    ) -> None:
        directory = _directory(cwd)
        try:
            os.stat(directory)
            self._process = _popen(argv, env, directory, fds)
        except OSError as error:
            self._report(supervisor.FAILED, error.errno or errno.EIO)
            return
        self._report(supervisor.STARTED, self._process.pid)
        threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def _report(self, kind: int, value: int) -> None:
        with suppress(OSError):
            self._far.sendall(supervisor.REPLY.pack(kind, value, 0))

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        _end_group(process.pid)
        self._ended.set()
        self._report(supervisor.ENDED, code if code >= 0 else 128 - code)

    def receive(self) -> Reply:
        return Reply(*supervisor.REPLY.unpack(self._control.recv(supervisor.REPLY.size)))

    def nudge(self) -> None:
        """Nothing to do: a thread of this process reports."""

    def kill(self) -> None:
        if self._process is not None and not self._ended.is_set():
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def release(self) -> None:
        self.close()

    def close(self) -> None:
        self.kill()
        if self._process is not None:
            self._ended.wait(END_WITHIN)
        self._control.close()
        self._far.close()

    def abandon(self) -> None:
        self._process = None
        self._control.close()
        self._far.close()


def _end_group(group: int) -> None:
    """Kill a process group and wait until it is empty, or what is left of it has only to be reaped by others."""
    deadline = time.monotonic() + _REAPED_WITHIN
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.001)


def _popen(
    argv: Sequence[bytes], env: Mapping[bytes, bytes], cwd: bytes, fds: Mapping[int, int]
) -> subprocess.Popen[bytes]:
    """Start *argv*, or what reports that it cannot be started as a shell would."""

    def popen(command: Sequence[bytes | str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=fds.get(0, subprocess.DEVNULL),
            stdout=fds[1],
            stderr=fds[2],
            pass_fds=[fd for number, fd in fds.items() if number > 2],
            start_new_session=True,
        )

    try:
        return popen(argv)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise
        code = "127" if error.errno in (errno.ENOENT, errno.ENOTDIR) else "126"
        return popen(["/bin/sh", "-c", _STAND_IN, "sh", argv[0], str(error.strerror), code])


def _directory(cwd: int | bytes) -> bytes:
    """The name of a directory, where only a descriptor is known."""
    if isinstance(cwd, bytes):
        return cwd
    if sys.platform == "darwin":
        return fcntl.fcntl(cwd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")
    return b"/proc/self/fd/%d" % cwd
