"""A long reply, taken as it comes and as fast as its reader likes, that can be brought to its end at any time."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import ExitStack, suppress
from time import monotonic
from typing import BinaryIO

from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.loop import Call, Loop
from sandbox_kit.backends.shell.spool import new_spool
from sandbox_kit.errors import SandboxError, SandboxUnavailableError
from sandbox_kit.output import Stream
from sandbox_kit.streams import CHUNK

__all__ = ["Flow"]

_GRACE = 0.2
"""How long what nobody wants any more may take to end by itself, in seconds; then its shell is given up."""


class Flow:
    """What one function prints on standard output; it keeps a loop until it has ended.

    Args:
        line: reaches the sandbox.
        script: the function's call.
        patience: how long it may print nothing, in seconds.

    Attributes:
        code: the function's exit code; None before its end.
    """

    def __init__(self, line: Line, script: str, patience: float) -> None:
        self.code: int | None = None
        self._line = line
        self._script = script
        self._patience = patience
        self._lock = threading.Lock()
        self._ready: list[bytes] = []
        self._spool: BinaryIO | None = None
        self._failure: SandboxError | None = None
        self._call: Call | None = None
        self._hurried = False
        self._spooling = False

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield what is printed, in pieces; closing it ends the function.

        Raises:
            SandboxUnavailableError: the loop is gone, or what it said when it was drained could not be kept.
            SandboxTimeoutError: nothing came for too long.
        """
        with ExitStack() as stack:
            loop = stack.enter_context(self._line.lease(self.drain))
            stack.callback(self._end, loop)
            with self._lock:
                self._call = self._line.begin(loop, self._script, self._take, self._patience)
            while not self._step():
                yield from self._taken()
            yield from self._taken()
        if self._spool is not None:
            with self._spool:
                yield from iter(self._spooled, b"")
        if self._failure is not None:
            raise self._failure

    def drain(self) -> None:
        """Take all that is still to come, onto the disk where it is much; from any thread."""
        self._hurried = True
        with self._lock:
            if self._call is not None and not self._call.done:
                self._drain(self._call)

    def _drain(self, call: Call) -> None:
        self._spooling = True
        call.deadline = monotonic() + self._patience
        try:
            self._spool_rest(call)
        except OSError as error:
            self._drop_spool()
            self.code = None
            self._failure = SandboxUnavailableError(f"what was still to come could not be kept on the host: {error}")

    def _spool_rest(self, call: Call) -> None:
        try:
            self.code = call.finish()
        except SandboxError as error:
            self._failure = error
        if self._spool is not None:
            self._spool.seek(0)

    def _drop_spool(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            with suppress(OSError):
                spool.close()

    def _spooled(self) -> bytes:
        assert self._spool is not None
        return self._spool.read(CHUNK)

    def _take(self, stream: Stream, data: bytes) -> None:
        if stream == "stdout":
            if self._spooling:
                self._spool = self._spool or new_spool()
                self._spool.write(data)
            else:
                self._ready.append(data)

    def _taken(self) -> list[bytes]:
        taken, self._ready = self._ready, []
        return taken

    def _step(self) -> bool:
        """Take what comes next; return whether there is no more to come."""
        with self._lock:
            call = self._call
            if call is None or self._failure is not None:
                return True
            if self._hurried and not call.done:
                self._drain(call)
                return True
            if not call.done:
                call.deadline = monotonic() + self._patience
                call.step()
            if call.done:
                self.code = call.finish()
            return call.done

    def _end(self, loop: Loop) -> None:
        """See that the function has ended, whether its reader went to the end or not."""
        with self._lock:
            call, self._call = self._call, None
            if call is None or call.done or loop.lost:
                return
            call.deadline = monotonic() + _GRACE
            with suppress(SandboxError):
                while not call.done:
                    call.step()
                    self._ready.clear()
