"""The handle of a command that runs beside the caller, and the thread that serves it."""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack

from sandbox_kit.arguments import check_timeout
from sandbox_kit.backends.local.job import Job
from sandbox_kit.backends.local.tree import END_WITHIN
from sandbox_kit.contract import Process
from sandbox_kit.errors import SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.aside import Latch, begin
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.output import Lines, Stream

_COMPLAINT = 1000
"""How many bytes of the end of standard error are kept for the judgement of a command's end."""


def _started(_exit_code: int, _complaint: str) -> None:
    """Take every command for started."""


class Service:
    """A job that a thread serves to its end; it does not keep the handle alive.

    Args:
        max_output: how many unread bytes of each stream are kept.
        check_started: called with the exit code and the end of standard error; raises SandboxUnavailableError
            for a command that was never started.

    Attributes:
        at_end: what to call when the tree is dead, the last first.
    """

    def __init__(self, max_output: int, check_started: Callable[[int, str], None] = _started) -> None:
        self._check_started = check_started
        self._complaint = b""
        self.lines: dict[Stream, Lines] = {"stdout": Lines(max_output), "stderr": Lines(max_output)}
        self.job = Job(self._feed)
        self.ended = Latch()
        self.at_end = ExitStack()
        self._error: Exception | None = None
        self._claim = threading.Lock()

    def _feed(self, stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            self._complaint = (self._complaint + data[-_COMPLAINT:])[-_COMPLAINT:]
        self.lines[stream].feed(data)

    def begin(self) -> None:
        """Serve the job in a thread.

        Raises:
            SandboxUnavailableError: none can be started.
        """
        self.job.server = None
        try:
            begin(self._serve)
        except RuntimeError as error:
            raise SandboxUnavailableError(f"no thread can be started to serve the command: {error}") from error

    def _serve(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            while self.job.exit_code is None:
                self.job.step(None)
            if not self.job.killed:
                self._check_started(self.job.exit_code, self._complaint.decode(errors="replace"))
        except Exception as error:
            self._error = error
        finally:
            self._end()

    def _end(self) -> None:
        try:
            self.job.close()
            self.at_end.close()
        finally:
            self.ended.set()
            for stream in self.lines.values():
                stream.end()

    def give_up(self) -> None:
        """End the job after an interrupted start, whether or not the thread serves it yet."""
        if self._claim.acquire(blocking=False):
            self._end()
        else:
            self.kill()

    def kill(self) -> bool:
        """Kill the tree; whether it is dead.

        The garbage collector may call this in any thread; the one that serves the job goes on to its end.
        """
        self.job.kill()
        return self.job.server == threading.get_ident() or self.ended.wait(END_WITHIN)

    def exit_code(self) -> int:
        """The exit code, after the end.

        Raises:
            SandboxUnavailableError: it is not known, or the command was never started.
        """
        if isinstance(self._error, SandboxUnavailableError):
            raise SandboxUnavailableError(str(self._error)) from self._error
        if self.job.exit_code is None or self._error is not None:
            raise SandboxUnavailableError("how the process ended is not known") from self._error
        return self.job.exit_code

    def abandon(self) -> None:
        """End in a forked child, where the thread does not run."""
        self.ended = Latch()
        self.ended.set()
        for stream in self.lines.values():
            stream.abandon()


class LocalProcess(Process):
    """A command that runs beside the caller, made by :func:`spawn`.

    Leaving its ``with``, dropping it or exiting kills its tree. In a forked child it can
    only be dropped.

    Args:
        owner: what must not be dropped before the handle.

    Attributes:
        stdout: its lines, an iterator that ends with the process.
        stderr: the same.
        stdin: a binary file to write to, flush and close; None unless ``subprocess.PIPE`` was asked for.
    """

    def __init__(self, service: Service, *, with_stdin: bool, owner: object = None) -> None:
        job = service.job
        assert job.pid is not None
        self._pid = job.pid
        self.stdout: Lines = service.lines["stdout"]
        self.stderr: Lines = service.lines["stderr"]
        self.stdin = io.BufferedWriter(job.stdin) if with_stdin and job.stdin is not None else None
        self._service = service
        self._owner = owner
        self._finalizer = weakref.finalize(self, service.kill)
        abandon_in_child(self)

    def __repr__(self) -> str:
        if not self._service.ended.is_set():
            return f"<LocalProcess {self._pid}: running>"
        code = self._service.job.exit_code
        return f"<LocalProcess {self._pid}: {'ended' if code is None else f'exit code {code}'}>"

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self._pid

    def poll(self) -> int | None:
        """The exit code, 128 + N after signal N; None while it runs.

        Raises:
            SandboxUnavailableError: how it ended is not known, or what confines it could not start it.
        """
        return self._service.exit_code() if self._service.ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when the command has ended.

        Args:
            timeout: in seconds.

        Raises:
            InvalidArgumentError: *timeout* is not positive.
            SandboxTimeoutError: it did not end within *timeout*; it runs on.
            SandboxUnavailableError: how it ended is not known, or what confines it could not start it.
        """
        if not self._service.ended.wait(check_timeout(timeout)):
            raise SandboxTimeoutError(f"process {self.pid} did not end within {timeout} s", timeout)
        return self._service.exit_code()

    def kill(self) -> None:
        """Kill the whole tree; it is dead when this returns. One that has ended is left as it is.

        Raises:
            SandboxTimeoutError: the kernel did not let it die.
        """
        if not self._service.kill():
            raise SandboxTimeoutError(f"process {self.pid} could not be ended within {END_WITHIN} s", END_WITHIN)

    def abandon(self) -> None:
        """End in a forked child, where nothing serves it."""
        self._finalizer.detach()
        self._service.abandon()
