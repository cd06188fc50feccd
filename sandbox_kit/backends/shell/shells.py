"""The shells that stay, of one user in one sandbox: one runs a command, others what goes on beside it.

A user is a kill domain. When a command ends, its shell kills whatever else that user runs, the
other shells too; while one of those is in use it only says that it has not, and is told to later.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress

from sandbox_kit.backends.shell.lending import Lending, signal
from sandbox_kit.backends.shell.loop import Loop, Take
from sandbox_kit.backends.shell.stock import DYING, SWEEP, Shell, Stock, nowhere
from sandbox_kit.cancelling import NEVER, Cancellation
from sandbox_kit.errors import SandboxError, SandboxUnavailableError, UnsupportedError
from sandbox_kit.host.turns import Turns, TurnTimeoutError

__all__ = ["Shells"]

_CLEAN = f"{SWEEP}; limits || exit"
"""A sweep, and the end of a shell whose limits were lowered: it would hold all later commands to them."""

_COMMAND = f'{{held}}\n{{body}}\nif [ "$hold" ]; then s=1; else {_CLEAN}; s={{proof}}; fi; hold='

_ANSWER_WITHIN = 10.0
"""Seconds that a shell may take to say what it has done."""

_SWEEPERS = 3
"""How many shells are tried, one after the other, to kill what a user runs."""

_SWEPT_WITHIN = 2.0
"""Seconds that a shell which another may disturb has for a sweep."""

_DEAD_WITHIN = 5.0
"""Seconds that what was killed may take to end."""

_PAUSE = 0.002
"""Seconds between two looks at whether it has."""


class _Own(threading.local):
    """The turns of the calling thread: what it calls from within one, another would keep from its own.

    Attributes:
        turns: who has each, by its key.
    """

    def __init__(self) -> None:
        self.turns: dict[str, Shells] = {}


_own = _Own()


class Shells:
    """Runs commands in shells that it opens when they are needed, and keeps.

    Args:
        open_loop: starts a shell in the sandbox.
        in_company: whether processes of other users may run. They may have been handed what a shell that ran a
            command writes to, and read along for as long as they live; no such shell is used again.
        end_all: ends every process in the sandbox, and the sandbox with them, where killing the user's did not work.
        key: what every handle on the user's processes calls them: handles take turns.
    """

    def __init__(
        self, open_loop: Callable[[], Loop], in_company: Callable[[], bool], end_all: Callable[[], None], key: str
    ) -> None:
        self._stock = Stock(open_loop)
        self._key = key
        self._turns = Turns(key, self._stock.forget)
        self._lending = Lending(self._stock, self._turns)
        self._in_company = in_company
        self._end_all = end_all
        self._turn = threading.Lock()
        self._left = False
        self._heard = True

    @property
    def busy(self) -> bool:
        """Whether a command of the user runs."""
        return self._turn.locked()

    def run(
        self,
        body: str,
        take: Take,
        deadline: float | None,
        *,
        listening: bool = False,
        cancellation: Cancellation = NEVER,
    ) -> int:
        """Run a script that untrusted commands are a part of, and end all that it leaves running.

        Args:
            body: as for :meth:`Loop.call`; it reads nothing.
            take: the same.
            deadline: on the clock of :func:`time.monotonic`; it counts the wait for commands before this one.
            listening: whether *take* may use the sandbox. The shell is then held back from the start: that the command
                has ended is heard of only when *take* returns.
            cancellation: looked at while it waits, also for its turn; whatever the script had started is dead then.

        Returns:
            The exit code.

        Raises:
            TurnTimeoutError: the deadline came before the turn.
            SandboxTimeoutError: the deadline came. Whatever the script had started is dead.
            SandboxUnavailableError: the shell, the sandbox or what runs it is gone; the same.
            UnsupportedError: the calling thread takes the output of a command whose end it would wait for.
        """
        with self._my_turn(deadline, cancellation):
            shell = self._take_clean()
            self._left = self._heard = True
            with self._stock.change:
                held = "hold=1" if listening or self._lending.any else ":"
                self._stock.running = None if listening else shell
            proof = secrets.randbits(128)
            script = shell.taught(_COMMAND.format(held=held, body=body, proof=proof))
            call = shell.loop.call(
                script, take, deadline, on_silence=lambda: self._wake(shell), cancellation=cancellation
            )
            code = call.finish()
            self._settle(shell, swept=call.told == proof)
        return code

    @contextmanager
    def exclusively(self, deadline: float | None, cancellation: Cancellation = NEVER) -> Generator[None, None, None]:
        """A command's turn for something that no shell of these runs; in the end all that the user runs is killed.

        Raises:
            TurnTimeoutError: the deadline came before the turn.
            UnsupportedError: as :meth:`run`.
        """
        with self._my_turn(deadline, cancellation):
            self._left = self._heard = True
            try:
                yield
            except BaseException:
                self._settle(self._stock.take(), swept=False, dead=True)
                raise
            self._settle(self._stock.take(), swept=False)

    def lease(
        self, drain: Callable[[], None] | None = None, within: float | None = None
    ) -> AbstractContextManager[Loop]:
        """A shell for the calling thread alone, for scripts that run nothing untrusted.

        Args:
            drain: called when a command has ended and needs this shell's end: takes all that is still to come.
            within: how long to wait for the turn of another handle, in seconds.

        Raises:
            UnsupportedError: the calling thread takes the output of another handle's command.
        """
        if _own.turns.get(self._key, self) is not self:
            raise UnsupportedError(
                "on_output of a command cannot use another handle on the same sandbox as the same user"
            )
        return self._lending.lease(drain, within)

    def close(self) -> None:
        """Let go of every shell."""
        self._stock.close()

    def _wake(self, shell: Shell) -> None:
        """Have a shell go on that a command may have stopped.

        Raises:
            SandboxUnavailableError: it runs nothing and does not say so: a command has spoiled it.
        """
        self._heard = False
        other = self._stock.open()
        self._heard = True
        idle = 0
        try:
            with suppress(SandboxUnavailableError):  # the one that goes on ends the other
                idle = other.loop.run(signal("CONT", shell), nowhere, time.monotonic() + _ANSWER_WITHIN)
        finally:
            other.loop.close()
        shell.idle = shell.idle + 1 if idle else 0
        if shell.idle > 1:
            raise SandboxUnavailableError("the shell in the sandbox does not answer")

    def _settle(self, shell: Shell, *, swept: bool, dead: bool = False) -> None:
        """After a command: see that nothing of it is left, and that no shell is kept that it may have touched.

        Args:
            swept: whether *shell* has killed what the command left.
            dead: whether to wait until that is dead.
        """
        kept: Shell | None = shell
        with self._stock.sweep():
            if not swept:
                self._lending.end()
                kept = self._sweep_by(shell)
            self._left = False
        if kept is None:
            raise SandboxUnavailableError("what the command left could only be ended with the sandbox")
        if dead:
            _await_death(kept)
        self._keep(kept)

    def _keep(self, shell: Shell) -> None:
        """Give back the shell that has swept."""
        if self._in_company():
            shell.loop.close()
        shell.sweeps = self._stock.sweeps
        self._stock.give_back(shell)

    def _sweep_by(self, shell: Shell) -> Shell | None:
        """Kill whatever else the user runs by *shell*, or by a new one: what still runs may take what *shell* says."""
        try:
            shell.loop.run(shell.taught(_CLEAN), nowhere, time.monotonic() + _SWEPT_WITHIN)
        except SandboxError:
            return self._sweep_anew()
        return shell

    def _recover(self) -> None:
        """After a failure: kill whatever the user runs, by a new shell, or else all that runs.

        Raises:
            SandboxUnavailableError: what runs the sandbox is gone, or is not heard of.
        """
        shell = None
        with self._stock.sweep():
            self._lending.end()
            if not self._stock.closed:
                shell = self._sweep_anew()
            self._left = False
        if shell is not None:
            _await_death(shell)
            self._keep(shell)

    def _sweep_anew(self) -> Shell | None:
        """Kill whatever the user runs by a new shell; by another where a shell that was given up kills that first."""
        for _ in range(_SWEEPERS):
            self._heard = False
            loop = self._stock.start()
            self._heard = True
            try:
                return self._stock.ready(loop, first=SWEEP)
            except SandboxUnavailableError:
                continue
            except SandboxError:
                break
        self._end_all()
        return None

    @contextmanager
    def _my_turn(self, deadline: float | None, cancellation: Cancellation) -> Generator[None, None, None]:
        """One command at a time; what it leaves after an error is ended, at the latest before the next."""
        if self._key in _own.turns:
            raise UnsupportedError(
                "on_output of a command cannot execute another of the same user, which waits for the end of the first: "
                "execute it when the first has returned, or use spawn()"
            )
        self._take_turn(deadline, cancellation)
        try:
            _own.turns[self._key] = self
            with self._turns.call(deadline, command=True, check=cancellation.check):
                yield from self._clean_turn()
        finally:
            _own.turns.pop(self._key, None)
            self._turn.release()

    def _take_turn(self, deadline: float | None, cancellation: Cancellation) -> None:
        while True:
            left = None if deadline is None else max(0.0, min(deadline - time.monotonic(), threading.TIMEOUT_MAX))
            pause = cancellation.pause(left)
            if self._turn.acquire(timeout=-1 if pause is None else pause):
                return
            if pause == left:
                raise TurnTimeoutError("other commands had the sandbox until the time limit: this one was not begun")

    def _clean_turn(self) -> Generator[None, None, None]:
        try:
            if self._left:
                self._recover()
            yield
        except BaseException:
            if self._left and self._heard:
                self._recover()
            raise
        finally:
            self._stock.running = None

    def _take_clean(self) -> Shell:
        """A shell that nothing looks into which file calls may have left behind."""
        shell = self._stock.take()
        if not shell.lent:
            return shell
        with self._stock.change:
            alone = self._stock.sweeping = not self._lending.any
        if not alone:
            shell.loop.close()
            return self._stock.open()
        with self._stock.sweep():
            shell.loop.run(shell.taught(_CLEAN), nowhere, time.monotonic() + _ANSWER_WITHIN)
        shell.sweeps, shell.lent = self._stock.sweeps, False
        return shell


def _await_death(shell: Shell) -> None:
    """Wait, at most for a while, until what *shell* has killed runs no more."""
    until = time.monotonic() + _DEAD_WITHIN
    with suppress(SandboxError):
        while shell.loop.run(shell.taught(DYING), nowhere, time.monotonic() + _ANSWER_WITHIN):
            if time.monotonic() > until:
                return
            time.sleep(_PAUSE)
