"""What runs in one sandbox between its start and its stop."""

from __future__ import annotations

import logging
import threading
import time
from weakref import WeakSet

from sandbox_kit.backends.local.job import Job
from sandbox_kit.backends.local.tree import END_WITHIN
from sandbox_kit.backends.local.usage import usage_of
from sandbox_kit.errors import SandboxClosedError
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.types import Usage

__all__ = ["Running"]

_KILL_AGAIN = 0.1
_LOOK_AGAIN = 0.002

logger = logging.getLogger("sandbox_kit")


class Running:
    """The jobs of one sandbox, those of run and of spawn. Ended, it takes no more.

    The lock is reentrant: the garbage collector may end a sandbox within any call. A job that
    nobody serves any more, as Ctrl-C broke off its end, is not kept alive here.
    """

    def __init__(self) -> None:
        self._jobs: WeakSet[Job] = WeakSet()
        self._ended = False
        self._lock = threading.RLock()
        abandon_in_child(self)

    def admit(self, job: Job) -> None:
        """Take in *job*, before it is started.

        Raises:
            SandboxClosedError: the sandbox is stopped.
        """
        with self._lock:
            self.check()
            self._jobs.add(job)

    def leave(self, job: Job) -> None:
        """Let go of *job*, when its tree is dead; one that is not there is no error."""
        with self._lock:
            self._jobs.discard(job)

    def check(self) -> None:
        """Check that nobody has stopped the sandbox.

        Raises:
            SandboxClosedError: somebody has.
        """
        if self._ended:
            raise SandboxClosedError("the sandbox was stopped")

    def usage(self) -> Usage:
        """What the trees of all jobs use together; None in each field where the system cannot tell."""
        return usage_of(set().union(*(job.processes() for job in self._snapshot())))

    def end(self) -> None:
        """Kill every tree, and wait until all are dead, but for one that this thread serves: that ends next."""
        with self._lock:
            self._ended = True
        deadline = time.monotonic() + END_WITHIN
        while (jobs := self._served_elsewhere()) and time.monotonic() < deadline:
            for job in jobs:
                job.kill()
            self._await_one_of(jobs)
        if jobs:
            logger.warning("%d commands of a stopped sandbox could not be ended in %s s", len(jobs), END_WITHIN)

    def _served_elsewhere(self) -> set[Job]:
        jobs = self._snapshot()
        here = {job for job in jobs if job.server == threading.get_ident()}
        for job in here:
            job.kill()
        return jobs - here

    def _await_one_of(self, jobs: set[Job]) -> None:
        give_up = time.monotonic() + _KILL_AGAIN
        while jobs <= self._snapshot() and time.monotonic() < give_up:
            time.sleep(_LOOK_AGAIN)

    def _snapshot(self) -> set[Job]:
        with self._lock:
            return set(self._jobs)

    def abandon(self) -> None:
        """Start afresh in a forked child: the jobs are the parent's."""
        self._jobs = WeakSet()
        self._lock = threading.RLock()
