"""A shell of this machine as a duplex stream: the real dash and busybox, without an engine."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from sandbox_kit.backends.shell.duplex import Duplex, Piece
from sandbox_kit.errors import SandboxUnavailableError

SHELLS = {"dash": ("dash", "-s"), "ash": ("busybox", "ash", "-s")}


class PipeDuplex(Duplex):
    """A program's pipes."""

    def __init__(
        self, argv: Sequence[str], cwd: str, env: dict[str, str] | None = None, user: int | None = None
    ) -> None:
        self.program = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self.program.stdin
        assert self.program.stdout
        assert self.program.stderr
        self._input = self.program.stdin.fileno()
        self._streams = {self.program.stdout.fileno(): "stdout", self.program.stderr.fileno(): "stderr"}
        for fd in (self._input, *self._streams):
            os.set_blocking(fd, False)
            if user is not None:
                os.fchown(fd, user, user)

    def wait(self, timeout: float | None, *, to_send: bool = False) -> None:
        select.select(list(self._streams), [self._input] if to_send else [], [], timeout)

    def receive(self) -> Sequence[Piece] | None:
        pieces: list[Piece] = []
        for fd, stream in list(self._streams.items()):
            with suppress(BlockingIOError):
                data = os.read(fd, 1 << 16)
                if data:
                    pieces.append((stream, data))  # type: ignore[arg-type]
                else:
                    del self._streams[fd]
        return pieces if pieces or self._streams else None

    def send(self, data: memoryview) -> int:
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise SandboxUnavailableError(f"the shell is gone: {error}") from error

    def end_input(self) -> None:
        if self.program.stdin is not None:
            self.program.stdin.close()

    def close(self) -> None:
        self.program.kill()
        self.abandon()
        self.program.wait()

    def abandon(self) -> None:
        for pipe in (self.program.stdin, self.program.stdout, self.program.stderr):
            if pipe is not None:
                pipe.close()
