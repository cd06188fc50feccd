"""Ceilings and lifetimes: who makes room, who is refused, and who is never disturbed."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox_kit.errors import LimitExceededError, ReadLimitError, SessionLimitError
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy, apply_policy_update
from sandbox_kit.types import Usage

from .managing import WITHIN, WatchedFactory, eventually, managed, states

AT_ONCE = 1e-6


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def use(manager: SessionManager, *ids: str) -> None:
    """Use sessions, one after another, and return them."""
    for id in ids:
        with manager.open(id) as box:
            box.write("f", id)


def test_the_least_recently_used_session_makes_room(root: Path) -> None:
    with managed(root, max_sessions=2) as manager:
        use(manager, "a", "b", "a", "c")
        assert states(manager) == {"a": "live", "b": "hibernated", "c": "live"}
        assert manager.open("b").read("f") == "b"
        assert states(manager) == {"a": "hibernated", "b": "live", "c": "live"}


def test_a_borrowed_session_does_not_make_room(root: Path) -> None:
    with managed(root, max_sessions=1) as manager:
        with manager.open("a") as box:
            with pytest.raises(SessionLimitError, match="max_sessions") as caught:
                manager.open("b")
            assert caught.value.limit == 1
            assert box.execute("echo x").stdout == "x\n"
        assert sorted(states(manager)) == ["a"]
        assert manager.open("b").is_alive()


def test_a_session_that_runs_something_does_not_make_room(root: Path) -> None:
    with managed(root, max_sessions=1) as manager:
        with manager.open("a") as box:
            process = box.spawn("sleep 600")
        with pytest.raises(SessionLimitError):
            manager.open("b")
        process.kill()
        process.wait(WITHIN)
        assert manager.open("b").is_alive()


def test_one_that_cannot_hibernate_leaves_it_to_the_next(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory, max_sessions=2) as manager:
        use(manager, "a", "b")
        factory.failing["stop", "a"] = OSError("stuck")
        assert manager.open("c").is_alive()
        assert states(manager) == {"a": "live", "b": "hibernated", "c": "live"}
        assert "session a could not hibernate: stuck" in caplog.text
        factory.failing.clear()


def test_a_session_makes_room_only_after_it_was_idle_long_enough(root: Path) -> None:
    with managed(root, max_sessions=1, evict_idle_after=3600) as manager:
        use(manager, "a")
        with pytest.raises(SessionLimitError):
            manager.open("b")
        apply_policy_update(manager.policy, {"evict_idle_after": 0})
        assert manager.open("b").is_alive()


def test_hibernated_sessions_count_as_open(root: Path) -> None:
    with managed(root, max_sessions=1, max_open_sessions=2) as manager:
        use(manager, "a", "b")
        with pytest.raises(SessionLimitError, match="max_open_sessions"):
            manager.open("c")
        assert states(manager) == {"a": "hibernated", "b": "live"}
        manager.close("a", purge=True)
        assert manager.open("c").is_alive()


def test_a_tenant_has_a_ceiling_of_its_own(root: Path) -> None:
    with managed(root, max_sessions_per_tenant=1) as manager:
        manager.open("a", tenant="x")
        manager.open("b", tenant="y")
        manager.open("c")
        manager.close("a")
        with pytest.raises(SessionLimitError, match="max_sessions_per_tenant"):
            manager.open("d", tenant="x")
        assert manager.open("a", tenant="x").is_alive()


def test_ceilings_hold_from_the_next_call(root: Path) -> None:
    with managed(root, max_sessions=1) as manager:
        first = manager.open("a")
        apply_policy_update(manager.policy, {"max_sessions": 2})
        second = manager.open("b")
        apply_policy_update(manager.policy, {"max_sessions": 1})
        with pytest.raises(SessionLimitError):
            manager.open("c")
        assert first.is_alive()
        assert second.is_alive()


def test_racing_threads_never_exceed_a_ceiling(root: Path) -> None:
    factory = WatchedFactory()
    most = []

    with managed(root, backend=factory, max_sessions=3) as manager:

        def work(number: int) -> None:
            for each in range(6):
                id = f"{number}-{each}"
                while True:
                    try:
                        with manager.open(id) as box:
                            most.append(sum(state != "hibernated" for state in states(manager).values()))
                            box.write("f", id)
                        break
                    except SessionLimitError:
                        time.sleep(0.001)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        assert len(states(manager)) == 36
    assert max(most) <= 3


def test_execute_timeout_is_default_and_ceiling(root: Path) -> None:
    with managed(root, execute_timeout=20) as manager:
        box = manager.open("a")
        assert box.default_timeout == 20
        with pytest.raises(LimitExceededError, match="execute_timeout") as caught:
            box.execute("true", timeout=21)
        assert caught.value.limit == 20
        assert box.execute("echo x", timeout=20).stdout == "x\n"
        apply_policy_update(manager.policy, {"execute_timeout": 0.2})
        with pytest.raises(TimeoutError):
            box.execute("sleep 600")
        apply_policy_update(manager.policy, {"execute_timeout": None})
        assert box.default_timeout is None
        assert box.execute("echo x", timeout=600).stdout == "x\n"


def test_a_handle_may_be_stricter_than_the_policy_never_laxer(root: Path) -> None:
    with managed(root, execute_timeout=20, max_read_bytes=100) as manager:
        box = manager.open("a")
        box.default_timeout = 5
        assert box.default_timeout == 5
        box.default_timeout = 50
        with pytest.raises(LimitExceededError):
            box.execute("true")
        box.max_read_bytes = 10
        assert box.max_read_bytes == 10
        box.max_read_bytes = 1000
        assert box.max_read_bytes == 100


def test_max_read_bytes_holds_from_the_next_call(root: Path) -> None:
    with managed(root) as manager:
        box = manager.open("a")
        box.write("f", "12345")
        assert box.read("f") == "12345"
        apply_policy_update(manager.policy, {"max_read_bytes": 4})
        for call in (box.read, box.read_bytes, lambda path: box.edit(path, "1", "2")):
            with pytest.raises(ReadLimitError):
                call("f")


def test_an_idle_session_hibernates_and_its_handle_wakes_it(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        box.write("f", "x")
        assert manager.reap().hibernated == ("a",)
        assert states(manager) == {"a": "hibernated"}
        assert not box.is_alive()
        assert box.usage() == manager.usage("a") == Usage()
        assert factory.count("start", "a") == 1
        assert box.read("f") == "x"
        assert factory.count("start", "a") == 2
        assert box.is_alive()


def test_what_hibernates_wakes_only_where_there_is_room(root: Path) -> None:
    with managed(root, max_sessions=1, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        manager.reap()
        with manager.open("b"), pytest.raises(SessionLimitError):
            box.exists("f")
        assert not box.exists("f")


def test_a_running_command_is_never_disturbed(root: Path) -> None:
    with managed(root, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        started = threading.Event()
        results = []

        def run() -> None:
            command = "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done"
            results.append(box.execute(command, on_output=lambda *_: started.set()))

        thread = threading.Thread(target=run)
        thread.start()
        assert started.wait(WITHIN)
        for _ in range(5):
            assert manager.reap().hibernated == ()
        manager.open("a").write("go", "")
        thread.join(WITHIN)
        assert [result.stdout for result in results] == ["begun\ndone\n"]
        assert manager.reap().hibernated == ("a",)


def test_a_background_process_keeps_its_session_up(root: Path) -> None:
    with managed(root, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        with box.spawn("sleep 600") as process:
            assert manager.reap().hibernated == ()
        process.wait(WITHIN)
        assert manager.reap().hibernated == ("a",)


def test_an_open_write_keeps_its_session_up(root: Path) -> None:
    with managed(root, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        seen = []

        class Slow:
            def read(self, count: int = -1) -> bytes:
                seen.append(manager.reap().hibernated)
                return b"" if len(seen) > 1 else b"x"

        box.write("f", Slow())
        assert seen == [(), ()]
        assert box.read("f") == "x"


def test_looking_is_not_using(root: Path) -> None:
    with managed(root, idle_timeout=0.3) as manager:
        box = manager.open("a")
        box.write("f", "x")
        used = manager.sessions()[0].last_used
        begun = time.monotonic()
        while time.monotonic() - begun < 0.4:
            assert box.is_alive()
            box.usage()
            manager.usage("a")
            assert abs(manager.sessions()[0].last_used - used) < 0.2
            time.sleep(0.05)
        assert manager.reap().hibernated == ("a",)


def test_one_failing_sandbox_does_not_keep_the_others_up(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory, idle_timeout=AT_ONCE) as manager:
        handles = [manager.open(id) for id in ("a", "b", "c")]
        factory.failing["stop", "a"] = OSError("stuck")
        assert manager.reap().hibernated == ("b", "c")
        assert "session a could not hibernate: stuck" in caplog.text
        factory.failing.clear()
        assert manager.reap().hibernated == ("a",)
        assert len(handles) == 3


def test_a_thread_reaps_and_survives_what_fails(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    factory = WatchedFactory()
    policy = SandboxPolicy.from_dict({"idle_timeout": AT_ONCE})
    with SessionManager(policy, workspace_root=root, backend=factory, reap_every=0.02) as manager:
        factory.failing["stop", "a"] = OSError("stuck")
        handle = manager.open("a")
        assert eventually(lambda: factory.count("stop", "a") >= 3)
        manager.open("b")
        assert eventually(lambda: states(manager)["b"] == "hibernated")
        factory.failing.clear()
        assert eventually(lambda: states(manager)["a"] == "hibernated")
        assert handle.id == "a"
    assert not [thread for thread in threading.enumerate() if thread.name == "sandbox_kit-reaper"]
    assert any(record.levelno == logging.WARNING for record in caplog.records)


def test_a_dropped_manager_leaves_no_thread(root: Path) -> None:
    policy = SandboxPolicy()
    manager = SessionManager(policy, workspace_root=root, reap_every=0.02)
    manager.open("a").execute("true")
    del manager
    assert eventually(lambda: not any(each.name == "sandbox_kit-reaper" for each in threading.enumerate()))
    with managed(root) as another:
        assert another.reap().recovered == ("a",)


def test_old_workspaces_are_swept_and_live_ones_never(root: Path) -> None:
    with managed(root, workspace_ttl=3600) as manager:
        use(manager, "a", "b", "c")
        manager.close("a")
        manager.close("b")
        assert manager.reap().purged == ()
        apply_policy_update(manager.policy, {"workspace_ttl": AT_ONCE})
        assert sorted(manager.reap().purged) == ["a", "b"]
        assert states(manager) == {"c": "live"}
    assert sorted(path.name for path in root.iterdir()) == [".sandbox_kit", "c"]
