"""Background processes that a time limit holds for: each is killed when its time is over.

A process may take long to answer: none is asked, or killed, while the mutex is held.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable

from attrs import define, field

from sandbox_kit.contract import Process, is_running
from sandbox_kit.host.aside import begin

__all__ = ["Deadlines"]

logger = logging.getLogger("sandbox_kit")

_LOOK = 1.0
"""How often processes that ended by themselves are looked for, in seconds."""

_END_WITHIN = 5.0


@define(eq=False)
class _Due:
    """A process, when its time is over by the monotonic clock, and what is said of it then."""

    process: weakref.ReferenceType[Process]
    at: float
    message: str
    _is_silent: bool = field(default=False, init=False)

    def is_open(self) -> bool:
        """Whether somebody has the process, and it runs, or does not tell; that is logged once."""
        process = self.process()
        try:
            return process is not None and is_running(process)
        except Exception as error:
            if not self._is_silent:
                logger.warning("a background process does not tell whether it runs: %s", error)
            self._is_silent = True
            return True

    def kill_if_open(self) -> None:
        process = self.process()
        if process is None or not self.is_open():
            return
        logger.warning("%s", self.message)
        try:
            process.kill()
        except Exception as error:
            logger.warning("a background process could not be killed: %s", error)


class Deadlines:
    """Kills processes that run for too long, by one thread that is there while any may."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._due: list[_Due] = []
        self._changed = threading.Event()
        self._looking = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, process: Process, seconds: float, about: str) -> None:
        """Kill *process* in *seconds*, unless it has ended by then or nobody has it any more.

        Args:
            about: whose it is, for the log.
        """
        message = f"{about}: a background process ran over the execute_timeout of {seconds} s, and is killed"
        with self._mutex:
            self._due.append(_Due(weakref.ref(process), time.monotonic() + seconds, message))
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="sandbox_kit-deadlines", daemon=True)
                thread.start()
                self._thread = thread
        self._changed.set()

    def end(self) -> None:
        """Hold nothing to its time any more; wait for the thread, but not for long."""
        with self._mutex:
            self._due.clear()
            thread = self._thread
        self._changed.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_WITHIN)

    def _serve(self) -> None:
        while (pause := self._pause()) is not None:
            self._changed.wait(pause)
            self._changed.clear()
            for each in self._over():
                _apart(each.kill_if_open)
            if self._looking.acquire(blocking=False):
                _apart(self._look)

    def _look(self) -> None:
        """Drop those that ended by themselves; one look at a time, as a process may take long to tell."""
        try:
            with self._mutex:
                known = [*self._due]
            ended = [each for each in known if not each.is_open()]
            with self._mutex:
                self._due = [each for each in self._due if each not in ended]
        finally:
            self._looking.release()
        if ended:
            self._changed.set()

    def _pause(self) -> float | None:
        """How long to wait, in seconds; None, and the thread is none any more, where nothing is due."""
        with self._mutex:
            if not self._due:
                self._thread = None
                return None
            return max(0.0, min(_LOOK, min(each.at for each in self._due) - time.monotonic()))

    def _over(self) -> list[_Due]:
        with self._mutex:
            now = time.monotonic()
            over = [each for each in self._due if each.at <= now]
            self._due = [each for each in self._due if each.at > now]
        return over


def _apart(work: Callable[[], None]) -> None:
    """Do *work* in a thread of its own, where there can be one more."""
    try:
        begin(work)
    except RuntimeError:
        work()
