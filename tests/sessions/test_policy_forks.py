"""A child that is forked while a thread of its parent changes the policy can go on changing its own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import PolicyOverrides, SandboxPolicy, apply_policy_update
from sandbox_kit.host.forks import ForkedFreeLock
from sandbox_kit.sessions import overrides, policy

WITHIN = 60

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


class WatchedLock(ForkedFreeLock):
    """A lock that waits inside for *go_on*, once it has told that it is held."""

    held = threading.Event()
    go_on = threading.Event()

    def __enter__(self) -> None:
        super().__enter__()
        self.held.set()
        assert self.go_on.wait(WITHIN)


def exit_code_of(child: Callable[[], bool]) -> int:
    """Run *child* in a forked process that is killed if it does not end."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(WITHIN)
        os._exit(0 if child() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("by", ["call", "file"])
def test_a_child_finds_every_lock_free(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WatchedLock, "held", threading.Event())
    monkeypatch.setattr(WatchedLock, "go_on", threading.Event())
    monkeypatch.setattr(policy if by == "call" else overrides, "ForkedFreeLock", WatchedLock)
    ceilings = SandboxPolicy()
    source = PolicyOverrides(ceilings, tmp_path / "o.json")
    (tmp_path / "o.json").write_text('{"cpus": 2}')

    def change() -> list[str]:
        return apply_policy_update(ceilings, {"cpus": 2}) if by == "call" else source.refresh()

    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(change()))
    thread.start()
    assert WatchedLock.held.wait(WITHIN)

    def child() -> bool:
        WatchedLock.go_on.set()
        return change() == ["cpus"] and ceilings.snapshot().cpus == 2

    code = exit_code_of(child)
    WatchedLock.go_on.set()
    thread.join(WITHIN)
    assert (code, answers) == (0, [["cpus"]])
