"""What the tests of the manager share: sandboxes that tell what is done with them, and a manager made short."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.primitives import MaskSource
from sandbox_kit.sessions.events import SessionEvent
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.values import RuntimeProfile
from sandbox_kit.types import Limits

WITHIN = 30.0


class Watched(LocalSandbox):
    """A local sandbox that tells a factory when it is started and stopped."""

    def __init__(self, factory: WatchedFactory, session: str, workspace: Path) -> None:
        super().__init__(workspace)
        self.factory = factory
        self.session = session

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        self.factory.act("start", self.session)
        super()._start(masks)

    def _stop(self, purge: bool) -> None:
        self.factory.act("stop", self.session)
        super()._stop(purge)


class WatchedFactory:
    """Makes watched sandboxes.

    Attributes:
        log: what was done, in order: ``("start", "id")`` and ``("stop", "id")``.
        failing: what raises, by act and session.
        delay: how long a start takes, in seconds.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self.log: list[tuple[str, str]] = []
        self.failing: dict[tuple[str, str], BaseException] = {}
        self.delay = delay
        self.made: list[tuple[str, RuntimeProfile, Limits]] = []
        self._lock = threading.Lock()

    def __call__(self, session_id: str, profile: RuntimeProfile, limits: Limits, workspace: Path) -> Sandbox:
        self.made.append((session_id, profile, limits))
        return Watched(self, session_id, workspace)

    def act(self, act: str, session: str) -> None:
        if act == "start":
            time.sleep(self.delay)
        with self._lock:
            self.log.append((act, session))
        if (act, session) in self.failing:
            raise self.failing[act, session]

    def count(self, act: str, session: str) -> int:
        return self.log.count((act, session))


def managed(root: Path, *, backend: Any = "local", events: list[SessionEvent] | None = None, **policy: Any) -> Any:
    """Return a manager over *root* that looks after nothing by itself, with *policy* as its values."""
    callback = None if events is None else events.append
    return SessionManager(
        SandboxPolicy.from_dict(policy), workspace_root=root, backend=backend, reap_every=None, on_event=callback
    )


def states(manager: SessionManager) -> dict[str, str]:
    """The state of each session, by id."""
    return {info.id: info.state for info in manager.sessions()}


def kinds(events: list[SessionEvent]) -> list[tuple[str, str | None]]:
    """What happened, and to whom."""
    return [(event.kind, event.session_id) for event in events]


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether *condition* comes true within the time that a loaded machine may take."""
    deadline = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def in_child(act: Callable[[], object]) -> int:
    """Return the exit code of a forked child that does *act*: 0 unless it raised, or returned False."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if act() is not False else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
