"""A job over many items: handed to an executor a bounded number at once, their results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from sandbox_kit.arguments import check_callable, check_count
from sandbox_kit.errors import InvalidArgumentError, MissingDependencyError
from sandbox_kit.jobs.attempt import unstarted
from sandbox_kit.jobs.job import Job
from sandbox_kit.jobs.result import JobResult, failed
from sandbox_kit.jobs.rooms import room_of
from sandbox_kit.jobs.template import CommandTemplate

__all__ = ["Progress", "map_job"]

Progress = Callable[[int, int | None], object]
T = TypeVar("T")


def map_job(
    job: Job,
    items: Iterable[Any],
    *,
    executor: Executor | None = None,
    window: int = 256,
    progress: Progress | None = None,
) -> list[JobResult]:
    """Do *job* for each of *items*; see :meth:`SandboxSpec.map`."""
    if executor is not None and not isinstance(executor, Executor):
        raise InvalidArgumentError(f"executor: {executor!r} is no concurrent.futures.Executor")
    if check_count(window, "window") == 0:
        raise InvalidArgumentError("window: is at least 1")
    check_callable(progress, "progress")
    with suppress(MissingDependencyError):
        unstarted(job.spec)
    _check_items(job, items)
    with _runner(job, executor) as runner:
        return _Mapped(job, runner, 1 if isinstance(runner, _Here) else window, progress).over(items)


def _check_items(job: Job, items: Iterable[Any]) -> None:
    """Raise where there is no command for one of *items*, if they can be gone through twice."""
    if isinstance(job.work, CommandTemplate) and isinstance(items, Sequence):
        for item in items:
            job.work.command(item)


def _runner(job: Job, given: Executor | None) -> AbstractContextManager[Executor]:
    if given is not None:
        return nullcontext(given)
    return _Here() if job.sandboxes == 1 else ThreadPoolExecutor(job.sandboxes)


class _Here(Executor):
    """Does what is submitted at once, in the calling thread."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class _Mapped:
    """The items that are under way, and the results so far.

    Args:
        window: how many items are handed to the executor at once.
    """

    def __init__(self, job: Job, executor: Executor, window: int, progress: Progress | None) -> None:
        self._job = job
        self._executor = executor
        self._window = window
        self._progress = progress
        self._pending: dict[Future[JobResult], int] = {}
        self._ended: SimpleQueue[Future[JobResult]] = SimpleQueue()
        self._results: dict[int, JobResult] = {}

    def over(self, items: Iterable[Any]) -> list[JobResult]:
        """Return the results for *items*, in their order."""
        total, room = len(items) if isinstance(items, Sized) else None, room_of(self._job.key, self._job.sandboxes)
        try:
            for index, item in enumerate(items):
                self._submit(item, index, total)
                while len(self._pending) >= self._window or not self._ended.empty():
                    self._take_one(total)
            while self._pending:
                self._take_one(total)
        except BaseException:
            for future in self._pending:
                future.cancel()
            room.close()
            raise
        return [self._results[index] for index in range(len(self._results))]

    def _submit(self, item: Any, index: int, total: int | None) -> None:
        try:
            future = self._executor.submit(self._job, item, index)
        except Exception as error:
            self._note(failed(index, error), total)
        else:
            self._pending[future] = index
            future.add_done_callback(self._ended.put)

    def _take_one(self, total: int | None) -> None:
        """Wait until one of those that are under way has ended, and note what came of it."""
        future = self._ended.get()
        self._note(_result(future, self._pending.pop(future)), total)

    def _note(self, result: JobResult, total: int | None) -> None:
        self._results[result.index] = result
        if self._progress is not None:
            self._progress(len(self._results), total)


def _result(future: Future[JobResult], index: int) -> JobResult:
    try:
        error = future.exception()
    except CancelledError as cancelled:
        error = cancelled
    return future.result() if error is None else failed(index, error)
