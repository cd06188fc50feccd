"""The handle of a command that runs beside the caller, and the thread that serves it."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import ExitStack

from sandbox_kit.backends.local.job import Job
from sandbox_kit.backends.local.tree import END_WITHIN
from sandbox_kit.errors import SandboxUnavailableError
from sandbox_kit.host.aside import begin
from sandbox_kit.output import Stream
from sandbox_kit.served import ServedProcess, Serving

_COMPLAINT = 1000
"""How many bytes of the end of standard error are kept for the judgement of a command's end."""


def _started(_exit_code: int, _complaint: str) -> None:
    """Take every command for started."""


class Service(Serving):
    """A job that a thread serves to its end; it does not keep the handle alive.

    Args:
        max_output: how many unread bytes of each stream are kept.
        check_started: called with the exit code and the end of standard error; raises SandboxUnavailableError
            for a command that was never started.

    Attributes:
        at_end: what to call when the tree is dead, the last first.
    """

    end_within = END_WITHIN

    def __init__(self, max_output: int, check_started: Callable[[int, str], None] = _started) -> None:
        super().__init__(max_output)
        self._check_started = check_started
        self._complaint = b""
        self.job = Job(self._feed)
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
        return self.job.server == threading.get_ident() or self.ended.wait(self.end_within)

    @property
    def exit_code(self) -> int | None:
        return self.job.exit_code

    def result(self) -> int:
        if isinstance(self._error, SandboxUnavailableError):
            raise SandboxUnavailableError(str(self._error)) from self._error
        if self.job.exit_code is None or self._error is not None:
            raise SandboxUnavailableError("how the process ended is not known") from self._error
        return self.job.exit_code


class LocalProcess(ServedProcess):
    """A command that runs beside the caller, made by :func:`spawn`; its process id is this machine's.

    Args:
        owner: what must not be dropped before the handle.
    """

    def __init__(self, service: Service, *, with_stdin: bool, owner: object = None) -> None:
        job = service.job
        assert job.pid is not None
        stdin = io.BufferedWriter(job.stdin) if with_stdin and job.stdin is not None else None
        super().__init__(service, job.pid, stdin, owner)
