"""SandboxPool: sandboxes that are started before somebody asks for one."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from types import TracebackType
from typing import NoReturn, Self

from sandbox_kit.arguments import check_count, check_timeout
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import (
    InvalidArgumentError,
    SandboxClosedError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from sandbox_kit.host.aside import begin
from sandbox_kit.host.forks import renew_in_child
from sandbox_kit.pooled import PooledSandbox
from sandbox_kit.spec import SandboxSpec
from sandbox_kit.warm import discard, discard_all, started

__all__ = ["SandboxPool"]

_STARTED_WITHIN = 120.0
"""Seconds that closing waits for starts that are under way."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds after a start that failed until the next one that nobody waits for; doubled each time."""

_log = logging.getLogger("sandbox_kit")


class SandboxPool:
    """Keeps sandboxes ready that are all alike. One that was handed out never returns; another one is started.

    ``with pool:`` or :meth:`start` begins to fill it, in the background. Any number of threads may use it. A
    forked child cannot: what its parent has ready is the parent's.

    Args:
        spec: what each of them is. It names neither an id nor a workspace: they are to be several.
        min_idle: how many are kept ready.
        max_total: how many there may be at once, those in use and those that are being started included;
            None for no limit.
        starters: how many are started at once.

    Raises:
        InvalidArgumentError: a number makes no sense; at the start, the spec is not of temporary sandboxes.
    """

    def __init__(
        self, spec: SandboxSpec, *, min_idle: int = 1, max_total: int | None = None, starters: int = 2
    ) -> None:
        if not isinstance(spec, SandboxSpec):
            raise InvalidArgumentError(f"spec: is a SandboxSpec, not {type(spec).__name__}")
        self.spec = spec
        self.min_idle = check_count(min_idle, "min_idle")
        self.max_total = None if max_total is None else check_count(max_total, "max_total")
        self._starters = check_count(starters, "starters")
        if not self._starters or self.max_total == 0 or min_idle > (self.max_total or min_idle):
            raise InvalidArgumentError("starters and max_total are at least 1, and max_total no less than min_idle")
        self._parents: list[Sandbox] = []
        self._tickets = count()
        self._reset("is not started: use 'with pool:' or call start()")
        renew_in_child(self)

    def _reset(self, closed: str) -> None:
        self._closed: str | None = closed
        self._change = threading.Condition()
        self._idle: deque[Sandbox] = deque()
        self._waiting: list[int] = []
        self._failed: dict[int, BaseException] = {}
        self._used: set[int] = set()
        self._starting = 0
        self._pause = 0.0
        self._resting = False
        self._over = threading.Event()

    def renew(self) -> None:
        """Be closed, in a forked child; what the parent has ready is not ended by dropping it there."""
        self._parents += self._idle
        self._reset("is that of the process that started it, not of one forked from it: start() makes another one")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pool is for one process: pickle its spec, and make another pool of that")

    def __repr__(self) -> str:
        return f"SandboxPool({self.spec.backend!r}, min_idle={self.min_idle})"

    @property
    def idle(self) -> int:
        """How many are ready at the moment."""
        return len(self._idle)

    def start(self) -> Self:
        """Begin to fill it, and return at once; starting twice is fine.

        Raises:
            InvalidArgumentError: the spec is not of temporary sandboxes, or an option of it is refused.
            MissingDependencyError, UnsupportedError: as for opening the spec.
        """
        self._check_temporary()
        with self._change:
            if self._closed is not None:
                self._closed, self._over = None, threading.Event()
                self._resting = False
                self._fill()
        return self

    def _check_temporary(self) -> None:
        made = self.spec.open()
        if not isinstance(made, Sandbox):
            raise InvalidArgumentError(f"spec: backend {self.spec.backend} runs no commands")
        if not made.temporary:
            raise InvalidArgumentError("spec: leave id and workspace out, each sandbox of a pool has its own")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def acquire(self, timeout: float | None = 60.0) -> Sandbox:
        """Take a sandbox, one that lives and that nobody ever used. Use it in ``with``, which discards it.

        Args:
            timeout: how long to wait for one, in seconds; None for as long as it takes.

        Raises:
            SandboxClosedError: the pool is not started, or is closed while this waits.
            SandboxTimeoutError: none was ready in time.
            SandboxUnavailableError: the one that this waited for failed to start; that error is the cause.
        """
        check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        ticket = next(self._tickets)
        while (found := self._take_living(ticket, deadline, timeout)) is None:
            pass
        return found

    def _take_living(self, ticket: int, deadline: float | None, timeout: float | None) -> PooledSandbox | None:
        """Take a sandbox; None where that has died, and is being removed."""
        sandbox = self._take(ticket, deadline, timeout)
        with ExitStack() as giving_up:
            giving_up.callback(self._let_go, ticket)
            if sandbox.is_alive():
                handed_out = PooledSandbox(sandbox, partial(self._let_go, ticket))
                giving_up.pop_all()
                return handed_out
        _log.info("a sandbox of the pool has died: %r", sandbox)
        with suppress(RuntimeError):  # no more threads: then dropping it removes it
            begin(partial(discard, sandbox))
        return None

    def close(self) -> None:
        """Discard all that are ready, and those that are being started; who waits for one is told.

        Sandboxes in use are their users'. Closing twice is fine.
        """
        with self._change:
            if self._closed is not None:
                return
            self._closed = "is closed: use 'with pool:' or call start()"
            idle, self._idle = list(self._idle), deque()
            self._over.set()
            self._change.notify_all()
        discard_all(idle, self._starters)
        with self._change:
            self._change.wait_for(lambda: not self._starting, _STARTED_WITHIN)

    def _take(self, ticket: int, deadline: float | None, timeout: float | None) -> Sandbox:
        """The sandbox that has been ready for longest, at the turn of *ticket*, which then stands for its use."""
        with self._change, self._in_line(ticket):
            while self._closed is None and not self._is_turn_of(ticket):
                if (failure := self._failed.get(ticket)) is not None:
                    raise SandboxUnavailableError(f"the pool cannot start a sandbox: {failure}") from failure
                left = threading.TIMEOUT_MAX if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise SandboxTimeoutError("no sandbox of the pool was ready in time", timeout)
                self._change.wait(min(left, threading.TIMEOUT_MAX))
            if self._closed is not None:
                raise SandboxClosedError(f"{self!r} {self._closed}")
            self._used.add(ticket)
            return self._idle.popleft()

    def _is_turn_of(self, ticket: int) -> bool:
        return bool(self._idle) and self._waiting[:1] == [ticket]

    @contextmanager
    def _in_line(self, ticket: int) -> Iterator[None]:
        """Wait behind those with earlier tickets, also where this one comes back for another sandbox."""
        insort(self._waiting, ticket)
        try:
            self._fill()
            yield
        finally:
            if self._failed.pop(ticket, None) is None:
                self._waiting.remove(ticket)
            self._refill()

    def _let_go(self, ticket: int) -> None:
        """Make room: a sandbox is gone. The garbage collector may call this amid anything, so it takes no lock."""
        self._used.discard(ticket)
        with suppress(RuntimeError):  # no more threads; the next call sees to it
            begin(self._refill)

    def _refill(self) -> None:
        with self._change:
            self._fill()
            self._change.notify_all()

    def _fill(self) -> None:
        """Start what is missing, with the lock held: what is waited for, and what is to be ready."""
        there = len(self._idle) + self._starting
        missing = len(self._waiting) + (0 if self._resting else self.min_idle) - there
        room = missing if self.max_total is None else self.max_total - len(self._used) - there
        more = min(missing, room, self._starters - self._starting)
        for _ in range(more if self._closed is None else 0):
            self._starting += 1
            try:
                begin(self._start_one)
            except RuntimeError as error:
                self._note_failure(error)

    def _start_one(self) -> None:
        try:
            sandbox = started(self.spec)
        except BaseException as error:
            with self._change:
                self._note_failure(error)
            return
        if not self._added(sandbox):
            discard(sandbox)
            with self._change:
                self._starting -= 1
                self._change.notify_all()

    def _added(self, sandbox: Sandbox) -> bool:
        """Have *sandbox* ready, unless the pool was closed meanwhile."""
        with self._change:
            if self._closed is not None:
                return False
            self._idle.append(sandbox)
            self._starting -= 1
            self._pause = 0.0
            self._refill()
            return True

    def _note_failure(self, error: BaseException) -> None:
        """Tell the first in line, unless other starts are under way for all; rest from those that nobody waits for."""
        self._starting -= 1
        if len(self._waiting) > len(self._idle) + self._starting:
            self._failed[self._waiting.pop(0)] = error
        self._change.notify_all()
        self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
        _log.warning("a sandbox of the pool could not be started: %s", error)
        if not self._resting:
            with suppress(RuntimeError):
                begin(partial(_rest, weakref.WeakMethod(self._go_on), self._over, self._pause))
                self._resting = True

    def _go_on(self) -> None:
        with self._change:
            self._resting = False
            self._refill()


def _rest(go_on: weakref.WeakMethod[Callable[[], None]], over: threading.Event, pause: float) -> None:
    """Call *go_on*, if what it belongs to still is there, after a *pause* in seconds."""
    if not over.wait(pause):
        method = go_on()
        if method is not None:
            method()
