"""A sweep clears away what dead owners and old sessions left, and nothing that is in use."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sandbox_kit.errors import InvalidArgumentError, PathNotFoundError, SandboxUnavailableError
from sandbox_kit.host.unfinished import new_name
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.reaper import Reaped
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


def make_unknown(root: Path, *ids: str) -> None:
    for id in ids:
        (root / id / "workspace").mkdir(parents=True)
        (root / id / "workspace" / "f").write_text(id)


def test_workspaces_that_the_ledger_does_not_know_are_told(root: Path) -> None:
    with managed(root) as manager:
        manager.open("known")
        make_unknown(root, "lost", "stray")
        (root / "foreign").mkdir()
        (root / "no id" / "workspace").mkdir(parents=True)
        assert manager.reap() == Reaped()
        assert manager.reap(unknown=True) == Reaped(unknown=("lost", "stray"))
        assert sweep(root) == Reaped(unknown=("lost", "stray"))
        assert sorted(states(manager)) == ["known"]
        assert manager.open("lost").read("f") == "lost"
        assert sweep(root) == Reaped(unknown=("stray",))


def test_unknown_workspaces_are_purged_once_nothing_changed_in_them_for_long_enough(root: Path) -> None:
    managed(root).shutdown()
    make_unknown(root, "old", "young")
    time.sleep(0.5)
    (root / "young" / "workspace" / "f").write_text("changed")
    assert sweep(root, workspace_ttl=3600) == Reaped(unknown=("old", "young"))
    assert sweep(root, workspace_ttl=0.4) == Reaped(purged=("old",), unknown=("young",))
    assert sorted(path.name for path in root.iterdir()) == [".sandbox_kit", "young"]
    assert (root / "young" / "workspace" / "f").read_text() == "changed"


def test_an_unknown_workspace_of_any_depth_is_looked_at_to_its_end(root: Path) -> None:
    managed(root).shutdown()
    make_unknown(root, "old", "young")
    young = deep(root / "young" / "workspace", 60)
    os.close(deep(root / "old" / "workspace", 60))
    time.sleep(0.5)
    os.close(os.open("fresh", os.O_WRONLY | os.O_CREAT, dir_fd=young))
    os.close(young)
    assert sweep(root, workspace_ttl=0.4) == Reaped(purged=("old",), unknown=("young",))


def deep(top: Path, depth: int) -> int:
    """Make directories in each other, beyond what a path can name; return a descriptor of the last."""
    name = 200 * "d"
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        above, at = at, os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(above)
    return at


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell what is open")
def test_an_unknown_workspace_stays_for_as_long_as_a_process_has_something_in_it_open(root: Path) -> None:
    managed(root).shutdown()
    make_unknown(root, "stray", "stray2")
    with (root / "stray" / "workspace" / "f").open():
        time.sleep(0.1)
        assert sweep(root, workspace_ttl=0.05) == Reaped(purged=("stray2",), unknown=("stray",))
    assert sweep(root, workspace_ttl=0.05) == Reaped(purged=("stray",))


def test_an_unfinished_file_counts_as_a_change(root: Path) -> None:
    managed(root).shutdown()
    make_unknown(root, "stray")
    unfinished = root / "stray" / "workspace" / new_name()
    unfinished.touch()
    time.sleep(0.5)
    unfinished.write_text("more")
    assert sweep(root, workspace_ttl=0.4) == Reaped(unknown=("stray",))


def test_an_unknown_workspace_that_is_opened_or_changed_meanwhile_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with managed(root, workspace_ttl=1e-6) as manager, managed(root) as another:
        make_unknown(root, "opened", "changed")
        time.sleep(0.1)
        claim = Ledger.claim_unknown

        def late(self: Ledger, session: str, owner: Owner, *, now: float) -> bool:
            if session == "opened":
                another.open(session)
            answer = claim(self, session, owner, now=now)
            os.utime(root / session / "workspace", (now + 60, now + 60))
            return answer

        monkeypatch.setattr(Ledger, "claim_unknown", late)
        assert manager.reap(unknown=True) == Reaped(unknown=("changed", "opened"))
        assert states(manager) == {"opened": "live"}
        assert (root / "changed" / "workspace" / "f").read_text() == "changed"


def test_links_in_the_place_of_a_workspace_are_told_and_stay(root: Path, tmp_path: Path) -> None:
    managed(root).shutdown()
    make_unknown(tmp_path, "outside")
    (root / "link").mkdir()
    (root / "link" / "workspace").symlink_to(tmp_path / "outside" / "workspace")
    assert sweep(root, workspace_ttl=1e-6).unknown == ("link",)
    assert (tmp_path / "outside" / "workspace" / "f").exists()
