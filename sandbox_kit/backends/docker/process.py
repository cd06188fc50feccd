"""A background command in a container: its handle, and the thread that serves it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from sandbox_kit.arguments import check_timeout
from sandbox_kit.backends.docker.execs import Exec
from sandbox_kit.contract import Process
from sandbox_kit.errors import SandboxError, SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.aside import Latch, begin
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.output import Lines, Stream

__all__ = ["DockerProcess", "Service"]

_END_WITHIN = 20.0
"""Seconds that a killed command may take to end."""


class Service:
    """Serves a program to its end; it does not keep the handle alive.

    Args:
        max_output: how many unread bytes of each stream are kept.
        kill: ends whatever the command's user runs.
        free: called when nothing of it is left; never where that is not known.
        at_end: called in the end, whatever came of it.
    """

    def __init__(
        self, max_output: int, kill: Callable[[], None], free: Callable[[], None], at_end: Callable[[], None]
    ) -> None:
        self.lines: dict[Stream, Lines] = {"stdout": Lines(max_output), "stderr": Lines(max_output)}
        self.ended = Latch()
        self.exit_code: int | None = None
        self._kill = kill
        self._free = free
        self._at_end = at_end
        self._error: BaseException | None = None
        self._ending = threading.Lock()

    def take(self, stream: Stream, data: bytes) -> None:
        """Keep what arrived."""
        self.lines[stream].feed(data)

    def serve(self, program: Exec) -> None:
        """Serve *program* in a thread.

        Raises:
            SandboxUnavailableError: none can be started.
        """
        try:
            begin(lambda: self._serve(program))
        except RuntimeError as error:
            raise SandboxUnavailableError(f"no thread can be started to serve the command: {error}") from error

    def _serve(self, program: Exec) -> None:
        code = None
        try:
            code = _followed(program)
        except Exception as error:
            self._error = error
        finally:
            program.close()
            self.end(code)

    def end(self, code: int | None = None) -> None:
        """Kill what is left, and tell everyone that it is over; once.

        Args:
            code: of the command's end, where it is known.
        """
        if not self._ending.acquire(blocking=False):
            return
        try:
            self._kill()
            self._free()
            self.exit_code = code
        except SandboxError as error:
            self._error = self._error or error
        finally:
            self._at_end()
            self.ended.set()
            for lines in self.lines.values():
                lines.end()

    def kill(self) -> bool:
        """Kill the tree; whether it is dead.

        Raises:
            SandboxUnavailableError: the engine is gone.
        """
        if not self.ended.is_set():
            self._kill()
        return self.ended.wait(_END_WITHIN)

    def result(self) -> int:
        """The exit code, after the end.

        Raises:
            SandboxUnavailableError: it is not known.
        """
        if self.exit_code is None:
            raise SandboxUnavailableError(f"how the process ended is not known: {self._error}") from self._error
        return self.exit_code

    def abandon(self) -> None:
        """End in a forked child, where the thread does not run."""
        self.ended = Latch()
        self.ended.set()
        for lines in self.lines.values():
            lines.abandon()


class DockerProcess(Process):
    """A command that runs beside the caller.

    Leaving its ``with``, dropping it or exiting kills its tree. In a forked child it can only
    be dropped.

    Attributes:
        stdout: its lines, an iterator that ends with the process.
        stderr: the same.
        stdin: a binary file to write to, flush and close; None unless ``subprocess.PIPE`` was asked for.
    """

    def __init__(self, service: Service, pid: int, stdin: BinaryIO | None, owner: object) -> None:
        self._service = service
        self._pid = pid
        self._owner = owner
        self.stdout: Lines = service.lines["stdout"]
        self.stderr: Lines = service.lines["stderr"]
        self.stdin = stdin
        self._finalizer = weakref.finalize(self, _kill_quietly, service, os.getpid())
        abandon_in_child(self)

    def __repr__(self) -> str:
        state = f"exit code {self._service.exit_code}" if self._service.ended.is_set() else "running"
        return f"<DockerProcess {self._pid}: {state}>"

    @property
    def pid(self) -> int:
        """The process id of the command, as the engine's machine counts."""
        return self._pid

    def poll(self) -> int | None:
        """The exit code, 128 + N after signal N; None while it runs.

        Raises:
            SandboxUnavailableError: how it ended is not known.
        """
        return self._service.result() if self._service.ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when the command has ended.

        Args:
            timeout: in seconds.

        Raises:
            InvalidArgumentError: *timeout* is not positive.
            SandboxTimeoutError: it did not end within *timeout*; it runs on.
            SandboxUnavailableError: how it ended is not known.
        """
        if not self._service.ended.wait(check_timeout(timeout)):
            raise SandboxTimeoutError(f"process {self.pid} did not end within {timeout} s", timeout)
        return self._service.result()

    def kill(self) -> None:
        """Kill the whole tree; it is dead when this returns. One that has ended is left as it is.

        Raises:
            SandboxTimeoutError: the engine did not end it in time.
        """
        if not self._service.kill():
            raise SandboxTimeoutError(f"process {self.pid} could not be ended within {_END_WITHIN} s", _END_WITHIN)

    def abandon(self) -> None:
        """End in a forked child, where nothing serves it."""
        self._finalizer.detach()
        self._service.abandon()


def _followed(program: Exec) -> int:
    """Serve *program* until it ends; that the engine is slow to answer is no end."""
    while program.exit_code is None:
        with suppress(SandboxTimeoutError):
            program.step(None)
    return program.exit_code


def _kill_quietly(service: Service, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(SandboxError):
            service.kill()
