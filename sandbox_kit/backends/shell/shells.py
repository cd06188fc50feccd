"""The shells that stay, of one user in one sandbox: one runs a command, others what goes on beside it.

A user is a kill domain. When a command ends, its shell kills whatever else that user runs, the
other shells too; while one of those is in use it only says that it has not, and is told to later.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from attrs import define

from sandbox_kit.backends.shell.limits import TELL, keeping
from sandbox_kit.backends.shell.loop import Loop, Take
from sandbox_kit.errors import SandboxClosedError, SandboxError, SandboxTimeoutError, SandboxUnavailableError

__all__ = ["Shells"]

_READY = f"umask 0002; trap hold=1 USR1; {{ echo $$; {TELL}; }} >&8"
_SWEEP = "kill -9 -1"
"""Ends every process of the shell's user but the shell itself, at once: a builtin, and nothing is forked past it."""

_CLEAN = f"{_SWEEP}; limits || exit"
"""The same, and the end of a shell whose limits were lowered: it would hold all later commands to them."""

_COMMAND = f'{{held}}\n{{body}}\nif [ "$hold" ]; then s=1; else {_CLEAN}; s={{proof}}; fi; hold='
_SIGNAL = """
kill -{signal} {pid}; kids=
[ ! -e /proc/$$/task/$$/children ] || read -r kids </proc/{pid}/task/{pid}/children
[ "$kids" ] || [ ! -e /proc/$$/task/$$/children ]; c=$?
"""
"""Has another shell heed a signal; whether a command of that runs on then, as far as the system tells."""

_OPEN_WITHIN = 10.0
_END_WITHIN = 10.0
"""Seconds that opening a shell may take; and killing, or what goes on beside a command that has ended."""

_SWEPT_WITHIN = 2.0
"""Seconds that a shell which another may disturb has for a sweep."""

_SETTLED_WITHIN = 40.0
"""Seconds that all of this together may take."""

_PAUSE = 0.005
_KEPT = 4
"""How many idle shells are kept."""


@define(eq=False)
class _Shell:
    """A shell, and its process id in the sandbox.

    Attributes:
        lesson: what it has to be told before its first command.
        sweeps: how many sweeps there had been when it was last known to live.
        idle: how often in a row it did nothing when it should have answered.
        lent: whether programs of the sandbox have run in it for file calls, which root's commands may have replaced.
    """

    loop: Loop
    pid: int
    lesson: str
    sweeps: int
    idle: int = 0
    lent: bool = False

    def taught(self, script: str) -> str:
        """*script*, after what the shell has yet to be told."""
        lesson, self.lesson = self.lesson, ""
        return f"{lesson}\n{script}"


@define(eq=False)
class _Lease:
    """A shell that a call uses beside commands.

    Attributes:
        drain: brings the call to its end; None where it ends soon by itself.
        lent: whether the call has its shell.
    """

    drain: Callable[[], None] | None
    lent: bool = False


