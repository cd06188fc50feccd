"""Commands under a supervisor process, and the supervisors that wait for one.

A supervisor (``supervisor.py``) serves one command at a time, so trees that run at once
cannot be confused, and the host's own children, their exit statuses and its subreaper
flag are left alone. Starting one takes 20 ms; up to ``MAX_IDLE`` wait for the next
command, as children of this process, and end when it does, even by SIGKILL. One is used
again only while the user, groups, capabilities, limits and umask of this process are as
they were when it started.

A command that kills its supervisor, as one that runs as the same user can, gains this
much: of its tree only its session is ended (and nothing if it was quicker than the news of
its start), and the caller gets a SandboxUnavailableError. One that stops its supervisor
holds the call for a second: as long as somebody waits, the supervisor is continued.
"""

from __future__ import annotations

import atexit
import os
import re
import resource
import select
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial

from sandbox_kit.backends.local import supervisor
from sandbox_kit.backends.local.interpreter import start_helper
from sandbox_kit.backends.local.tree import END_WITHIN, Reply, Tree
from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError
from sandbox_kit.host.aside import aside
from sandbox_kit.host.forks import abandon_in_child

MAX_IDLE = 4


class SupervisedTree(Tree):
    """A supervisor process, idle or with the tree that it runs.

    Args:
        credentials: what it inherits from this process.
        control: the host's end of its socket pair.
        far: its own end.
    """

    def __init__(self, credentials: Credentials | None, control: socket.socket, far: socket.socket) -> None:
        self.credentials = credentials
        self._command: int | None = None
        self._usable = True
        self._killed = False
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._control = control
        self._control.settimeout(END_WITHIN)
        abandon_in_child(self)
        self._process = _popen(far)

    def __del__(self) -> None:
        self.close()

    @property
    def adopter(self) -> int | None:
        return None if self._process is None else self._process.pid

    def fileno(self) -> int:
        return self._control.fileno()

    def start(
        self, argv: Sequence[bytes], env: Mapping[bytes, bytes], cwd: int | bytes, fds: Mapping[int, int]
    ) -> None:
        sources = [*fds.values()]
        name = b""
        if isinstance(cwd, int):
            sources.append(cwd)
        else:
            name = cwd
        message = supervisor.encode_request(list(argv), dict(env), name, list(fds))
        if len(sources) > supervisor.MAX_FDS:
            raise InvalidArgumentError(f"a command takes at most {supervisor.MAX_FDS} descriptors, not {len(sources)}")
        self._usable = False
        try:
            sent = socket.send_fds(self._control, [message], sources)
            self._control.sendall(message[sent:])
        except OSError as error:
            raise SandboxUnavailableError(f"the supervisor of commands takes no command: {error}") from error

    def receive(self) -> Reply:
        try:
            data = self._control.recv(supervisor.REPLY.size)
        except OSError as error:
            raise SandboxUnavailableError(f"the supervisor of commands does not answer: {error}") from error
        if len(data) < supervisor.REPLY.size:
            self._kill_orphaned()
            raise SandboxUnavailableError("the supervisor of commands has died")
        reply = Reply(*supervisor.REPLY.unpack(data))
        if reply.kind == supervisor.STARTED:
            self._command = reply.value
        else:
            self._command = None
            self._usable = not reply.spared
        return reply

    def _kill_orphaned(self) -> None:
        """Kill the session of a command whose supervisor has died; what left it is out of reach."""
        with suppress(OSError):
            if self._command is not None and os.getsid(self._command) == self._command:
                os.killpg(self._command, signal.SIGKILL)

    def nudge(self) -> None:
        process = self._process
        if process is not None and process.returncode is None and os.getpid() == self._owner:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._killed = True
        if os.getpid() == self._owner:
            with suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            self.nudge()

    def release(self) -> None:
        if self._usable and not self._killed:
            _pool.give(self)
        else:
            self.close()

    def is_usable(self) -> bool:
        """Whether it is idle, alive and may serve another command."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        return self._usable and not poller.poll(0)

    def close(self) -> None:
        self.kill()
        if self._process is not None and os.getpid() == self._owner:
            aside(partial(self._wait_for, self._process))
        self._control.close()

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            self._kill_orphaned()
            process.wait(END_WITHIN)

    def abandon(self) -> None:
        self._control.close()
        self._process = None


def _start(credentials: Credentials | None) -> SupervisedTree:
    control, far = socket.socketpair()
    with far:
        tree = SupervisedTree(credentials, control, far)
    tree.receive()
    return tree


def _popen(far: socket.socket) -> subprocess.Popen[bytes]:
    try:
        return start_helper(supervisor.__file__, far)
    except OSError as error:
        raise SandboxUnavailableError(f"the supervisor of commands cannot be started: {error}") from error


_KEYS = rb"(?:Umask|Uid|Gid|Groups|Cap\w+|NoNewPrivs|Seccomp\w*|Cpus_allowed)"
_INHERITED = re.compile(rb"\n%b:[^\n]*(?:\n%b:[^\n]*)*" % (_KEYS, _KEYS))
_STATUS_SIZE = 1 << 16

Credentials = tuple[object, ...]


def _credentials() -> Credentials | None:
    """What a process started now would inherit from this thread; None where that cannot be told."""
    try:
        with open("/proc/thread-self/status", "rb", 0) as file:
            status = file.read(_STATUS_SIZE)
    except OSError:
        return None
    return *_INHERITED.findall(status), *map(resource.getrlimit, _limit_numbers())


@cache
def _limit_numbers() -> tuple[int, ...]:
    return tuple({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})


class _Pool:
    """Supervisors that wait for a command. No lock: a list's pop and append are atomic."""

    def __init__(self) -> None:
        self._idle: list[SupervisedTree] = []

    def take(self) -> SupervisedTree:
        """One that waits, or a new one."""
        credentials = _credentials()
        while self._idle:
            with suppress(IndexError):
                tree = self._idle.pop()
                if credentials and tree.credentials == credentials and tree.is_usable():
                    return tree
                tree.close()
        return aside(partial(_start, credentials))

    def give(self, tree: SupervisedTree) -> None:
        """Keep *tree* for the next command, or close it when enough wait."""
        if len(self._idle) < MAX_IDLE:
            self._idle.append(tree)
        else:
            tree.close()

    def close(self) -> None:
        """End those that wait."""
        idle, self._idle = self._idle, []
        for tree in idle:
            tree.kill()
        for tree in idle:
            tree.close()

    def abandon(self) -> None:
        """Start afresh in a forked child."""
        self._idle = []


_pool = _Pool()
abandon_in_child(_pool)
atexit.register(_pool.close)


def take() -> SupervisedTree:
    """A supervisor that is ready for a command.

    Raises:
        SandboxUnavailableError: none waits, and none can be started.
    """
    return _pool.take()
