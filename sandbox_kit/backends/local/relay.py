"""A local sandbox whose commands print straight through, byte for byte, in constant memory."""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import BinaryIO

from sandbox_kit.backends.local.environment import encode_environment
from sandbox_kit.backends.local.job import Job
from sandbox_kit.backends.local.launch import Launch
from sandbox_kit.backends.local.sandbox import LocalSandbox
from sandbox_kit.errors import CommandTimeoutError
from sandbox_kit.output import Stream
from sandbox_kit.primitives import Authorize, Command, Masks, Operations
from sandbox_kit.types import CommandResult

__all__ = ["RelayedSandbox"]

_OUTPUT: Mapping[Stream, int] = {"stdout": 1, "stderr": 2}
_COMPLAINT = 1000


class RelayedSandbox(LocalSandbox):
    """A :class:`LocalSandbox` that passes the output of commands on to this process's own as it arrives.

    A command waits while nobody reads, and is killed when nobody will. Its result holds no output.
    """

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        began, relay, running = time.monotonic(), _Relay(command.timeout), self._running
        with self._launch(command, operations, authorize, masks, running) as launch:
            running.admit(relay.job)
            try:
                code = relay.run(launch, None if isinstance(command.stdin, int) else command.stdin)
            finally:
                running.leave(relay.job)
            launch.check_started(code, relay.complaint.decode(errors="replace"))
        return CommandResult(code, duration=time.monotonic() - began)


class _Relay:
    """One command and its time limit, which counts from now on.

    Args:
        timeout: in seconds; None for no limit.

    Attributes:
        complaint: the end of what was printed to standard error.
    """

    def __init__(self, timeout: float | None) -> None:
        self.complaint = b""
        self.job = Job(self._pass_on)
        self._timeout = timeout
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout

    def run(self, launch: Launch, stdin: bytes | BinaryIO | None) -> int:
        """Run the command to its end and return its exit code; the whole tree is dead on return.

        Raises:
            CommandTimeoutError: it ran over the limit.
            BrokenPipeError: it printed something, and nobody reads that.
        """
        argv = [os.fsencode(word) for word in launch.argv]
        env = encode_environment(launch.env)
        try:
            self.job.start(argv, launch.start_in, env, stdin, pass_fds=launch.pass_fds)
            while self.job.exit_code is None:
                self.job.step(self._left())
        finally:
            self.job.close()
        return self.job.exit_code

    def _left(self) -> float | None:
        """How many seconds are left; None where there is no limit."""
        if self._timeout is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise CommandTimeoutError(CommandResult(None), self._timeout)
        return left

    def _pass_on(self, stream: Stream, data: bytes) -> None:
        fd = _OUTPUT[stream]
        if stream == "stderr":
            self.complaint = (self.complaint + data)[-_COMPLAINT:]
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        rest = memoryview(data)
        while rest:
            left = self._left()
            if poller.poll(None if left is None else left * 1000 + 1):
                with suppress(BlockingIOError):
                    rest = rest[os.write(fd, rest[: select.PIPE_BUF]) :]
