"""The shells that stay, of one user in one sandbox: one runs a command, others what goes on beside it.

A user is a kill domain. When a command ends, its shell kills whatever else that user runs, the
other shells too; while one of those is in use it only says that it has not, and is told to later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from attrs import define

from sandbox_kit.backends.shell.loop import Call, Loop, Take
from sandbox_kit.errors import SandboxClosedError, SandboxError, SandboxTimeoutError, SandboxUnavailableError

__all__ = ["Shells"]

_READY = "trap hold=1 USR1; echo $$ >&8"
_SWEEP = "kill -9 -1"
"""Ends every process of the shell's user but the shell itself, at once: a builtin, and nothing is forked past it."""

_COMMAND = f'{{held}}\n{{body}}\nif [ "$hold" ]; then s=1; else {_SWEEP}; fi; hold='
_OPEN_WITHIN = 30.0
_END_WITHIN = 10.0
"""Seconds that killing, and what goes on beside a command that has ended, may take."""

_PATIENCE = 5.0
"""After so many silent seconds a shell is looked after: a command may have stopped it."""

_KEPT = 4
"""How many idle shells are kept."""


@define(eq=False)
class _Shell:
    """A shell, and its process id in the sandbox."""

    loop: Loop
    pid: int


@define(eq=False)
class _Lease:
    """A shell that a call uses beside commands.

    Attributes:
        drain: brings the call to its end; None where it ends soon by itself.
    """

    drain: Callable[[], None] | None


