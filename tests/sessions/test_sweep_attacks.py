"""A sweep takes nothing that changed or is in use, and a deadline holds whatever else happens to processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.contract import Process, is_running
from sandbox_kit.errors import SandboxTimeoutError
from sandbox_kit.primitives import allow
from sandbox_kit.sessions.archive import WorkspaceArchive
from sandbox_kit.sessions.deadlines import Deadlines
from sandbox_kit.sessions.entry import Call, SessionEntry
from sandbox_kit.sessions.ledger import Ledger
from sandbox_kit.sessions.liveness import Owner
from sandbox_kit.sessions.recovery import Recovery
from sandbox_kit.sweep import sweep

from .managing import in_child, managed

TTL = 0.3
WITHIN = 30.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    managed(tmp_path / "root").shutdown()
    return tmp_path / "root"


def unknown_workspace(root: Path, name: str = "stray") -> Path:
    workspace = root / name / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "f").write_text("old")
    return workspace


def test_what_changed_beside_an_unknown_workspace_is_not_purged(root: Path) -> None:
    unknown_workspace(root)
    time.sleep(2 * TTL)
    (root / "stray" / "fresh").write_text("new")
    assert sweep(root, workspace_ttl=TTL).purged == ()
    assert (root / "stray" / "fresh").exists()


def test_an_unknown_workspace_that_a_file_is_being_written_into_is_not_purged(root: Path) -> None:
    workspace = unknown_workspace(root)
    with LocalBackend(workspace)._open_write("big", operations=("write",), authorize=allow) as out:
        out.write(b"first" * 100_000)
        time.sleep(2 * TTL)
        out.write(b"second" * 100_000)
        out.flush()
        purged = sweep(root, workspace_ttl=TTL).purged
        assert purged == ()


def test_live_sessions_survive_a_sweep_under_a_new_ledger(root: Path) -> None:
    with managed(root) as manager:
        live = manager.open("live")
        live.write("f", "x")
        aside = root.parent / "aside"
        aside.mkdir()
        try:
            for file in (root / ".sandbox_kit").glob("ledger*"):
                file.rename(aside / file.name)
            time.sleep(2 * TTL)
            assert sweep(root, workspace_ttl=TTL).purged == ()
            assert (root / "live" / "workspace" / "f").exists()
        finally:
            for file in (root / ".sandbox_kit").glob("ledger*"):
                file.unlink()
            for file in aside.iterdir():
                file.rename(root / ".sandbox_kit" / file.name)


def test_a_sweep_that_is_broken_off_at_its_second_look_leaves_the_workspace(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = unknown_workspace(root)
    looks: list[str] = []

    def look(self: Recovery, session: str, since: float) -> bool:
        looks.append(session)
        if len(looks) == 2:
            raise KeyboardInterrupt
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Recovery, "_has_changed", look)
        with pytest.raises(KeyboardInterrupt):
            sweep(root, workspace_ttl=TTL)
    (workspace / "fresh").write_text("new")
    with managed(root) as manager:
        assert manager.open("stray").read("fresh") == "new"


def test_a_sweep_that_is_broken_off_as_it_claims_a_workspace_leaves_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = unknown_workspace(root)
    claim = Ledger.claim_unknown

    def broken_off(self: Ledger, session: str, owner: Owner, *, now: float) -> bool:
        assert claim(self, session, owner, now=now)
        raise KeyboardInterrupt

    time.sleep(2 * TTL)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "claim_unknown", broken_off)
        with pytest.raises(KeyboardInterrupt):
            sweep(root, workspace_ttl=TTL)
    assert sweep(root).unknown == ("stray",)
    assert (workspace / "f").read_text() == "old"


@pytest.mark.parametrize("then", ["open", "sweep"])
def test_a_sweep_that_is_killed_at_its_second_look_has_nobody_remove_the_workspace(
    root: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    workspace = unknown_workspace(root)
    looks: list[str] = []

    def look(self: Recovery, session: str, since: float) -> bool:
        looks.append(session)
        if len(looks) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    monkeypatch.setattr(Recovery, "_has_changed", look)
    assert in_child(lambda: sweep(root, workspace_ttl=TTL)) == -signal.SIGKILL
    (workspace / "fresh").write_text("new")
    if then == "sweep":
        assert sweep(root).unknown == ("stray",)
    with managed(root) as manager:
        assert manager.open("stray").read("fresh") == "new"


def test_a_session_that_is_opened_meanwhile_is_not_told_as_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = WorkspaceArchive.sessions
    with managed(root) as manager:

        def sessions(self: WorkspaceArchive) -> list[str]:
            manager.open("new")
            return listed(self)

        monkeypatch.setattr(WorkspaceArchive, "sessions", sessions)
        assert sweep(root).unknown == ()


class Running(Process):
    """A process that runs until it is killed, and may fail to tell so."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.killed = threading.Event()
        self.asked = threading.Event()
        self.may_tell = threading.Event()
        self.may_tell.set()

    @property
    def pid(self) -> int:
        return 0

    def poll(self) -> int | None:
        self.asked.set()
        if self.failure is not None:
            raise self.failure
        self.may_tell.wait(WITHIN)
        return 137 if self.killed.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        return 137

    def kill(self) -> None:
        self.killed.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_process_that_cannot_be_asked_does_not_end_the_deadlines_of_others() -> None:
    deadlines = Deadlines()
    silent, other = Running(SandboxTimeoutError("no answer", 1.0)), Running()
    deadlines.add(silent, 60, "silent")
    time.sleep(0.1)
    deadlines.add(other, 0.01, "other")
    killed = other.killed.wait(5)
    deadlines.end()
    assert killed


def test_a_process_that_is_slow_to_tell_holds_up_neither_the_start_nor_the_end_of_others() -> None:
    deadlines = Deadlines()
    slow, other = Running(), Running()
    slow.may_tell.clear()
    try:
        deadlines.add(slow, 60, "slow")
        assert slow.asked.wait(WITHIN)
        adding = threading.Thread(target=deadlines.add, args=(other, 0.01, "other"))
        adding.start()
        adding.join(WITHIN / 3)
        assert not adding.is_alive()
        assert other.killed.wait(WITHIN / 3)
    finally:
        slow.may_tell.set()
        deadlines.end()


def test_what_is_slow_to_tell_whether_it_runs_holds_up_no_call_of_its_session() -> None:
    entry, slow = SessionEntry("a"), Running()
    slow.may_tell.clear()
    entry.watch(slow, is_running)
    asking = threading.Thread(target=entry.is_spare, args=(0.0,))
    asking.start()
    try:
        assert slow.asked.wait(WITHIN)
        calling = threading.Thread(target=one_call, args=(entry,))
        calling.start()
        calling.join(WITHIN / 3)
        assert not calling.is_alive()
    finally:
        slow.may_tell.set()
        asking.join(WITHIN)


def one_call(entry: SessionEntry) -> None:
    call = Call()
    with entry.locked():
        entry.enter(call)
    entry.leave(call)