class Shells:
    """Opens shells when they are needed, and keeps them.

    Args:
        open_loop: starts a shell in the sandbox.
        in_company: whether processes of other users may run. They may have been handed what a shell that ran a
            command writes to, and read along for as long as they live; no such shell is used again.
        end_all: ends every process in the sandbox, and the sandbox with them, where killing the user's did not work.
    """

    def __init__(
        self, open_loop: Callable[[], Loop], in_company: Callable[[], bool], end_all: Callable[[], None]
    ) -> None:
        self._open_loop = open_loop
        self._in_company = in_company
        self._end_all = end_all
        self._turn = threading.Lock()
        self._change = threading.Condition()
        self._idle: list[_Shell] = []
        self._leases: list[_Lease] = []
        self._running: _Shell | None = None
        self._sweeping = False
        self._sweeps = 0
        self._left = False
        self._heard = True
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a command of the user runs."""
        return self._turn.locked()

    def run(self, body: str, take: Take, deadline: float | None) -> int:
        """Run a script that untrusted commands are a part of, and end all that it leaves running.

        Args:
            body: as for :meth:`Loop.call`; it reads nothing.
            take: the same.
            deadline: on the clock of :func:`time.monotonic`; it counts the wait for commands before this one.

        Returns:
            The exit code.

        Raises:
            SandboxTimeoutError: the deadline came. Whatever the script had started is dead.
            SandboxUnavailableError: the shell, the sandbox or what runs it is gone; the same.
        """
        with self._my_turn(deadline):
            shell = self._take_clean()
            self._left = self._heard = True
            with self._change:
                held = "hold=1" if self._leases else ":"
                self._running = shell
            proof = secrets.randbits(128)
            script = shell.taught(_COMMAND.format(held=held, body=body, proof=proof))
            call = shell.loop.call(script, take, deadline, on_silence=lambda: self._wake(shell))
            code = call.finish()
            self._settle(shell, swept=call.told == proof)
        return code

    @contextmanager
    def exclusively(self, deadline: float | None) -> Iterator[None]:
        """A command's turn for something that no shell of these runs; in the end all that the user runs is killed.

        Raises:
            SandboxTimeoutError: the deadline came before the turn.
        """
        with self._my_turn(deadline):
            self._left = self._heard = True
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
            self._leases.append(lease)
        shell = None
        try:
            shell = self._lend(lease)
            yield shell.loop
        finally:
            with self._change:
                self._leases.remove(lease)
                self._change.notify_all()
            if shell is not None:
                self._give_back(shell)

    def close(self) -> None:
        """Let go of every shell."""
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
        for shell in idle:
            shell.loop.close()

    def _wake(self, shell: _Shell) -> None:
        """Have a shell go on that a command may have stopped.

        Raises:
            SandboxUnavailableError: it runs nothing and does not say so: a command has spoiled it.
        """
        self._heard = False
        other = self._open()
        self._heard = True
        idle = 0
        try:
            with suppress(SandboxUnavailableError):  # the one that goes on ends the other
                script = _SIGNAL.format(signal="CONT", pid=shell.pid)
                idle = other.loop.run(script, _nowhere, time.monotonic() + _OPEN_WITHIN)
        finally:
            other.loop.close()
        shell.idle = shell.idle + 1 if idle else 0
        if shell.idle > 1:
            raise SandboxUnavailableError("the shell in the sandbox does not answer")

    def _lend(self, lease: _Lease) -> _Shell:
        """A shell that the end of the command that runs, if one does, will not kill."""
        while True:
            with self._change:
                self._wait(lambda: not self._sweeping, _SETTLED_WITHIN)
                running, sweeps = self._running, self._sweeps
            shell = self._spare(running, sweeps)
            with self._change:
                lease.lent = shell is not None and not self._sweeping and shell.sweeps == self._sweeps
            if shell is not None and lease.lent:
                shell.lent = True
                return shell
            if shell is not None:
                shell.loop.close()

    def _spare(self, running: _Shell | None, sweeps: int) -> _Shell | None:
        """A shell beside the one that runs a command; None where the end of that command has killed it."""
        shell = None
        try:
            shell = self._take()
            if running is None or self._hold_back(running, shell):
                return shell
            shell.loop.close()
            return None
        except BaseException as error:
            if shell is not None:
                shell.loop.close()
            if not isinstance(error, SandboxUnavailableError) or (running is None and sweeps == self._sweeps):
                raise
        if running is not None and not self._has_ended(running, _SETTLED_WITHIN):
            raise SandboxTimeoutError("what else uses the sandbox took too long", _SETTLED_WITHIN)
        return None

    def _hold_back(self, running: _Shell, shell: _Shell) -> bool:
        """Have the command that runs not end *shell* with its own leftovers; False when it has ended."""
        until = time.monotonic() + _END_WITHIN
        while shell.loop.run(_SIGNAL.format(signal="USR1", pid=running.pid), _nowhere, until):
            if self._has_ended(running, _PAUSE):
                return False
        return True

    def _has_ended(self, running: _Shell, within: float) -> bool:
        """Wait at most *within* seconds for a command to end; whether it has."""
        with self._change:
            return self._change.wait_for(lambda: self._running is not running, within)

    def _settle(self, shell: _Shell, *, swept: bool) -> None:
        """After a command: see that nothing of it is left, and that no shell is kept that it may have touched."""
        kept: _Shell | None = shell
        with self._sweep():
            if not swept:
                self._end_leases()
                kept = self._sweep_by(shell)
            self._left = False
        if kept is None:
            raise SandboxUnavailableError("what the command left could only be ended with the sandbox")
        self._keep(kept)

    def _keep(self, shell: _Shell) -> None:
        """Give back the shell that has swept."""
        if self._in_company():
            shell.loop.close()
        shell.sweeps = self._sweeps
        self._give_back(shell)

    def _sweep_by(self, shell: _Shell) -> _Shell | None:
        """Kill whatever else the user runs by *shell*, or by a new one: what still runs may take what *shell* says."""
        try:
            shell.loop.run(shell.taught(_CLEAN), _nowhere, time.monotonic() + _SWEPT_WITHIN)
        except SandboxError:
            return self._sweep_anew()
        return shell

    def _recover(self) -> None:
        """After a failure: kill whatever the user runs, by a new shell, or else all that runs.

        Raises:
            SandboxUnavailableError: what runs the sandbox is gone, or is not heard of.
        """
        shell = None
        with self._sweep():
            self._end_leases()
            if not self._closed:
                shell = self._sweep_anew()
            self._left = False
        if shell is not None:
            self._keep(shell)

    def _sweep_anew(self) -> _Shell | None:
        loop = self._open_loop()
        try:
            return self._ready(loop, first=_SWEEP)
        except SandboxError:
            self._end_all()
            return None

    @contextmanager
    def _sweep(self) -> Iterator[None]:
        """Lend no shell meanwhile, and keep none that was there before."""
        with self._change:
            self._running = None
            self._sweeping = True
            self._change.notify_all()
        try:
            yield
        finally:
            with self._change:
                self._sweeping = False
                self._sweeps += 1
                idle, self._idle = self._idle, []
                self._change.notify_all()
            for shell in idle:
                shell.loop.close()

    def _end_leases(self) -> None:
        """Wait for calls that go on beside the command, or have them take all that is still to come."""
        with self._change:
            lent = [lease for lease in self._leases if lease.lent]
            waited_for = {id(lease) for lease in lent if lease.drain is None}
        for drain in [lease.drain for lease in lent if lease.drain is not None]:
            with suppress(SandboxError):
                drain()
        with self._change, suppress(SandboxTimeoutError):
            self._wait(lambda: waited_for.isdisjoint(map(id, self._leases)), _END_WITHIN)

    def _wait(self, until: Callable[[], bool], seconds: float) -> None:
        if not self._change.wait_for(until, seconds):
            raise SandboxTimeoutError("what else uses the sandbox took too long", seconds)

    @contextmanager
    def _my_turn(self, deadline: float | None) -> Iterator[None]:
        """One command at a time; what it leaves after an error is ended, at the latest before the next."""
        timeout = -1 if deadline is None else max(0.0, min(deadline - time.monotonic(), threading.TIMEOUT_MAX))
        if not self._turn.acquire(timeout=timeout):
            raise SandboxTimeoutError("other commands had the sandbox until the time limit")
        try:
            if self._left:
                self._recover()
            yield
        except BaseException:
            if self._left and self._heard:
                self._recover()
            raise
        finally:
            self._running = None
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

    def _take_clean(self) -> _Shell:
        """A shell that nothing looks into which file calls may have left behind."""
        shell = self._take()
        if not shell.lent:
            return shell
        with self._change:
            alone = self._sweeping = not self._leases
        if not alone:
            shell.loop.close()
            return self._open()
        with self._sweep():
            shell.loop.run(shell.taught(_CLEAN), _nowhere, time.monotonic() + _END_WITHIN)
        shell.sweeps, shell.lent = self._sweeps, False
        return shell

    def _give_back(self, shell: _Shell) -> None:
        with self._change:
            lives = shell.sweeps == self._sweeps and not shell.loop.lost
            keep = lives and not self._closed and len(self._idle) < _KEPT
            if keep:
                self._idle.append(shell)
        if not keep:
            shell.loop.close()

    def _open(self) -> _Shell:
        return self._ready(self._open_loop())

    def _ready(self, loop: Loop, first: str = ":") -> _Shell:
        sweeps = self._sweeps
        printed = bytearray()
        loop.run(f"{first}; {_READY}", lambda _, data: printed.extend(data), time.monotonic() + _OPEN_WITHIN)
        pid, _, limits = printed.decode(errors="replace").partition("\n")
        if not pid.isdecimal():
            loop.close()
            raise SandboxUnavailableError(f"the shell in the sandbox does not work: it said {bytes(printed[:100])!r}")
        return _Shell(loop, int(pid), keeping(limits), sweeps)


def _nowhere(_stream: str, _data: bytes) -> None:
    """Take output that is of no interest."""
