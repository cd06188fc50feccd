"""The threads that calls run in, and what becomes of a call whose coroutine is cancelled."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from sandbox_kit.arguments import check_count
from sandbox_kit.cancelling import Cancellation, holding
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.host.aside import begin
from sandbox_kit.host.forks import renew_in_child

__all__ = ["Threads", "begun", "outcome"]

T = TypeVar("T")

_ENDED_WITHIN = 60.0
"""Seconds that a cancelled call may take to end; then it is left to itself."""

_log = logging.getLogger("sandbox_kit")

_no_call = threading.Event()
_no_call.set()

_call_over: ContextVar[threading.Event] = ContextVar("sandbox_kit_call_over", default=_no_call)
"""Whether the call is over from which the current context comes, such as that of a coroutine which answers a guard."""


class Threads:
    """Runs the calls of one backend, a number of them at once; there is no thread before the first call.

    It belongs to no event loop: any may use it, from any thread. A forked child has threads of its own.

    Args:
        limit: how many calls go on at once; further ones wait for their turn, first come, first served. One that comes
            from within a call, which may wait for it, goes on beside them.

    Raises:
        InvalidArgumentError: *limit* is no positive integer.
    """

    def __init__(self, limit: int) -> None:
        if not check_count(limit, "threads"):
            raise InvalidArgumentError("threads: at least one is needed")
        self.limit = limit
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Be without threads, in a forked child; those of the parent are not there."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: set[Future[Any]] = set()

    async def act(self, work: Callable[[], T], *, beside: bool = False, drop: Callable[[T], object] | None = None) -> T:
        """Return what *work* returns. Cancelled, it ends before the CancelledError leaves, or never begins.

        A command that runs in it is killed; anything else goes on to its own end.

        Args:
            beside: in a thread beside those that are counted: what must not wait for commands to end.
            drop: takes a result that nobody gets, as the caller was cancelled.
        """
        return await self._call(work, beside, drop, awaited=True)

    async def look(
        self, work: Callable[[], T], *, beside: bool = False, drop: Callable[[T], object] | None = None
    ) -> T:
        """As :meth:`act`, of what changes nothing: cancelled, it is left to itself at once, and its result dropped."""
        return await self._call(work, beside, drop, awaited=False)

    async def _call(
        self, work: Callable[[], T], beside: bool, drop: Callable[[T], object] | None, *, awaited: bool
    ) -> T:
        cancellation = Cancellation()
        held = partial(_held, work, cancellation)
        beside = beside or not _call_over.get().is_set()
        future = self._counted(begun(held)) if beside else self._submit(partial(copy_context().run, held))
        following = outcome(future)
        try:
            await asyncio.wait([following])
        except BaseException as error:
            cancellation.cancel()
            if not future.cancel():
                ending: Future[Any] = future if drop is None else begun(partial(_dispose, future, drop))
                if awaited and isinstance(error, asyncio.CancelledError):
                    await _settled([ending])
            raise
        return following.result()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.limit, "sandbox_kit")
            return self._counted(self._pool.submit(work))

    def _counted(self, future: Future[T]) -> Future[T]:
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    async def close(self) -> None:
        """Wait for the calls under way, at most for a minute, and end the threads. The next call begins new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
            under_way = list(self._under_way)
        try:
            await _settled(under_way)
        finally:
            if pool is not None:
                pool.shutdown(wait=all(call.done() for call in under_way))


def begun(work: Callable[[], T]) -> Future[T]:
    """Begin *work* in a thread of its own, with the caller's context; it does not keep the process from its exit."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    begin(partial(copy_context().run, _fulfil, future, work))
    return future


def _held(work: Callable[[], T], cancellation: Cancellation) -> T:
    """Do *work* in a context of its own, which tells whether it is over."""
    over = threading.Event()
    _call_over.set(over)
    try:
        with holding(cancellation):
            return work()
    finally:
        over.set()


def _fulfil(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def _dispose(future: Future[T], drop: Callable[[T], object]) -> None:
    """Wait for a result that nobody wants, and drop it; an error is nobody's, either."""
    with suppress(BaseException):
        drop(future.result())


def outcome(future: Future[T]) -> asyncio.Future[T]:
    """Return *future* for the running loop; an error that nobody asks for is not complained of."""
    following = asyncio.wrap_future(future)
    following.add_done_callback(lambda done: done.cancelled() or done.exception())
    return following


async def _settled(futures: list[Future[Any]]) -> None:
    """Wait for the end of all *futures*, at most for a minute, whoever cancels that."""
    if not futures:
        return
    waiting = outcome(begun(partial(wait, futures, _ENDED_WITHIN)))
    cancelled = None
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError as error:
            cancelled = error
    if waiting.result().not_done:
        _log.warning("a call did not end within %s s and was left to itself", _ENDED_WITHIN)
    if cancelled is not None:
        raise cancelled
