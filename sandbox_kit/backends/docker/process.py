"""A background command in a container: its handle, and the thread that serves it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from sandbox_kit.backends.docker.execs import Exec
from sandbox_kit.errors import SandboxError, SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.aside import begin
from sandbox_kit.output import Stream
from sandbox_kit.served import ServedProcess, Serving

__all__ = ["DockerProcess", "Service"]


class Service(Serving):
    """Serves a program to its end; it does not keep the handle alive.

    Args:
        max_output: how many unread bytes of each stream are kept.
        kill: ends whatever the command's user runs.
        free: called when nothing of it is left; never where that is not known.
        at_end: called in the end, whatever came of it.
    """

    end_within = 20.0

    def __init__(
        self, max_output: int, kill: Callable[[], None], free: Callable[[], None], at_end: Callable[[], None]
    ) -> None:
        super().__init__(max_output)
        self._exit_code: int | None = None
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
            self._exit_code = code
        except SandboxError as error:
            self._error = self._error or error
        finally:
            self._at_end()
            self.ended.set()
            for lines in self.lines.values():
                lines.end()

    def kill(self) -> bool:
        if not self.ended.is_set():
            self._kill()
        return self.ended.wait(self.end_within)

    @property
    def exit_code(self) -> int | None:
        return self._exit_code

    def result(self) -> int:
        if self._exit_code is None:
            raise SandboxUnavailableError(f"how the process ended is not known: {self._error}") from self._error
        return self._exit_code


class DockerProcess(ServedProcess):
    """A command that runs beside the caller in a container; its process id is the engine's machine's."""


def _followed(program: Exec) -> int:
    """Serve *program* until it ends; that the engine is slow to answer is no end."""
    while program.exit_code is None:
        with suppress(SandboxTimeoutError):
            program.step(None)
    return program.exit_code
