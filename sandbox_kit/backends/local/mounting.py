"""The helper that makes the mounts of a sandbox with many of them; what it does is told in ``mounter.py``.

One process serves all commands of this one, from the first that needs it to the end of this
process, and is used only while the user and groups of this process are as they were. Where it
cannot work, as on kernels before 5.12 or where only bubblewrap may use user namespaces, the
mounts are bubblewrap's own.
"""

from __future__ import annotations

import atexit
import fcntl
import io
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from tempfile import TemporaryFile

from attrs import define

from sandbox_kit.backends.local import mounter, probe, process
from sandbox_kit.backends.local.interpreter import start_helper
from sandbox_kit.backends.local.layout import hiding_things
from sandbox_kit.backends.local.masks import Kind, Mount
from sandbox_kit.backends.local.scratch import own_directory
from sandbox_kit.errors import SandboxError
from sandbox_kit.host.aside import aside
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.host.system import Descriptor, add_pipes

__all__ = ["arm", "awaiting", "request", "serve", "works"]

_END_WITHIN = 5.0
_TRY_WITHIN = 10.0
_F_SETPIPE_SZ = 1031

Credentials = tuple[object, ...]


def _credentials() -> Credentials:
    return os.getresuid(), os.getresgid(), os.getgroups()


@define(eq=False, weakref_slot=True)
class _Helper:
    """The process, and the host's end of its socket pair."""

    credentials: Credentials
    control: socket.socket
    process: subprocess.Popen[bytes]

    def __del__(self) -> None:
        self.close()

    def take(self, fds: Sequence[int]) -> bool:
        """Have one request served, also if somebody has stopped the process; whether it lives to do so."""
        try:
            self.process.send_signal(signal.SIGCONT)
            return socket.send_fds(self.control, [b"m"], fds) == 1
        except OSError:
            return False

    def close(self) -> None:
        """End the process; what it has begun goes on to its end."""
        self.control.close()
        with suppress(OSError, subprocess.TimeoutExpired):
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(_END_WITHIN)

    def abandon(self) -> None:
        self.control.close()
        self.process.returncode = 0


class _Keeper:
    """Starts the helper when it is needed, and again when it has died."""

    def __init__(self) -> None:
        self._helper: _Helper | None = None
        self._mutex = threading.Lock()
        abandon_in_child(self)

    def take(self, fds: Sequence[int]) -> bool:
        """Have one request served; False where nobody can."""
        with self._mutex:
            return self._with_running(fds) or self._with_new(fds)

    def _with_running(self, fds: Sequence[int]) -> bool:
        if self._helper is None:
            return False
        if self._helper.credentials == _credentials() and self._helper.take(fds):
            return True
        self._close()
        return False

    def _with_new(self, fds: Sequence[int]) -> bool:
        try:
            self._helper = aside(_start)
        except OSError:
            return False
        return self._helper.take(fds)

    def _close(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.close()

    def close(self) -> None:
        """End the helper."""
        with self._mutex:
            self._close()

    def abandon(self) -> None:
        """Start afresh in a forked child."""
        self._helper = None
        self._mutex = threading.Lock()


def _start() -> _Helper:
    control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.settimeout(_END_WITHIN)
    with far:
        helper = _Helper(_credentials(), control, start_helper(mounter.__file__, far))
    abandon_in_child(helper)
    return helper


_keeper = _Keeper()
atexit.register(_keeper.close)


def request(root_fd: int, work_dir: str, hiding: Mapping[Kind, str], mounts: Sequence[Mount]) -> bytes:
    """What the helper reads to make *mounts*.

    Args:
        root_fd: the workspace.
        work_dir: its real name.
        hiding: kind of mount -> what hides, on the host.
        mounts: pinned; parents before children.
    """
    items = [(m.kind, m.name[len(work_dir) :].lstrip("/"), _identity(m.pin.fd)) for m in mounts if m.pin is not None]
    return mounter.encode_request(work_dir, _identity(root_fd), hiding, items)


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def arm(barrier: int) -> None:
    """Fill the pipe with the write end *barrier*, so that it takes more when it has been read, and no sooner."""
    fcntl.fcntl(barrier, _F_SETPIPE_SZ, 1)
    os.write(barrier, b"\n")


def awaiting(mounts: Sequence[Mount], info: int, barrier: int) -> tuple[str, ...]:
    """Options that have bubblewrap wait until *mounts* are made, and go on only if they are.

    The barrier is a copy of a pipe to where nothing is kept. The last mount that takes
    something away is looked for: what comes after it only gives something back.

    Args:
        info: the descriptor to say in which namespaces it has made.
        barrier: the read end of the pipe.
    """
    last = next(mount.name for mount in reversed(mounts) if mount.kind != "read-write")
    return "--info-fd", str(info), "--file", str(barrier), "/dev/null", "--remount-ro", last


def serve(told: int, opens: int, data: int) -> bool:
    """Have the helper make mounts in the sandbox that is to be started next; False where it cannot.

    Args:
        told: what to read bubblewrap's word on its namespaces from.
        opens: the write end of the pipe that bubblewrap waits at.
        data: a file that holds the :func:`request`.
    """
    return _keeper.take((told, opens, data))


@cache
def works() -> bool:
    """Whether the helper can mount in a sandbox of bubblewrap's here, found out by trying, once in a process."""
    try:
        return _try(own_directory())
    except (OSError, SandboxError):
        return False


def _try(directory: str) -> bool:
    """Hide what hides, in a sandbox that sees the whole host."""
    hiding = hiding_things(directory)
    with ExitStack() as stack:
        root, there = (
            stack.enter_context(Descriptor.open(name, mounter.PINNED)) for name in (directory, hiding["hide-file"])
        )
        files: list[io.FileIO] = []
        add_pipes(files, 2)
        told, info, barrier, opens = map(stack.enter_context, files)
        arm(opens.fileno())
        mounts = [Mount("hide-file", hiding["hide-file"], there)]
        data = stack.enter_context(TemporaryFile(dir=directory))
        data.write(request(root.fd, directory, hiding, mounts))
        data.flush()
        served = serve(told.fileno(), opens.fileno(), data.fileno())
        opens.close()
        waiting = awaiting(mounts, info.fileno(), barrier.fileno())
        return served and _starts(waiting, (info.fileno(), barrier.fileno()))


def _starts(options: Sequence[str], fds: Sequence[int]) -> bool:
    sandbox = (probe.program(), *probe.ISOLATION, "--unshare-net", "--bind", "/", "/", "--dev", "/dev")
    argv = [*sandbox, *options, "--", "/bin/sh", "-c", ":"]
    return process.run(argv, cwd="/", env={}, timeout=_TRY_WITHIN, pass_fds=fds).ok
