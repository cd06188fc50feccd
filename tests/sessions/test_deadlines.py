"""A background process is held to the policy's execute_timeout, and to nothing where there is none."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import time
from pathlib import Path

import pytest

from sandbox_kit.sessions.deadlines import Deadlines
from sandbox_kit.sessions.policy import apply_policy_update

from .managing import WITHIN, eventually, managed

KILLED = 128 + signal.SIGKILL


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "sandbox_kit-deadlines"]


def test_a_background_process_is_killed_at_the_ceiling(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with managed(root, execute_timeout=0.3) as manager:
        box = manager.open("a")
        begun = time.monotonic()
        process = box.spawn("echo begun; sleep 600 & wait")
        assert process.wait(WITHIN) == KILLED
        assert time.monotonic() - begun >= 0.3
        assert list(process.stdout) == ["begun\n"]
        assert "session a: a background process ran over the execute_timeout of 0.3 s" in caplog.text
        assert box.execute("echo x").stdout == "x\n"
    assert eventually(lambda: not threads())


def test_one_that_ends_in_time_ends_as_it_does(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with managed(root, execute_timeout=600) as manager:
        box = manager.open("a")
        processes = [box.spawn(f"exit {number}") for number in range(5)]
        assert [process.wait(WITHIN) for process in processes] == [*range(5)]
        assert eventually(lambda: not threads())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_each_has_the_ceiling_that_held_when_it_was_started(root: Path) -> None:
    with managed(root) as manager:
        box = manager.open("a")
        free = box.spawn("sleep 600")
        apply_policy_update(manager.policy, {"execute_timeout": 600})
        late = box.spawn("sleep 600")
        apply_policy_update(manager.policy, {"execute_timeout": 0.2})
        soon = box.spawn("sleep 600")
        assert soon.wait(WITHIN) == KILLED
        assert (free.poll(), late.poll()) == (None, None)


def test_a_process_that_nobody_has_is_held_to_nothing(root: Path) -> None:
    with managed(root, execute_timeout=600) as manager:
        process = manager.open("a").spawn("sleep 600")
        assert threads()
        del process
        gc.collect()
        assert eventually(lambda: not threads())


def test_shutdown_leaves_no_thread_behind(root: Path) -> None:
    with managed(root, execute_timeout=600) as manager:
        process = manager.open("a").spawn("sleep 600")
        assert threads()
    assert not threads()
    assert process.wait(WITHIN) != 0
    Deadlines().end()


def test_a_thread_that_cannot_be_started_is_started_with_the_next_process(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with managed(root) as manager:
        box, deadlines = manager.open("a"), Deadlines()
        first, second = box.spawn("sleep 600"), box.spawn("sleep 600")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            with pytest.raises(RuntimeError, match="new thread"):
                deadlines.add(first, 0.1, "first")
        deadlines.add(second, 0.1, "second")
        assert [each.wait(WITHIN) for each in (first, second)] == [KILLED, KILLED]
        deadlines.end()


def test_one_that_cannot_be_killed_is_logged_and_keeps_no_other_alive(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with managed(root, execute_timeout=0.3) as manager:
        box = manager.open("a")
        stuck, other = box.spawn("sleep 600"), box.spawn("sleep 600")
        with monkeypatch.context() as patch:
            patch.setattr(stuck, "kill", lambda: (_ for _ in ()).throw(OSError("stuck")))
            assert other.wait(WITHIN) == KILLED
            assert eventually(lambda: not threads())
        assert "could not be killed: stuck" in caplog.text
        assert stuck.poll() is None
