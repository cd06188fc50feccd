"""A command that runs: its tree, its pipes, and the loop that serves them."""

from __future__ import annotations

import errno
import fcntl
import io
import logging
import os
import select
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from sandbox_kit.backends.local import supervisor
from sandbox_kit.backends.local.groups import GroupTree
from sandbox_kit.backends.local.supervised import take
from sandbox_kit.backends.local.tree import Tree
from sandbox_kit.backends.local.usage import descendants
from sandbox_kit.errors import (
    PathAccessError,
    PathError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.host.feed import CHUNK, Feed, Watch
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.host.system import add_pipes
from sandbox_kit.output import Stream

logger = logging.getLogger("sandbox_kit")

Sink = Callable[[Stream, bytes], None]

NUDGE_EVERY = 1.0
"""How long, in seconds, a supervisor that its command has stopped stays so."""

_CWD_ERRORS: dict[int, type[PathError]] = {
    errno.ENOENT: PathNotFoundError,
    errno.ENOTDIR: PathNotDirectoryError,
    errno.EACCES: PathAccessError,
}


class Job:
    """One command. Whoever holds it calls :meth:`step` until ``exit_code`` is set, and :meth:`close` at last.

    The lock is reentrant: the garbage collector may kill a job within any call. Nothing that a job
    holds refers to it: one that is dropped, as where Ctrl-C keeps :meth:`close` from running, ends at once.

    Args:
        sink: takes each piece of output, in order of arrival, from within :meth:`step`.

    Attributes:
        exit_code: None until the command has ended, its tree is dead and its output is in the sink.
        pid: the process id of the command; None until it has started.
        stdin: the write end of its standard input, where one was asked for.
        server: the thread that steps it; None while none does.
        killed: whether its end was asked for.
    """

    def __init__(self, sink: Sink) -> None:
        self.exit_code: int | None = None
        self.pid: int | None = None
        self.stdin: io.FileIO | None = None
        self.server: int | None = None
        self.killed = False
        self._sink = sink
        self._watch = Watch()
        self._tree: Tree | None = None
        self._running = threading.RLock()
        self._nudge_at = time.monotonic() + NUDGE_EVERY
        self._files: list[io.FileIO] = []
        self._readers: dict[int, tuple[io.FileIO, Stream]] = {}
        self._feed: Feed | None = None
        self._cwd: int | str = ""
        abandon_in_child(self)

    def start(
        self,
        argv: Sequence[bytes],
        cwd: int | str,
        env: Mapping[bytes, bytes],
        stdin: bytes | BinaryIO | None,
        *,
        pipe_stdin: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Have the command started; whether that worked is known after a :meth:`step`.

        Args:
            pipe_stdin: leave the writing of its standard input to the caller.

        Raises:
            SandboxUnavailableError: there is no room for it, such as descriptors.
            InvalidArgumentError: *stdin* cannot be read from.
        """
        self._cwd = cwd
        with_stdin = pipe_stdin or stdin is not None
        try:
            self._tree = _create_tree()
            add_pipes(self._files, 3 if with_stdin else 2)
        except SandboxError:
            raise
        except OSError as error:
            raise SandboxUnavailableError(f"no process can be started: {error.strerror}") from error
        out, far_out, err, far_err, *inputs = self._files
        fds = {**{fd: fd for fd in pass_fds}, 1: far_out.fileno(), 2: far_err.fileno()}
        if with_stdin:
            far_in, self.stdin = inputs
            fds[0] = far_in.fileno()
        self._tree.start(argv, env, cwd if isinstance(cwd, int) else os.fsencode(cwd), fds)
        for file in (far_out, far_err, *inputs[:1]):
            file.close()
        self._watch.add(self._tree.fileno(), select.POLLIN)
        self._watch_output(out, "stdout")
        self._watch_output(err, "stderr")
        if self.stdin is not None and stdin is not None:
            os.set_blocking(self.stdin.fileno(), False)
            self._feed = Feed(self._watch, self.stdin, stdin)

    def step(self, timeout: float | None) -> None:
        """Wait until something happens, at most *timeout* seconds or NUDGE_EVERY, and handle it.

        Raises:
            PathError: the directory to start in cannot be entered.
            SandboxUnavailableError: the machine has no room for a process, or the supervisor died.
        """
        self.server = threading.get_ident()
        for fd, event in self._watch.wait(NUDGE_EVERY if timeout is None else min(timeout, NUDGE_EVERY)):
            self._handle(fd, event)
        if time.monotonic() >= self._nudge_at:
            self._nudge_at = time.monotonic() + NUDGE_EVERY
            self._nudge()

    def _handle(self, fd: int, event: int) -> None:
        if fd in self._readers:
            self._read(fd, CHUNK)
        elif self._tree is not None and fd == self._tree.fileno():
            self._report(self._tree)
        elif self._feed is not None:
            self._feed.handle(fd, event)

    def _nudge(self) -> None:
        with self._running:
            if self._tree is not None:
                self._tree.nudge()

    def kill(self) -> None:
        """Have the tree killed, if it still runs; from any thread."""
        with self._running:
            if self._tree is not None:
                self.killed = True
                self._tree.kill()

    def processes(self) -> set[int]:
        """The process ids of the tree, as far as they can be found."""
        with self._running:
            if self._tree is None or self.pid is None:
                return set()
            return {self.pid} | descendants(self.pid) | descendants(self._tree.adopter)

    def close(self) -> None:
        """End what still runs, and close every descriptor. Twice is fine."""
        with self._running:
            tree, self._tree = self._tree, None
        if tree is not None:
            tree.close()
        self._close_files()

    def abandon(self) -> None:
        self._tree = None
        self._running = threading.RLock()
        self._close_files()

    def _close_files(self) -> None:
        for file in self._files:
            file.close()

    def _watch_output(self, file: io.FileIO, stream: Stream) -> None:
        fd = file.fileno()
        self._readers[fd] = (file, stream)
        self._watch.add(fd, select.POLLIN)

    def _read(self, fd: int, size: int) -> bool:
        """Pass on what one read gives; whether that was something."""
        file, stream = self._readers[fd]
        data = os.read(fd, size)
        if data:
            self._sink(stream, data)
        else:
            self._watch.remove(fd)
            del self._readers[fd]
            file.close()
        return bool(data)

    def _drain(self) -> None:
        """Read what the pipes hold; no more, as a stranger may have been handed their other end."""
        for fd in list(self._readers):
            pending = _pending(fd)
            while pending > 0 and self._read(fd, min(pending, CHUNK)):
                pending -= CHUNK

    def _report(self, tree: Tree) -> None:
        kind, value, spared = tree.receive()
        if spared:
            logger.warning("%d processes that a command left behind belong to another user: they run on", spared)
        if kind == supervisor.STARTED:
            self.pid = value
            return
        with self._running:
            self._tree = None
        self._watch.remove(tree.fileno())
        tree.release()
        if kind == supervisor.FAILED:
            raise self._failure(value)
        self._drain()
        self.exit_code = value

    def _failure(self, number: int) -> Exception:
        if number in (errno.EAGAIN, errno.ENOMEM):
            return SandboxUnavailableError(f"no process can be started: {os.strerror(number)}")
        cwd = self._cwd if isinstance(self._cwd, str) else f"descriptor {self._cwd}"
        return _CWD_ERRORS.get(number, PathError)(cwd, os.strerror(number))


def _create_tree() -> Tree:
    if sys.platform == "win32":
        raise UnsupportedError("local commands need a POSIX system")
    return take() if sys.platform == "linux" else GroupTree()


def _pending(fd: int) -> int:
    """How many bytes can be read from a pipe now."""
    (count,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    return int(count)
