"""A sweep clears away what dead owners and old sessions left, and nothing that is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_kit.errors import InvalidArgumentError, PathNotFoundError, SandboxUnavailableError
from sandbox_kit.sessions.desk import Reaped
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sweep import sweep

from .managing import in_child, managed, states


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def test_what_a_dead_process_held_is_given_back(root: Path) -> None:
    with managed(root) as manager:
        live = manager.open("live")
        assert in_child(lambda: manager.open("lost").write("f", "x")) == 0
        assert states(manager) == {"live": "live", "lost": "live"}
        assert sweep(root) == Reaped(recovered=("lost",))
        assert sweep(root) == Reaped()
        assert states(manager) == {"live": "live", "lost": "hibernated"}
        assert live.is_alive()
        assert manager.open("lost").read("f") == "x"


def test_sessions_that_are_not_open_are_purged_after_their_time(root: Path) -> None:
    with managed(root) as manager:
        live = manager.open("live")
        manager.open("old")
        manager.close("old")
        assert sweep(root) == Reaped()
        assert sweep(root, workspace_ttl=3600) == Reaped()
        assert sweep(root, policy=SandboxPolicy.from_dict({"workspace_ttl": 1e-6})) == Reaped(purged=("old",))
        assert sweep(root, workspace_ttl=1e-6) == Reaped()
        assert live.is_alive()
    assert not (root / "old").exists()


def test_the_policy_of_the_caller_does_not_change(root: Path) -> None:
    managed(root).shutdown()
    policy = SandboxPolicy.from_dict({"workspace_ttl": 5})
    sweep(root, workspace_ttl=7, policy=policy)
    assert policy.snapshot().workspace_ttl == 5


def test_where_no_session_was_opened_nothing_is_made(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(PathNotFoundError, match="no sessions"):
            sweep(place)
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments_and_damage_are_errors(root: Path) -> None:
    managed(root).shutdown()
    with pytest.raises(InvalidArgumentError, match="workspace_ttl"):
        sweep(root, workspace_ttl=-1)
    (root / ".sandbox_kit" / "ledger.sqlite").write_bytes(b"no database at all " * 100)
    with pytest.raises(SandboxUnavailableError, match="damaged"):
        sweep(root)
