"""Sessions by id: one sandbox each, files that stay, handles that are given back."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.errors import (
    InvalidArgumentError,
    PathNotFoundError,
    PermissionDeniedError,
    PolicyError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.sessions.events import SessionEvent
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy, apply_policy_update
from sandbox_kit.types import Usage

from .managing import WatchedFactory, kinds, managed, states

BAD_IDS = ["../x", "/abs", "a/../b", "..%2Fx", "", ".", "..", "a\0b", "x" * 300, "CON", "a\nb", ".sandbox_kit", 3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def test_a_session_is_a_directory_of_its_own_that_outlives_its_sandbox(root: Path) -> None:
    with managed(root) as manager:
        with manager.open("a") as box:
            assert box.id == "a"
            assert box.work_dir == str((root / "a" / "workspace").resolve())
            box.write("notes/x", "kept")
            assert box.execute("cat notes/x").stdout == "kept"
        assert states(manager) == {"a": "live"}
        manager.close("a")
        assert states(manager) == {"a": "hibernated"}
        assert manager.open("a").read("notes/x") == "kept"
    assert [(root / name).stat().st_mode & 0o777 for name in (".sandbox_kit", "a", "a/workspace")] == [0o700] * 3


def test_events_tell_what_happened_in_order(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    events: list[SessionEvent] = []
    with caplog.at_level(logging.INFO, "sandbox_kit"), managed(root, events=events, max_sessions=1) as manager:
        with manager.open("a"):
            pass
        with manager.open("b"), pytest.raises(Exception, match="max_sessions"):
            manager.open("c")
        manager.open("a")
        manager.close("a", purge=True)
    assert kinds(events) == [
        ("opened", "a"),
        ("hibernated", "a"),
        ("opened", "b"),
        ("refused", "c"),
        ("hibernated", "b"),
        ("woken", "a"),
        ("purged", "a"),
    ]
    assert [event.detail for event in events if event.kind == "refused"] == ["max_sessions"]
    assert "session a: woken" in caplog.text


def test_what_is_told_travels(root: Path) -> None:
    with managed(root) as manager:
        manager.open("a", tenant="x")
        records = [SessionEvent("opened", "a", "detail"), *manager.sessions(), manager.reap()]
        for record in records:
            assert pickle.loads(pickle.dumps(record)) == record == copy.deepcopy(record)


def test_a_callback_may_ask_the_manager_and_may_fail(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[dict[str, str]] = []

    def callback(event: SessionEvent) -> None:
        worker = threading.Thread(target=lambda: seen.append(states(manager)))
        worker.start()
        worker.join(20)
        raise ValueError(event.kind)

    manager = SessionManager(SandboxPolicy(), workspace_root=root, reap_every=None, on_event=callback)
    with manager:
        assert manager.open("a").execute("echo x").stdout == "x\n"
    assert seen[0] == {"a": "live"}
    assert "on_event failed" in caplog.text


@pytest.mark.parametrize("bad", BAD_IDS)
def test_a_malformed_id_is_refused_before_anything_happens(root: Path, bad: Any) -> None:
    with managed(root) as manager:
        before = sorted(root.rglob("*"))
        for call in (manager.open, manager.close, manager.usage, lambda id: manager.close(id, purge=True)):
            with pytest.raises(InvalidArgumentError, match="session_id"):
                call(bad)
        assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("name", ["a", "a/workspace"])
def test_a_link_in_the_place_of_a_sessions_directory_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    with managed(root) as manager:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(SandboxConflictError, match="link"):
            manager.open("a")
        assert states(manager) == {}
        manager.close("a", purge=True)
        assert not os.path.lexists(root / "a")
    assert list((root / ".sandbox_kit" / "trash").iterdir()) == []
    assert (tmp_path / "elsewhere").is_dir()


def test_many_callers_at_once_get_one_sandbox(root: Path) -> None:
    factory = WatchedFactory(delay=0.2)
    with managed(root, backend=factory) as manager:
        start = threading.Barrier(20)

        def work(number: int) -> str:
            start.wait()
            with manager.open("s") as box:
                return str(box.execute(f"echo {number}").stdout)

        with ThreadPoolExecutor(20) as pool:
            assert sorted(pool.map(work, range(20))) == sorted(f"{number}\n" for number in range(20))
        assert factory.log == [("start", "s")]


def test_opening_and_closing_at_once_never_makes_two_sandboxes(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory) as manager:

        def work(number: int) -> None:
            for _ in range(10):
                if number % 2:
                    manager.open("s")
                else:
                    manager.close("s")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
    acts = [act for act, _ in factory.log]
    assert acts == ["start", "stop"] * (len(acts) // 2)


def test_leaving_with_returns_the_handle_and_start_borrows_again(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory) as manager:
        with manager.open("a") as box:
            box.write("f", "x")
        with pytest.raises(SandboxClosedError, match=r"session a .*start\(\)"):
            box.read("f")
        assert not box.is_alive()
        with box:
            assert box.read("f") == "x"
        assert factory.log == [("start", "a")]


def test_stop_is_close_for_every_handle(root: Path) -> None:
    with managed(root) as manager:
        box, other = manager.open("a"), manager.open("a")
        box.write("f", "x")
        box.stop()
        assert states(manager) == {"a": "hibernated"}
        for handle in (box, other):
            with pytest.raises(SandboxClosedError):
                handle.execute("true")
        other.start()
        other.stop(purge=True)
        assert states(manager) == {}
        assert not (root / "a").exists()


def test_a_handle_that_is_dropped_is_returned(root: Path) -> None:
    with managed(root, max_sessions=1) as manager:
        manager.open("a").write("f", "x")
        gc.collect()
        assert manager.open("b").exists(".")
        assert states(manager) == {"a": "hibernated", "b": "live"}


def test_purge_takes_nothing_but_the_session(root: Path) -> None:
    with managed(root) as manager:
        for id in ("a", "ab", "a.b"):
            manager.open(id).write("f", id)
        (root / "foreign").mkdir()
        manager.close("a", purge=True)
        manager.close("a", purge=True)
        manager.close("never-there", purge=True)
        assert sorted(states(manager)) == ["a.b", "ab"]
        assert manager.open("ab").read("f") == "ab"
        with pytest.raises(PathNotFoundError):
            manager.open("a").read("f")
    assert sorted(path.name for path in root.iterdir()) == [".sandbox_kit", "a", "a.b", "ab", "foreign"]


def test_a_hibernated_session_can_be_purged_with_what_nobody_may_enter(root: Path) -> None:
    with managed(root) as manager:
        manager.open("a").execute("mkdir -p d/e && touch d/e/f && chmod 0 d/e d")
        manager.close("a")
        manager.close("a", purge=True)
        assert states(manager) == {}
    assert not (root / "a").exists()
    assert list((root / ".sandbox_kit" / "trash").iterdir()) == []


def test_files_without_an_entry_in_the_ledger_are_taken_up(root: Path) -> None:
    workspace = root / "old" / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "f").write_text("before")
    with managed(root) as manager:
        assert manager.open("old").read("f") == "before"
        (root / "older" / "workspace").mkdir(parents=True)
        manager.close("older", purge=True)
        assert not (root / "older").exists()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_failed_start_leaves_nothing_and_raises_its_own_error(root: Path, error: BaseException) -> None:
    factory = WatchedFactory()
    factory.failing["start", "a"] = error
    with managed(root, backend=factory, max_sessions=1) as manager:
        with pytest.raises(type(error)) as caught:
            manager.open("a")
        assert caught.value is error
        assert states(manager) == {}
        assert factory.log == [("start", "a"), ("stop", "a")]
        assert not (root / "a").exists()
        manager.open("b")
        manager.close("b")
        factory.failing.clear()
        assert manager.open("a").is_alive()


def test_a_slot_stays_taken_until_its_sandbox_is_known_to_be_gone(root: Path) -> None:
    factory = WatchedFactory()
    factory.failing["start", "a"] = factory.failing["stop", "a"] = OSError("stuck")
    with managed(root, backend=factory, max_sessions=1) as manager:
        with pytest.raises(OSError, match="stuck"):
            manager.open("a")
        with pytest.raises(Exception, match="max_sessions"):
            manager.open("b")
        factory.failing.clear()
        manager.reap()
        assert manager.open("b").is_alive()


def test_a_sandbox_that_does_not_stop_stays_open(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory) as manager:
        box = manager.open("a")
        factory.failing["stop", "a"] = OSError("stuck")
        with pytest.raises(OSError, match="stuck"):
            manager.close("a")
        assert states(manager) == {"a": "live"}
        factory.failing.clear()
        assert box.start().execute("echo x").stdout == "x\n"


def test_a_sandbox_that_died_by_itself_is_made_anew(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory) as manager:
        box = manager.open("a")
        shutil.rmtree(root / "a")
        assert not box.is_alive()
        with pytest.raises(SandboxUnavailableError):
            box.write("f", "x")
        manager.open("a").write("f", "x")
        assert box.read("f") == "x"
        assert factory.count("start", "a") == 2


def test_a_file_timeout_outlives_hibernation(root: Path) -> None:
    with managed(root, idle_timeout=1e-6) as manager:
        box = manager.open("a")
        assert box.file_timeout == 30
        box.file_timeout = 7
        manager.reap()
        box.exists("f")
        assert manager.open("a").file_timeout == 7
        assert manager._service.table.entry("a").sandbox.file_timeout == 7


def test_the_rules_hold_in_every_session(root: Path) -> None:
    rules = PermissionRuleset("allow", rules=[PermissionRule("**/.env", "deny")])
    with SessionManager(SandboxPolicy(), workspace_root=root, ruleset=rules, reap_every=None) as manager:
        for id in ("a", "b"):
            with manager.open(id) as box, pytest.raises(PermissionDeniedError):
                box.write(".env", "x")


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ({"work_dir": "/work"}, ["work_dir"]),
        ({"prewarm": 2, "container_ttl": 60}, ["prewarm", "container_ttl"]),
        ({"persist_containers": True}, ["persist_containers"]),
        ({"runtimes": {"py": "python:3.12"}}, ["runtimes.py.image"]),
        ({"runtimes": {"x": {"network_mode": "host", "cpus": 1}}}, ["runtimes.x.network_mode"]),
        (
            {"runtimes": {"a": {"oci_runtime": "runsc"}, "b": {"sandbox_uid": 0}}},
            ["runtimes.a.oci_runtime", "runtimes.b.sandbox_uid"],
        ),
    ],
)
def test_what_a_local_sandbox_cannot_hold_is_refused_by_name(
    root: Path, policy: dict[str, Any], names: list[str]
) -> None:
    named = re.escape(", ".join(names))
    with pytest.raises(UnsupportedError, match=f"cannot hold {named}: "):
        managed(root, **policy)
    assert not root.exists()
    with managed(root, backend=WatchedFactory(), **policy) as manager:
        assert manager.open("a").is_alive()


def test_what_an_update_asks_of_a_local_sandbox_is_refused_at_the_next_start(root: Path) -> None:
    with managed(root, mem_limit="512m") as manager:
        with pytest.raises(UnsupportedError, match="mem_limit"):
            manager.open("a")
        apply_policy_update(manager.policy, {"mem_limit": None, "container_ttl": 60})
        with pytest.raises(UnsupportedError, match="cannot hold container_ttl"):
            manager.open("a")
        apply_policy_update(manager.policy, {"container_ttl": None})
        assert manager.open("a").is_alive()


def test_what_is_at_its_default_is_no_field_that_a_local_sandbox_lacks(root: Path) -> None:
    runtimes = {"plain": {}, "offline": {"network_mode": "none"}}
    with managed(root, runtimes=runtimes, prewarm=0, persist_containers=False, work_dir=None) as manager:
        assert manager.open("a", runtime="plain").is_alive()


def test_a_factory_gets_the_profile_and_the_limits_that_hold(root: Path) -> None:
    factory = WatchedFactory()
    runtimes = {"small": {"image": "alpine", "mem_limit": "64m"}, "large": "debian"}
    with managed(root, backend=factory, runtimes=runtimes, default_runtime="large", pids_limit=9) as manager:
        manager.open("a", runtime="small")
        manager.open("b")
        apply_policy_update(manager.policy, {"default_runtime": "small"})
        manager.close("b")
        manager.open("b")
        assert [(id, profile.image) for id, profile, _ in factory.made] == [
            ("a", "alpine"),
            ("b", "debian"),
            ("b", "debian"),
        ]
        assert [limits.mem_limit for _, _, limits in factory.made] == [64 * 2**20, None, None]
        assert [info.runtime for info in manager.sessions()] == ["small", "large"]
        with pytest.raises(SandboxConflictError, match="runtime"):
            manager.open("a", runtime="large")
        with pytest.raises(InvalidArgumentError, match="missing"):
            manager.open("c", runtime="missing")


def test_what_a_factory_makes_must_be_a_sandbox(root: Path) -> None:
    with managed(root, backend=lambda **_: "nothing") as manager:
        with pytest.raises(InvalidArgumentError, match="made a str"):
            manager.open("a")
        assert states(manager) == {}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"backend": "no-such"}, "backend"),
        ({"backend": 3}, "backend"),
        ({"reap_every": 0}, "reap_every"),
        ({"on_event": 3}, "on_event"),
        ({"ruleset": "secrets"}, "ruleset"),
        ({"commands": "x"}, "commands"),
        ({"ask": "x"}, "ask"),
        ({"workspace_root": ""}, "workspace_root"),
        ({"workspace_root": None}, "workspace_root"),
    ],
)
def test_bad_arguments_are_refused_by_name(root: Path, options: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        SessionManager(SandboxPolicy(), **{"workspace_root": root, **options})
    with pytest.raises(InvalidArgumentError, match="policy"):
        SessionManager({}, workspace_root=root)  # type: ignore[arg-type]


def test_the_root_may_be_the_policys(root: Path, tmp_path: Path) -> None:
    policy = SandboxPolicy.from_dict({"workspace_root": str(root)})
    with SessionManager(policy, reap_every=None) as manager:
        manager.open("a")
    assert (root / "a" / "workspace").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxUnavailableError, match="workspace root"):
        SessionManager(policy, workspace_root=tmp_path / "file")


@pytest.mark.parametrize("tenant", ["", "x" * 300, "a\nb", 3])
def test_a_malformed_tenant_is_refused(root: Path, tenant: Any) -> None:
    with managed(root) as manager, pytest.raises(InvalidArgumentError, match="tenant"):
        manager.open("a", tenant=tenant)


def test_a_session_belongs_to_the_tenant_that_opened_it_first(root: Path) -> None:
    with managed(root) as manager:
        manager.open("a", tenant="x")
        assert manager.open("a").is_alive()
        with pytest.raises(SandboxConflictError, match="tenant"):
            manager.open("a", tenant="y")
        assert [info.tenant for info in manager.sessions()] == ["x"]


def test_shutdown_stops_everything_and_keeps_files(root: Path) -> None:
    manager = managed(root)
    box = manager.open("a")
    box.write("f", "x")
    process = box.spawn("sleep 600")
    manager.shutdown()
    manager.shutdown()
    assert process.wait(20) != 0
    for call in (lambda: box.read("f"), lambda: manager.open("b"), box.start, manager.reap):
        with pytest.raises(SandboxClosedError):
            call()
    with managed(root) as another:
        assert states(another) == {"a": "hibernated"}
        assert another.open("a").read("f") == "x"
    assert list((root / ".sandbox_kit" / "owners").iterdir()) == []


def test_shutdown_stops_the_others_when_one_fails(root: Path) -> None:
    factory = WatchedFactory()
    manager = managed(root, backend=factory)
    handles = [manager.open(id) for id in ("a", "b", "c")]
    factory.failing["stop", "b"] = OSError("stuck")
    with pytest.raises(OSError, match="stuck"):
        manager.shutdown()
    assert [factory.count("stop", id) > 0 for id in ("a", "b", "c")] == [True] * 3
    manager.shutdown()
    factory.failing.clear()
    with managed(root, backend=factory) as another:
        assert another.reap().recovered == ("b",)
        assert set(states(another).values()) == {"hibernated"}
    assert len(handles) == 3


def test_usage_is_told_on_request(root: Path) -> None:
    with managed(root) as manager:
        assert manager.usage("a") == Usage()
        box = manager.open("a")
        with box.spawn("sleep 600"):
            assert (manager.usage("a").pids or 0) > 0
        manager.close("a")
        assert manager.usage("a") == Usage()


def test_the_overrides_file_holds_from_the_next_open(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = tmp_path / "overrides.json"
    monkeypatch.setenv("SANDBOX_KIT_POLICY_OVERRIDES", str(overrides))
    events: list[SessionEvent] = []
    with managed(root, events=events) as manager:
        box = manager.open("a")
        box.write("f", "12345")
        overrides.write_text('{"max_read_bytes": 4}')
        assert box.read("f") == "12345"
        manager.open("b")
        with pytest.raises(Exception, match="4"):
            box.read("f")
    assert [event.detail for event in events if event.kind == "policy_changed"] == ["max_read_bytes"]
    inside = root / "a" / "workspace" / "overrides.json"
    monkeypatch.setenv("SANDBOX_KIT_POLICY_OVERRIDES", os.fspath(inside))
    with pytest.raises(PolicyError):
        managed(root)
