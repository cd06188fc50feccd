"""A program that the engine starts in a container: dearer than a shell that stays, and needs none."""

from __future__ import annotations

import io
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

from sandbox_kit.backends.docker.engine import Engine
from sandbox_kit.backends.docker.multiplexed import WireDuplex
from sandbox_kit.backends.shell.loop import Take
from sandbox_kit.cancelling import NEVER, Cancellation
from sandbox_kit.errors import SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.feed import Feed, Watch

__all__ = ["Exec"]

_PATIENCE = 0.25
_MOST_PATIENCE = 5.0
"""After so many silent seconds, doubled each time up to the second number, the engine is asked whether it has ended."""

_TOLD_WITHIN = 10.0
"""Seconds that the engine may take to tell how a program ended whose streams have."""


class Exec:
    """One program, from its start to its end; used by one thread at a time.

    Args:
        user: ``"uid:gid"``.
        work_dir: where it starts.
        stdin: bytes, a binary file, or None for an empty one.
        take: called with each piece of output.

    Attributes:
        id: the engine's.
        exit_code: None until it has ended and all of its output was taken.
    """

    def __init__(
        self,
        engine: Engine,
        container: str,
        argv: Sequence[str],
        *,
        user: str,
        env: Mapping[str, str],
        work_dir: str,
        stdin: bytes | BinaryIO | None,
        take: Take,
    ) -> None:
        self._engine = engine
        self._take = take
        self.exit_code: int | None = None
        self.id, wire = engine.exec_stream(container, list(argv), user=user, env=env, work_dir=work_dir)
        self._duplex = WireDuplex(wire)
        self._watch = Watch()
        self._watch.add(self._duplex.fileno(), select.POLLIN)
        self._patience = _PATIENCE
        self._silent_since = time.monotonic()
        try:
            self._feed = Feed(self._watch, _Input(wire), b"" if stdin is None else stdin)
        except BaseException:
            self._duplex.close()
            raise

    def pid(self) -> int:
        """Its process id, as the engine's machine counts.

        Raises:
            SandboxUnavailableError: the engine did not start it.
        """
        return self._wait_for("started the command", lambda: self._engine.exec_pid(self.id))

    def finish(self, deadline: float | None, cancellation: Cancellation = NEVER) -> int:
        """Serve it to its end; return the exit code.

        Raises:
            SandboxTimeoutError: the deadline came; it runs on.
            SandboxUnavailableError: the engine is gone, or does not know how it ended.
            Cancelled: another thread cancelled it; it runs on.
        """
        while self.exit_code is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise SandboxTimeoutError("the command ran until its time limit")
            self.step(cancellation.pause(left))
        return self.exit_code

    def step(self, timeout: float | None) -> None:
        """Wait until something happens, at most *timeout* seconds, and handle it."""
        ready = self._watch.wait(self._patience if timeout is None else min(timeout, self._patience))
        for fd, event in ready:
            if self.exit_code is not None:
                return
            if fd == self._duplex.fileno():
                self._receive()
            else:
                self._feed.handle(fd, event)
        if ready:
            self._silent_since, self._patience = time.monotonic(), _PATIENCE
        elif time.monotonic() - self._silent_since >= self._patience:
            self._ask()

    def _receive(self) -> None:
        pieces = self._duplex.receive()
        if pieces is None:
            self._end(self._wait_for_code())
            return
        for stream, data in pieces:
            self._take(stream, data)

    def _ask(self) -> None:
        """Look whether it has ended while something that it left behind holds its streams."""
        self._silent_since, self._patience = time.monotonic(), min(2 * self._patience, _MOST_PATIENCE)
        code = self._engine.exec_ended(self.id)
        if code is not None:
            while pieces := self._duplex.receive():
                for stream, data in pieces:
                    self._take(stream, data)
            self._end(code)

    def _wait_for_code(self) -> int:
        return self._wait_for("told how the command ended", lambda: self._engine.exec_ended(self.id))

    def _wait_for(self, what: str, ask: Callable[[], int | None]) -> int:
        until = time.monotonic() + _TOLD_WITHIN
        pause = 0.001
        while (answer := ask()) is None:
            if time.monotonic() > until:
                raise SandboxUnavailableError(f"the Docker engine has not {what}")
            time.sleep(pause)
            pause = min(2 * pause, 0.2)
        return answer

    def _end(self, code: int) -> None:
        self.close()
        self.exit_code = code

    def close(self) -> None:
        """Let go of its streams; twice is fine. It may run on."""
        self._feed.close()
        self._duplex.close()


class _Input(io.FileIO):
    """A second descriptor of a connection, for its sending half; closing it ends that half."""

    def __init__(self, wire: socket.socket) -> None:
        super().__init__(os.dup(wire.fileno()), "wb")

    def close(self) -> None:
        if not self.closed:
            with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as wire:
                wire.shutdown(socket.SHUT_WR)
        super().close()
