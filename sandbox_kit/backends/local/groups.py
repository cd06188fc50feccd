"""A command and its process group, where there is no supervisor to be had.

What leaves the group, as a daemon does, outlives the command.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue

from sandbox_kit.backends.local import supervisor
from sandbox_kit.backends.local.tree import END_WITHIN, Reply, Tree
from sandbox_kit.errors import SandboxUnavailableError
from sandbox_kit.host.aside import Latch, begin
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.host.system import add_pipes

_REAPED_WITHIN = 0.1
_STAND_IN = 'printf "%s: %s\\n" "$1" "$2" >&2; exit "$3"'

Request = tuple[Sequence[bytes], Mapping[bytes, bytes], bytes, Mapping[int, int]]


class GroupTree(Tree):
    """One process group; it ends when this is dropped."""

    _group: _Group | None = None

    def __init__(self) -> None:
        self._group = group = _Group()
        self._asked = False
        abandon_in_child(self)
        try:
            begin(group.serve)
        except RuntimeError as error:
            raise SandboxUnavailableError(f"no thread can be started to serve the command: {error}") from error

    def __del__(self) -> None:
        if self._group is not None:
            self.close()

    def _served(self) -> _Group:
        assert self._group is not None
        return self._group

    @property
    def adopter(self) -> int | None:
        return None

    def fileno(self) -> int:
        return self._served().reports[0].fileno()

    def start(
        self, argv: Sequence[bytes], env: Mapping[bytes, bytes], cwd: int | bytes, fds: Mapping[int, int]
    ) -> None:
        group, request = self._served(), (argv, env, _directory(cwd), fds)
        self._asked = True
        group.requests.put(request)
        group.started.wait()

    def receive(self) -> Reply:
        return Reply(*supervisor.REPLY.unpack(os.read(self.fileno(), supervisor.REPLY.size)))

    def nudge(self) -> None:
        """Nothing to do: a thread of this process reports."""

    def kill(self) -> None:
        self._served().kill()

    def release(self) -> None:
        self.close()

    def close(self) -> None:
        group = self._served()
        group.requests.put(None)
        group.kill()
        if self._asked:
            group.ended.wait(END_WITHIN)
        group.close()

    def abandon(self) -> None:
        if self._group is not None:
            self._group.close()
        self._group = None


class _Group:
    """The process group, started and reported by a thread: Ctrl-C, which breaks off half a start, does not reach it.

    Attributes:
        requests: what to start, at most one; None for nothing any more.
        reports: the read and the write end of a pipe of replies.
        started: set when the command has been started, or cannot be.
        ended: set when no process is left.
    """

    def __init__(self) -> None:
        self.requests: SimpleQueue[Request | None] = SimpleQueue()
        self.reports: list[io.FileIO] = []
        add_pipes(self.reports, 1)
        self.started = Latch()
        self.ended = Latch()
        self._killed = False
        self._process: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        request = self.requests.get()
        if request is None:
            return
        try:
            os.stat(request[2])
            process = self._process = _popen(*request)
        except OSError as error:
            self._report(supervisor.FAILED, error.errno or errno.EIO)
            self.ended.set()
            return
        finally:
            self.started.set()
        self._report(supervisor.STARTED, process.pid)
        if self._killed:
            self.kill()
        code = process.wait()
        _end_group(process.pid)
        self._process = None
        self._report(supervisor.ENDED, code if code >= 0 else 128 - code)
        self.ended.set()

    def _report(self, kind: int, value: int) -> None:
        with suppress(OSError, ValueError):  # nobody takes reports any more
            self.reports[1].write(supervisor.REPLY.pack(kind, value, 0))

    def kill(self) -> None:
        self._killed = True
        process = self._process
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Take no more reports; twice is fine."""
        for end in self.reports:
            end.close()


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
