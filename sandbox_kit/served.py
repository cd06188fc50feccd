"""A background command that somebody serves to its end, and its handle, whatever runs it."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import BinaryIO

from sandbox_kit.arguments import check_timeout
from sandbox_kit.contract import Process
from sandbox_kit.errors import SandboxError, SandboxTimeoutError
from sandbox_kit.host.aside import Latch
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.output import Lines, Stream

__all__ = ["ServedProcess", "Serving"]


class Serving(ABC):
    """What serves one command; it does not keep the handle alive.

    Args:
        max_output: how many unread bytes of each stream are kept.

    Attributes:
        lines: what the command printed and nobody has read.
        ended: set in the end, whatever came of it.
    """

    end_within: float
    """Seconds that a killed command may take to end."""

    def __init__(self, max_output: int) -> None:
        self.lines: dict[Stream, Lines] = {"stdout": Lines(max_output), "stderr": Lines(max_output)}
        self.ended = Latch()

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """How the command ended; None before that, and where it is not known."""

    @abstractmethod
    def result(self) -> int:
        """Return the exit code, after the end.

        Raises:
            SandboxUnavailableError: it is not known, or the command was never started.
        """

    @abstractmethod
    def kill(self) -> bool:
        """Kill the tree; whether it is dead. What has ended is left as it is.

        Raises:
            SandboxUnavailableError: what runs it is gone.
        """

    def abandon(self) -> None:
        """End in a forked child, where nobody serves it."""
        self.ended = Latch()
        self.ended.set()
        for lines in self.lines.values():
            lines.abandon()


class ServedProcess(Process):
    """A command that runs beside the caller.

    Leaving its ``with``, dropping it or exiting kills its tree. In a forked child it can only
    be dropped.

    Args:
        serving: what serves it.
        pid: its process id, as its own sandbox numbers it where that is known.
        stdin: what writes to its standard input.
        owner: what must not be dropped before the handle.

    Attributes:
        stdout: its lines, an iterator that ends with the process.
        stderr: the same.
        stdin: a binary file to write to, flush and close; None unless ``subprocess.PIPE`` was asked for.
    """

    def __init__(self, serving: Serving, pid: int, stdin: BinaryIO | None, owner: object) -> None:
        self._serving = serving
        self._pid = pid
        self._owner = owner
        self.stdout: Lines = serving.lines["stdout"]
        self.stderr: Lines = serving.lines["stderr"]
        self.stdin = stdin
        self._finalizer = weakref.finalize(self, _kill_quietly, serving, os.getpid())
        abandon_in_child(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._pid}: {self._state()}>"

    def _state(self) -> str:
        if not self._serving.ended.is_set():
            return "running"
        code = self._serving.exit_code
        return "ended" if code is None else f"exit code {code}"

    @property
    def pid(self) -> int:
        return self._pid

    def poll(self) -> int | None:
        """The exit code, 128 + N after signal N; None while it runs.

        Raises:
            SandboxUnavailableError: how it ended is not known, or it could not be started.
        """
        return self._serving.result() if self._serving.ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when the command has ended.

        Args:
            timeout: in seconds.

        Raises:
            InvalidArgumentError: *timeout* is not positive.
            SandboxTimeoutError: it did not end within *timeout*; it runs on.
            SandboxUnavailableError: how it ended is not known, or it could not be started.
        """
        if not self._serving.ended.wait(check_timeout(timeout)):
            raise SandboxTimeoutError(f"process {self._pid} did not end within {timeout} s", timeout)
        return self._serving.result()

    def kill(self) -> None:
        """Kill the whole tree; it is dead when this returns. One that has ended is left as it is.

        Raises:
            SandboxTimeoutError: it was not ended in time.
        """
        within = self._serving.end_within
        if not self._serving.kill():
            raise SandboxTimeoutError(f"process {self._pid} could not be ended within {within} s", within)

    def abandon(self) -> None:
        """End in a forked child, where nothing serves it."""
        self._finalizer.detach()
        self._serving.abandon()


def _kill_quietly(serving: Serving, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(SandboxError):
            serving.kill()
