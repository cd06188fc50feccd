"""The shells that one user has in one sandbox: opened when needed, kept while idle, and which of them a sweep kills."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from attrs import define

from sandbox_kit.backends.shell.limits import TELL, keeping
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import SandboxClosedError, SandboxTimeoutError, SandboxUnavailableError

__all__ = ["DYING", "SWEEP", "Shell", "Stock", "nowhere"]

SWEEP = "kill -9 -1"
"""Ends every process of the shell's user but the shell itself, at once: a builtin, and nothing is forked past it."""

DYING = r"""
c=0
for p in /proc/[0-9]*; do
	while read -r name value _; do
		case $name in
		State:) state=$value ;;
		Threads:) state=$state$value ;;
		ShdPnd:) case $state:$value in Z1:*) ;; *[13579bdf]??) c=1 ;; esac; break ;;
		esac
	done <$p/status
done 2>/dev/null
"""
"""Leaves 1 in ``c`` while a process that was killed has not ended, which it does when the kernel next lets it run.

Until then SIGKILL is among the signals that are pending for it. Builtins tell, and nothing is forked.
"""

_READY = f"umask 0002; trap hold=1 USR1; {{ echo $$; {TELL}; }} >&8"
_OPEN_WITHIN = 10.0
"""Seconds that opening a shell may take."""

_KEPT = 4
"""How many idle shells are kept."""


@define(eq=False)
class Shell:
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
        """Return *script*, after what the shell has yet to be told."""
        lesson, self.lesson = self.lesson, ""
        return f"{lesson}\n{script}"


class Stock:
    """Opens shells, and keeps those that are at rest.

    Args:
        start: starts a shell in the sandbox.

    Attributes:
        start: the same.
        change: guards all that follows, and is told of changes.
        running: the shell that runs a command.
        sweeping: whether shells are being killed, so that none is to be lent.
        sweeps: how often that has happened.
        closed: whether no more are opened.
    """

    def __init__(self, start: Callable[[], Loop]) -> None:
        self.start = start
        self._idle: list[Shell] = []
        self.change = threading.Condition()
        self.running: Shell | None = None
        self.sweeping = False
        self.sweeps = 0
        self.closed = False

    def take(self) -> Shell:
        """Return an idle shell, or a new one.

        Raises:
            SandboxClosedError: there are to be no more.
        """
        with self.change:
            if self.closed:
                raise SandboxClosedError("the sandbox was stopped")
            while self._idle:
                shell = self._idle.pop()
                if not shell.loop.lost:
                    return shell
        return self.open()

    def open(self) -> Shell:
        """Return a new shell.

        Raises:
            SandboxUnavailableError: none can be started, or what starts does not work.
        """
        return self.ready(self.start())

    def ready(self, loop: Loop, first: str = ":") -> Shell:
        """Prepare a shell that has been started, and that runs *first* before anything else.

        Raises:
            SandboxUnavailableError: it does not work.
            SandboxTimeoutError: it does not answer.
        """
        sweeps = self.sweeps
        printed = bytearray()
        loop.run(f"{first}; {_READY}", lambda _, data: printed.extend(data), time.monotonic() + _OPEN_WITHIN)
        pid, _, limits = printed.decode(errors="replace").partition("\n")
        if not pid.isdecimal():
            loop.close()
            raise SandboxUnavailableError(f"the shell in the sandbox does not work: it said {bytes(printed[:100])!r}")
        return Shell(loop, int(pid), keeping(limits), sweeps)

    def give_back(self, shell: Shell) -> None:
        """Keep *shell*, if it lives and there is room."""
        with self.change:
            lives = shell.sweeps == self.sweeps and not shell.loop.lost
            keep = lives and not self.closed and len(self._idle) < _KEPT
            if keep:
                self._idle.append(shell)
        if not keep:
            shell.loop.close()

    @contextmanager
    def sweep(self) -> Generator[None, None, None]:
        """Have none lent meanwhile, and none kept that was there before."""
        with self.change:
            self.running = None
            self.sweeping = True
            self.change.notify_all()
        try:
            yield
        finally:
            with self.change:
                self.sweeping = False
                self.sweeps += 1
                idle, self._idle = self._idle, []
                self.change.notify_all()
            for shell in idle:
                shell.loop.close()

    def wait(self, until: Callable[[], bool], seconds: float) -> None:
        """Wait for a change; :attr:`change` is held.

        Raises:
            SandboxTimeoutError: it did not come within *seconds*.
        """
        if not self.change.wait_for(until, seconds):
            raise SandboxTimeoutError("what else uses the sandbox took too long", seconds)

    def forget(self) -> None:
        """Keep no shell that was there before: another handle may have killed it."""
        with self.change:
            self.sweeps += 1
            idle, self._idle = self._idle, []
        for shell in idle:
            shell.loop.close()

    def close(self) -> None:
        """Let go of every idle shell; those that come back are let go of, too."""
        with self.change:
            self.closed = True
            idle, self._idle = self._idle, []
        for shell in idle:
            shell.loop.close()


def nowhere(_stream: str, _data: bytes) -> None:
    """Take output that is of no interest."""
