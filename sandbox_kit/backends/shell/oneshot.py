"""Files and scripts by one program each, for providers that have no stream to a shell that stays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from shlex import quote

from attrs import field, frozen

from sandbox_kit.backends.shell.duplex import Duplex, Piece
from sandbox_kit.backends.shell.files import ShellFiles
from sandbox_kit.backends.shell.line import Check, Drain, Line, Reply
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.backends.shell.tools import probe
from sandbox_kit.errors import SandboxUnavailableError

__all__ = ["OneShotFiles", "Shoot", "one_shot"]

Shoot = Callable[[bytes, Sequence[bytes | bytearray], float | None], Generator[Piece, None, None]]
"""Runs a script to its end, given what it reads and how many seconds it may take; yields what it printed."""


class _OneShot(Duplex):
    """The streams of a shell that reads one script; it starts once something is waited for.

    Args:
        shoot: runs the script.
        stdin: what it reads.
    """

    def __init__(self, shoot: Shoot, stdin: Sequence[bytes | bytearray]) -> None:
        self._shoot = shoot
        self._stdin = stdin
        self._script = bytearray()
        self._pieces: Generator[Piece, None, None] | None = None

    def wait(self, timeout: float | None, *, to_send: bool = False) -> None:
        if self._pieces is None:
            self._pieces = self._shoot(bytes(self._script), self._stdin, timeout)

    def receive(self) -> Sequence[Piece] | None:
        piece = None if self._pieces is None else next(self._pieces, None)
        return None if piece is None else (piece,)

    def send(self, data: memoryview) -> int:
        self._script += data
        return len(data)

    def end_input(self) -> None:
        """Nothing is to be done: its input has an end."""

    def close(self) -> None:
        if self._pieces is not None:
            self._pieces.close()

    def abandon(self) -> None:
        self._pieces = None


@contextmanager
def one_shot(shoot: Shoot, stdin: Sequence[bytes | bytearray] = ()) -> Generator[Loop, None, None]:
    """Lend a loop that takes one script."""
    loop = Loop(_OneShot(shoot, stdin))
    try:
        yield loop
    finally:
        loop.close()


@frozen
class _OneShotLine(Line):
    """A line whose scripts have to be given what they read from the start.

    Attributes:
        shoot: runs a script.
    """

    shoot: Shoot = field(kw_only=True)

    def give(self, script: str, pieces: Sequence[bytes | bytearray], check: Check) -> Reply:
        reply = Reply()
        with one_shot(self.shoot, pieces) as loop:
            try:
                reply.code = self.begin(loop, script, reply.take).finish()
            except SandboxUnavailableError:
                check(reply.records())
                raise
        return reply


class OneShotFiles(ShellFiles):
    """The files of whatever runs one script after the other, each in a new shell."""

    @abstractmethod
    def _shoot(
        self, script: bytes, stdin: Sequence[bytes | bytearray], timeout: float | None
    ) -> Generator[Piece, None, None]:
        """Run a script to its end, and yield what it printed.

        Args:
            script: shell code; its descriptors 1 and 2 are the two streams.
            stdin: what it reads, in pieces.
            timeout: in seconds; None for no limit.

        Raises:
            SandboxTimeoutError: it took longer.
            SandboxUnavailableError: what runs it is gone; what it did until then is not known.
        """

    def _lease(self, drain: Drain | None = None) -> AbstractContextManager[Loop]:
        return one_shot(self._shoot)

    @property
    def _line(self) -> Line:
        line = super()._line
        return _OneShotLine(line.lease, line.teach, line.timeout, line.path, shoot=self._shoot)

    def _teach(self, loop: Loop) -> str:
        if self._tools is None:
            with one_shot(self._shoot) as other:
                self._tools = probe(other, self.file_timeout, quote(self._tool_path))
        return super()._teach(loop)
