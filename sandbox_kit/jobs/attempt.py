"""One item's work: a sandbox of its own, files in, the work, files out, and the sandbox is gone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import CommandTimeoutError, InvalidArgumentError, SandboxClosedError, SandboxTimeoutError
from sandbox_kit.host.aside import Latch, begin
from sandbox_kit.jobs.inputs import put
from sandbox_kit.jobs.outputs import Brought, gather
from sandbox_kit.jobs.result import JobResult, failed
from sandbox_kit.jobs.template import CommandTemplate
from sandbox_kit.spec import SandboxSpec
from sandbox_kit.types import CommandResult

if TYPE_CHECKING:
    from sandbox_kit.jobs.job import Job

__all__ = ["Attempt", "unstarted"]

_DISCARDED_WITHIN = 10.0
"""Seconds that a job which ran over its time waits for its sandbox to be gone."""

_KILLED_WITHIN = 5.0
"""Seconds that a command has, after its time limit, to be killed and to tell what it printed."""

_NEVER = float("inf")

_LEAST = 0.001
"""Seconds that a command has at least, where the time is up."""

_log = logging.getLogger("sandbox_kit")


class Attempt:
    """One item's work, whose sandbox is discarded whatever happens.

    Args:
        job: what is to be done.
        item: what with.
        index: the item's place among the items, from 0.
    """

    def __init__(self, job: Job, item: Any, index: int) -> None:
        self._job = job
        self._item = item
        self._index = index
        self._deadline = _NEVER
        self._sandbox: Sandbox | None = None
        self._over = False
        self._step = "its sandbox was started"
        self._ends_itself = False
        self._ended = Latch()
        self._results: list[JobResult] = []

    def result(self) -> JobResult:
        """Do the work, in this thread, or where there is a time limit in another one, which is left when it is over."""
        timeout = self._job.timeout
        if timeout is None:
            return self._carry_out()
        self._deadline = time.monotonic() + timeout
        begin(self._work_aside)
        try:
            if self._ends_within(timeout):
                return self._results.pop()
        finally:
            self.end()
        over = SandboxTimeoutError(f"the job ran over its limit of {timeout} s while {self._step}", timeout)
        return failed(self._index, over, seconds=timeout)

    def _work_aside(self) -> None:
        try:
            self._results.append(self._carry_out())
        except BaseException as error:
            self._results.append(failed(self._index, error))
        finally:
            self._ended.set()

    def _ends_within(self, timeout: float) -> bool:
        """Wait for the end of the work, a little longer where its command is being killed at its own time limit."""
        return self._ended.wait(timeout) or (self._ends_itself and self._ended.wait(_KILLED_WITHIN))

    def end(self) -> None:
        """Discard the sandbox, whatever uses it; return when it is gone, or some seconds later.

        Raises:
            RuntimeError: no thread can be started.
        """
        self._over = True
        sandbox = self._sandbox
        if sandbox is not None:
            gone = Latch()
            begin(partial(_discard, sandbox, gone))
            gone.wait(_DISCARDED_WITHIN)

    def _carry_out(self) -> JobResult:
        began, value, brought, job = time.monotonic(), None, Brought(), self._job
        try:
            perform = self._performance()
            with self._fresh_sandbox() as sandbox:
                self._step = "its files were put there"
                put(sandbox, job.files, self._item)
                self._step = "its work was done"
                value = perform(sandbox)
                self._step = "its artifacts were fetched"
                brought = gather(sandbox, job.artifacts, job.artifact_limit, self._place())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failed(self._index, error, value=value, seconds=time.monotonic() - began)
        return JobResult(
            self._index,
            value,
            artifacts=brought.artifacts,
            folder=brought.folder,
            skipped=brought.skipped,
            seconds=time.monotonic() - began,
        )

    def _performance(self) -> Callable[[Sandbox], Any]:
        """The work on this item: that of a command is made before anything is started."""
        work = self._job.work
        if isinstance(work, CommandTemplate):
            return partial(self._execute, work.command(self._item))
        return lambda sandbox: work(sandbox, self._item)

    def _execute(self, command: str | tuple[str, ...], sandbox: Sandbox) -> CommandResult:
        left = max(self._deadline - time.monotonic(), _LEAST)
        if left > (sandbox.default_timeout or _NEVER):
            return sandbox.execute(command)
        self._ends_itself = True
        try:
            return sandbox.execute(command, timeout=None if left == _NEVER else left)
        except CommandTimeoutError as error:
            raise CommandTimeoutError(error.result, self._job.timeout) from None
        finally:
            self._ends_itself = False

    def _place(self) -> Path | None:
        """Where the artifacts go."""
        return None if self._job.artifacts_to is None else self._job.artifacts_to / str(self._index)

    @contextmanager
    def _fresh_sandbox(self) -> Iterator[Sandbox]:
        sandbox = unstarted(self._job.spec)
        self._sandbox = sandbox
        try:
            self._go_on()
            sandbox.start()
            self._go_on()
            yield sandbox
        finally:
            _discard(sandbox)
            self._sandbox = None

    def _go_on(self) -> None:
        if self._over:
            raise SandboxClosedError("the job was given up")


def unstarted(spec: SandboxSpec) -> Sandbox:
    """A sandbox that runs commands, with a workspace of its own.

    Raises:
        InvalidArgumentError: *spec* is not of such sandboxes.
        MissingDependencyError, UnsupportedError: as for opening *spec*.
    """
    made = spec.open()
    if not isinstance(made, Sandbox):
        raise InvalidArgumentError(f"spec: backend {spec.backend} runs no commands")
    if not made.temporary:
        raise InvalidArgumentError("spec: leave id and workspace out, each job has a sandbox of its own")
    return made


def _discard(sandbox: Sandbox, gone: Latch | None = None) -> None:
    """Stop *sandbox* and remove its files; what fails is logged. Then set *gone*."""
    try:
        sandbox.stop(purge=True)
    except Exception as error:
        _log.warning("the sandbox of a job could not be removed: %s", error)
    finally:
        if gone is not None:
            gone.set()