class Shells:
    """Opens shells when they are needed, and keeps them.

    Args:
        open_loop: starts a shell in the sandbox.
    """

    def __init__(self, open_loop: Callable[[], Loop]) -> None:
        self._open_loop = open_loop
        self._turn = threading.Lock()
        self._change = threading.Condition()
        self._idle: list[_Shell] = []
        self._leases: list[_Lease] = []
        self._running: _Shell | None = None
        self._sweeping = False
        self._closed = False

    def run(self, body: str, take: Take, deadline: float | None) -> int:
        """Run a script that untrusted commands are a part of, and end all that it leaves running.

        Args:
            body: as for :meth:`Loop.call`.
            take: the same.
            deadline: on the clock of :func:`time.monotonic`; it counts the wait for commands before this one.

        Returns:
            The exit code.

        Raises:
            SandboxTimeoutError: the deadline came. Whatever the script had started is dead.
            SandboxUnavailableError: the shell, the sandbox or what runs it is gone; the same.
        """
        with self._my_turn(deadline):
            shell = self._take()
            with self._change:
                held = "hold=1" if self._leases else ":"
                self._running = shell
            try:
                call = shell.loop.call(_COMMAND.format(held=held, body=body), take, deadline)
                self._see_through(call, shell)
            except BaseException:
                self._recover()
                raise
            self._settle(shell, swept=not call.told)
            return call.finish()

    @contextmanager
    def exclusively(self, deadline: float | None) -> Iterator[None]:
        """A command's turn for something that no shell of these runs; in the end all that the user runs is killed.

        Raises:
            SandboxTimeoutError: the deadline came before the turn.
        """
        with self._my_turn(deadline):
            try:
                yield
            finally:
                self._settle(self._take(), swept=False)

    @contextmanager
    def lease(self, drain: Callable[[], None] | None = None) -> Iterator[Loop]:
        """A shell for the calling thread alone, for scripts that run nothing untrusted.

        Args:
            drain: called when a command has ended and needs this shell's end: takes all that is still to come.
        """
        lease = _Lease(drain)
        with self._change:
            self._wait(lambda: not self._sweeping, _END_WITHIN)
            self._leases.append(lease)
        shell = None
        try:
            shell = self._take()
            self._hold_back_sweep(shell.loop)
            yield shell.loop
        finally:
            with self._change:
                self._leases.remove(lease)
                self._change.notify_all()
            if shell is not None:
                self._give_back(shell)

    def kill_all(self) -> None:
        """End every process of the user, the shells too.

        Raises:
            SandboxUnavailableError: what runs the sandbox is gone.
        """
        self._recover()

    def close(self) -> None:
        """Let go of every shell."""
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
        for shell in idle:
            shell.loop.close()

    def _see_through(self, call: Call, shell: _Shell) -> None:
        while not call.done:
            if not call.step(patience=_PATIENCE):
                self._wake(shell)

    def _wake(self, shell: _Shell) -> None:
        """Have a shell go on that a command may have stopped."""
        other = self._open()
        try:
            other.loop.run(f"kill -CONT {shell.pid}", _nowhere, time.monotonic() + _OPEN_WITHIN)
        finally:
            other.loop.close()

    def _hold_back_sweep(self, loop: Loop) -> None:
        """Have the command that runs, if one does, not end this shell with its own leftovers."""
        with self._change:
            running = self._running
        if running is not None:
            loop.run(f"kill -USR1 {running.pid}", _nowhere, time.monotonic() + _END_WITHIN)

    def _settle(self, shell: _Shell, *, swept: bool) -> None:
        """After a command: see that nothing of it is left, and that no dead shell is kept."""
        with self._change:
            self._running = None
            self._sweeping = True
        try:
            if not swept:
                self._end_leases()
                shell.loop.run(_SWEEP, _nowhere, time.monotonic() + _END_WITHIN)
            self._drop_idle()
        finally:
            self._done_sweeping()
        self._give_back(shell)

    def _recover(self) -> None:
        """After a failure: kill whatever the user runs, by a new shell."""
        with self._change:
            self._running = None
            self._sweeping = True
        try:
            self._end_leases()
            self._drop_idle()
            if not self._closed:
                shell = self._open(first=_SWEEP)
                self._give_back(shell)
        finally:
            self._done_sweeping()

    def _done_sweeping(self) -> None:
        with self._change:
            self._sweeping = False
            self._change.notify_all()

    def _end_leases(self) -> None:
        with self._change:
            drains = [lease.drain for lease in self._leases if lease.drain is not None]
        for drain in drains:
            with suppress(SandboxError):
                drain()
        with self._change, suppress(SandboxTimeoutError):
            self._wait(lambda: all(lease.drain is not None for lease in self._leases), _END_WITHIN)

    def _drop_idle(self) -> None:
        with self._change:
            idle, self._idle = self._idle, []
        for shell in idle:
            shell.loop.close()

    def _wait(self, until: Callable[[], bool], seconds: float) -> None:
        if not self._change.wait_for(until, seconds):
            raise SandboxTimeoutError("what else uses the sandbox took too long", seconds)

    @contextmanager
    def _my_turn(self, deadline: float | None) -> Iterator[None]:
        timeout = -1 if deadline is None else max(0.0, min(deadline - time.monotonic(), threading.TIMEOUT_MAX))
        if not self._turn.acquire(timeout=timeout):
            raise SandboxTimeoutError("other commands had the sandbox until the time limit")
        try:
            yield
        finally:
            self._turn.release()

    def _take(self) -> _Shell:
        with self._change:
            if self._closed:
                raise SandboxClosedError("the sandbox was stopped")
            while self._idle:
                shell = self._idle.pop()
                if not shell.loop.lost:
                    return shell
        return self._open()

    def _give_back(self, shell: _Shell) -> None:
        with self._change:
            keep = not (shell.loop.lost or self._closed) and len(self._idle) < _KEPT
            if keep:
                self._idle.append(shell)
        if not keep:
            shell.loop.close()

    def _open(self, first: str = ":") -> _Shell:
        loop = self._open_loop()
        printed = bytearray()
        loop.run(f"{first}; {_READY}", lambda _, data: printed.extend(data), time.monotonic() + _OPEN_WITHIN)
        if not printed.strip().isdigit():
            loop.close()
            raise SandboxUnavailableError(f"the shell in the sandbox does not work: it said {bytes(printed[:100])!r}")
        return _Shell(loop, int(printed))


def _nowhere(_stream: str, _data: bytes) -> None:
    """Take output that is of no interest."""
