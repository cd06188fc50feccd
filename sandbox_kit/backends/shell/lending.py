"""Shells that are lent to file calls, beside commands whose end kills whatever else their user runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress

from attrs import define

from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.backends.shell.stock import Shell, Stock, nowhere
from sandbox_kit.errors import SandboxError, SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.turns import Turns

__all__ = ["Lending", "signal"]

_SIGNAL = """
kill -{name} {pid}; kids=
[ ! -e /proc/$$/task/$$/children ] || read -r kids </proc/{pid}/task/{pid}/children
[ "$kids" ] || [ ! -e /proc/$$/task/$$/children ]; c=$?
"""
_END_WITHIN = 10.0
"""Seconds that what goes on beside a command may take when that has ended."""

_SETTLED_WITHIN = 40.0
"""Seconds that a command's end may take."""

_PAUSE = 0.005


def signal(name: str, shell: Shell) -> str:
    """Return a script that has another shell heed a signal.

    Its exit code tells whether a command of that runs on then, as far as the system tells.
    """
    return _SIGNAL.format(name=name, pid=shell.pid)


@define(eq=False)
class _Lease:
    """A shell that a call uses beside commands.

    Attributes:
        drain: brings the call to its end; None where it ends soon by itself.
        lent: whether the call has its shell.
    """

    drain: Callable[[], None] | None
    lent: bool = False


class Lending:
    """Lends shells of a stock.

    While one is in use, the shell that runs a command does not kill what else its user runs: it
    only says that it has not, and is told to later. A call that may keep one long does not keep others from their turn.
    """

    def __init__(self, stock: Stock, turns: Turns) -> None:
        self._stock = stock
        self._turns = turns
        self._leases: list[_Lease] = []

    @property
    def any(self) -> bool:
        """Whether a shell is lent, or about to be."""
        return bool(self._leases)

    @contextmanager
    def lease(self, drain: Callable[[], None] | None, within: float | None = None) -> Generator[Loop, None, None]:
        """Lend a shell to the calling thread alone; arguments are those of :meth:`Shells.lease`."""
        lease, stock = _Lease(drain), self._stock
        with ExitStack() as turn:
            turn.enter_context(self._turns.call(time.monotonic() + (within or _SETTLED_WITHIN)))
            with stock.change:
                self._leases.append(lease)
            shell = None
            try:
                shell = self._lend(lease)
                if drain is not None:
                    turn.close()
                yield shell.loop
            finally:
                with stock.change:
                    self._leases.remove(lease)
                    stock.change.notify_all()
                if shell is not None:
                    stock.give_back(shell)

    def end(self) -> None:
        """Wait for calls that go on beside the command, or have them take all that is still to come."""
        stock = self._stock
        with stock.change:
            lent = [lease for lease in self._leases if lease.lent]
            waited_for = {id(lease) for lease in lent if lease.drain is None}
        for drain in [lease.drain for lease in lent if lease.drain is not None]:
            with suppress(SandboxError):
                drain()
        with stock.change, suppress(SandboxTimeoutError):
            stock.wait(lambda: waited_for.isdisjoint(map(id, self._leases)), _END_WITHIN)

    def _lend(self, lease: _Lease) -> Shell:
        """Return a shell that the end of the command that runs, if one does, will not kill."""
        stock = self._stock
        while True:
            with stock.change:
                stock.wait(lambda: not stock.sweeping, _SETTLED_WITHIN)
                running, sweeps = stock.running, stock.sweeps
            shell = self._spare(running, sweeps)
            with stock.change:
                lease.lent = shell is not None and not stock.sweeping and shell.sweeps == stock.sweeps
            if shell is not None and lease.lent:
                shell.lent = True
                return shell
            if shell is not None:
                shell.loop.close()

    def _spare(self, running: Shell | None, sweeps: int) -> Shell | None:
        """Return a shell beside the one that runs a command; None where the end of that command has killed it."""
        shell = None
        try:
            shell = self._stock.take()
            if running is None or self._hold_back(running, shell):
                return shell
            shell.loop.close()
            return None
        except BaseException as error:
            if shell is not None:
                shell.loop.close()
            if not isinstance(error, SandboxUnavailableError) or (running is None and self._was_quiet(sweeps)):
                raise
        if running is not None and not self._has_ended(running, _SETTLED_WITHIN):
            raise SandboxTimeoutError("what else uses the sandbox took too long", _SETTLED_WITHIN)
        return None

    def _was_quiet(self, sweeps: int) -> bool:
        """Whether no sweep has begun since there had been so many."""
        with self._stock.change:
            return not self._stock.sweeping and sweeps == self._stock.sweeps

    def _hold_back(self, running: Shell, shell: Shell) -> bool:
        """Have the command that runs not end *shell* with its own leftovers; False when it has ended."""
        until = time.monotonic() + _END_WITHIN
        while shell.loop.run(signal("USR1", running), nowhere, until):
            if self._has_ended(running, _PAUSE):
                return False
        return True

    def _has_ended(self, running: Shell, within: float) -> bool:
        """Wait at most *within* seconds for a command to end; whether it has."""
        with self._stock.change:
            return self._stock.change.wait_for(lambda: self._stock.running is not running, within)
