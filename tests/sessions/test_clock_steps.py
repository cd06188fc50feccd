"""The system's clock is set forth and back: nobody is hibernated or purged for it that was used just now."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.sessions import clock

from .managing import managed, states

DAY = 86400.0

Step = Callable[[float], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Step:
    """Sets the clock forth, or back, by so many seconds from what it really is."""
    return lambda seconds: monkeypatch.setattr(clock, "now", lambda: time.time() + seconds)


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_a_step_makes_no_session_idle(root: Path, step: Step, seconds: float) -> None:
    with managed(root, idle_timeout=3600, workspace_ttl=3600) as manager:
        box = manager.open("a")
        step(seconds)
        assert manager.reap().hibernated == ()
        assert box.is_alive()


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_a_step_does_not_change_who_was_used_last(root: Path, step: Step, seconds: float) -> None:
    with managed(root, max_sessions=2) as manager:
        manager.open("a").write("f", "x")
        step(seconds)
        manager.open("b").write("f", "x")
        manager.open("c")
        assert states(manager) == {"a": "hibernated", "b": "live", "c": "live"}


def test_a_step_back_purges_nothing_and_takes_no_time_back(root: Path, step: Step) -> None:
    with managed(root, workspace_ttl=3600) as manager:
        manager.open("a")
        manager.close("a")
        used = manager.sessions()[0].last_used
        step(-DAY)
        manager.open("a")
        manager.close("a")
        assert manager.sessions()[0].last_used == used
        assert manager.reap().purged == ()


def test_what_was_used_in_a_time_to_come_is_purged_once_that_is_over(root: Path, step: Step) -> None:
    with managed(root, workspace_ttl=3600) as manager:
        step(DAY)
        manager.open("a")
        manager.close("a")
        step(0)
        assert manager.reap().purged == ()
        step(DAY + 7200)
        assert manager.reap().purged == ("a",)
