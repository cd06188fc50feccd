"""Several processes over one root: ceilings hold for all together, and whoever is killed gives its slots back."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox_kit.errors import SandboxClosedError, SandboxConflictError, SandboxTimeoutError, SessionLimitError
from sandbox_kit.sessions.entry import SessionEntry
from sandbox_kit.sessions.manager import SessionManager

from .managing import WatchedFactory, eventually, in_child, managed, states

STORM = Path(__file__).with_name("storm.py")
WITHIN = 300.0

HOLD = """
import importlib, sys
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
backend = importlib.import_module(sys.argv[4]).WatchedFactory() if sys.argv[4] else "local"
manager = SessionManager(SandboxPolicy(), workspace_root=sys.argv[1], backend=backend, reap_every=0.05)
ids, returned = sys.argv[2].split(), sys.argv[3].split()
boxes = [manager.open(id) for id in ids]
for box in boxes:
    box.write("held", box.id)
boxes = [each for each in boxes if each.id not in returned]
del box
print("ready", flush=True)
sys.stdin.read()
manager.shutdown()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def start(root: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(STORM), str(root), name, str(count), "3"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> str:
    """What a process of the storm complains of, once it has ended; empty if it ended well."""
    _, complaint = process.communicate(timeout=WITHIN)
    return "" if process.returncode == 0 else complaint.decode() or f"exit code {process.returncode}"


def rooms(manager: SessionManager) -> list[str | None]:
    """What the holders say of making room."""
    with manager._service.ledger._database.reading() as tables:
        return [room for (room,) in tables.execute("SELECT room FROM holders")]


class Holder:
    """Another process that has sessions open until its ``with`` is left, or it is killed.

    Args:
        returned: the ids of those that are given back.
        watched: its backend is a factory of watched sandboxes, not ``"local"``.
    """

    def __init__(self, root: Path, *ids: str, returned: str = "", watched: bool = False) -> None:
        module = WatchedFactory.__module__ if watched else ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(root), " ".join(ids), returned, module],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WITHIN)

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate(timeout=WITHIN)


def lost(root: Path) -> list[str]:
    """What was written to a session that nobody purges, and is not there."""
    told = [line.split() for acks in (root.parent / "acks").iterdir() for line in acks.read_text().splitlines()]
    return [f"{id}/{file}" for id, file in told if id[:4] != "own-" and not (root / id / "workspace" / file).exists()]


def test_eight_processes_never_exceed_the_ceiling_and_lose_nothing(root: Path) -> None:
    workers = [start(root, f"w{number}", 50) for number in range(8)]
    assert [ended(worker) for worker in workers] == [""] * 8
    told = [line for acks in (root.parent / "acks").iterdir() for line in acks.read_text().splitlines()]
    assert len(set(told)) == 400
    assert lost(root) == []
    with managed(root) as manager:
        assert set(states(manager).values()) == {"hibernated"}
        assert manager.reap().recovered == ()


def test_ten_kills_give_every_slot_back_and_touch_no_live_workspace(root: Path) -> None:
    workers = [start(root, f"k{number}", 0) for number in range(4)]
    try:
        for number in range(10):
            time.sleep(0.2 + random.random() * 0.3)
            victim = workers.pop(random.randrange(len(workers)))
            victim.send_signal(signal.SIGKILL)
            _, complaint = victim.communicate(timeout=WITHIN)
            assert (victim.returncode, complaint) == (-signal.SIGKILL, b"")
            workers.append(start(root, f"r{number}", 0))
        (root.parent / "stop").touch()
        assert [ended(worker) for worker in workers] == [""] * 4
    finally:
        for worker in workers:
            worker.kill()
    assert lost(root) == []
    with managed(root, max_sessions=3) as manager:
        manager.reap()
        assert set(states(manager).values()) == {"hibernated"}
        assert [manager.open(f"after-{number}").is_alive() for number in range(3)] == [True] * 3
        assert len(list((root / ".sandbox_kit" / "owners").iterdir())) == 1


def test_a_session_that_another_process_holds_is_joined_and_counted_once(root: Path) -> None:
    with Holder(root, "a") as holder, managed(root, max_sessions=1) as manager:
        box = manager.open("a")
        assert box.read("held") == "a"
        (info,) = manager.sessions()
        assert info.pids == tuple(sorted((os.getpid(), holder.process.pid)))
        with pytest.raises(SessionLimitError):
            manager.open("b")
        manager.close("a")
        assert states(manager) == {"a": "live"}
        with pytest.raises(SandboxConflictError, match="another process"):
            manager.close("a", purge=True)
        assert manager.open("a").read("held") == "a"
        with pytest.raises(SandboxConflictError, match="another process"):
            manager.close("a", purge=True)
        assert states(manager) == {"a": "live"}


def test_a_session_that_others_hold_makes_no_room(root: Path) -> None:
    with Holder(root, "a"), managed(root, max_sessions=1) as manager:
        with manager.open("a"):
            pass
        with pytest.raises(SessionLimitError):
            manager.open("b")
        assert manager.open("a").exists("held")


def test_a_session_that_another_process_has_to_spare_makes_room(root: Path) -> None:
    with Holder(root, "lent", "kept-a", "kept-b", returned="kept-a kept-b"), managed(root, max_sessions=3) as manager:
        assert eventually(lambda: "spare" in rooms(manager))
        handles = [manager.open("b")]
        assert states(manager) == {"b": "live", "kept-a": "hibernated", "kept-b": "live", "lent": "live"}
        handles.append(manager.open("c"))
        assert states(manager)["kept-b"] == "hibernated"
        with pytest.raises(SessionLimitError):
            manager.open("d")
        assert all(handle.is_alive() for handle in handles)


def test_a_dead_owners_slot_comes_back_when_its_sandbox_is_gone(root: Path) -> None:
    factory = WatchedFactory()
    with Holder(root, "a", "b", watched=True) as holder, managed(root, backend=factory, max_sessions=2) as manager:
        holder.kill()
        assert set(states(manager).values()) == {"live"}
        factory.failing["stop", "a"] = factory.failing["stop", "b"] = OSError("still there")
        with pytest.raises(SessionLimitError):
            manager.open("c")
        factory.failing.clear()
        factory.log.clear()
        assert manager.open("a").read("held") == "a"
        assert factory.log[:2] == [("stop", "a"), ("start", "a")]
        manager.reap()
        assert manager.open("c").is_alive()
        assert states(manager) == {"a": "live", "b": "hibernated", "c": "live"}


def test_a_purge_that_was_cut_short_is_completed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with managed(root) as manager:
        manager.open("a").write("f", "x")
        manager.close("a")

        def die(*_: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def purge() -> None:
            monkeypatch.setattr("sandbox_kit.sessions.layout.Layout.remove", die)
            manager.close("a", purge=True)

        assert in_child(purge) == -signal.SIGKILL
        assert states(manager) == {"a": "purging"}
        manager.reap()
        assert states(manager) == {}
    assert not (root / "a").exists()


def test_what_a_cut_short_removal_left_is_removed(root: Path) -> None:
    trash = root / ".sandbox_kit" / "trash"
    with managed(root) as manager:
        (trash / "a.0123" / "workspace").mkdir(parents=True)
        manager.reap()
        assert list(trash.iterdir()) == []


def test_a_forked_child_shares_sessions_and_not_sandboxes(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory, max_sessions=1) as manager:
        box = manager.open("a")
        box.write("f", "parent")
        with box.spawn("sleep 600") as process:

            def act() -> bool:
                for number in range(20):
                    assert box.read("f") == "parent"
                    assert box.execute(f"echo {number}").stdout == f"{number}\n"
                assert factory.count("start", "a") == 2
                assert len(manager.sessions()[0].pids) == 2
                manager.shutdown()
                return factory.count("stop", "a") == 1

            assert in_child(act) == 0
            assert process.poll() is None
        assert box.execute("echo x").stdout == "x\n"
        assert (factory.count("start", "a"), factory.count("stop", "a")) == (1, 0)
        assert manager.sessions()[0].pids == (os.getpid(),)


def test_a_childs_exit_ends_nothing_of_the_parents(root: Path) -> None:
    code = """
import os, sys
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
manager = SessionManager(SandboxPolicy(), workspace_root=sys.argv[1], reap_every=0.01)
box = manager.open("a")
process = box.spawn("sleep 600")
if os.fork() == 0:
    sys.exit(int(sys.argv[2]) and (box.execute("exit 3").exit_code or 0))
code = os.waitstatus_to_exitcode(os.wait()[1])
print(code, process.poll(), box.execute("echo x").stdout.strip(), [info.state for info in manager.sessions()])
"""
    for use, expected in (("0", "0 None x ['live']"), ("1", "3 None x ['live']")):
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, str(root), use]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)
        assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_locks_that_other_threads_hold_are_free_in_a_child(root: Path) -> None:
    with managed(root) as manager:
        box = manager.open("a")
        entry: SessionEntry = manager._service.table.entry("a")
        with entry.locked():
            assert in_child(lambda: box.execute("echo x").stdout == "x\n") == 0


def run_script(root: Path, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)


EXITS: dict[str, Callable[[], str]] = {
    "main thread": lambda: "use()",
    "worker thread": lambda: "import threading\nt = threading.Thread(target=use)\nt.start()\nt.join()",
    "sys.exit": lambda: "use()\nsys.exit(0)",
}


@pytest.mark.parametrize("how", EXITS)
def test_a_script_that_ends_without_shutdown_gives_everything_back_quietly(root: Path, how: str) -> None:
    code = f"""
import sys
def use():
    from sandbox_kit.sessions.manager import SessionManager
    from sandbox_kit.sessions.policy import SandboxPolicy
    global manager, box
    manager = SessionManager(SandboxPolicy(), workspace_root=sys.argv[1], reap_every=0.01)
    box = manager.open("a")
    box.execute("echo x > f")
{EXITS[how]()}
"""
    done = run_script(root, code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with managed(root) as manager:
        assert states(manager) == {"a": "hibernated"}
        assert manager.open("a").read("f") == "x\n"


def test_a_start_elsewhere_is_waited_for_and_joined(root: Path) -> None:
    slow, fast = WatchedFactory(delay=0.5), WatchedFactory()
    with managed(root, backend=slow) as first, managed(root, backend=fast) as second, ThreadPoolExecutor(1) as pool:
        opening = pool.submit(first.open, "a")
        assert eventually(lambda: states(second) == {"a": "starting"})
        with pytest.raises(SandboxConflictError):
            second.close("a", purge=True)
        assert second.open("a").execute("echo x").stdout == "x\n"
        assert slow.log == [("start", "a")]
        assert opening.result(WITHIN).is_alive()


def test_the_wait_for_a_start_elsewhere_has_an_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_kit.sessions.claims._OTHERS_WITHIN", 0.05)
    slow, fast = WatchedFactory(delay=2), WatchedFactory()
    with managed(root, backend=slow) as first, managed(root, backend=fast) as second, ThreadPoolExecutor(1) as pool:
        opening = pool.submit(first.open, "a")
        assert eventually(lambda: states(second) == {"a": "starting"})
        with pytest.raises(SandboxTimeoutError, match="another process"):
            second.open("a")
        assert opening.result(WITHIN).is_alive()


def test_a_purge_that_fails_is_tried_again(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory, workspace_ttl=1e-6) as manager:
        for id in ("a", "b"):
            manager.open(id)
            manager.close(id)
        factory.failing["stop", "a"] = OSError("still there")
        assert manager.reap().purged == ("b",)
        assert "session a could not be purged: still there" in caplog.text
        factory.failing.clear()
        manager.reap()
        assert states(manager) == {}


def test_what_another_process_purged_does_not_wake(root: Path) -> None:
    with managed(root, idle_timeout=1e-6) as first, managed(root) as second:
        box = first.open("a", tenant="x")
        box.write("f", "x")
        first.reap()
        second.close("a", purge=True)
        with pytest.raises(SandboxClosedError, match="purged"):
            box.read("f")
        assert states(first) == {}
        second.open("a", tenant="y")
        with pytest.raises(SandboxConflictError, match="tenant"):
            box.read("f")
        second.close("a", purge=True)
        assert not box.start().exists("f")


def test_two_managers_of_one_process_are_two_owners(root: Path) -> None:
    with managed(root, max_sessions=1) as first, managed(root, max_sessions=1) as second:
        first.open("a").write("f", "x")
        assert second.open("a").read("f") == "x"
        with pytest.raises(SandboxConflictError):
            second.close("a", purge=True)
        first.close("a")
        assert states(first) == {"a": "live"}
        assert isinstance(second, SessionManager)
        second.close("a", purge=True)
        assert states(first) == {}


def test_closing_a_session_gives_back_what_a_dead_process_held_of_it_and_of_no_other(root: Path) -> None:
    with Holder(root, "a", "b") as holder, managed(root) as manager:
        holder.kill()
        manager.close("a")
        assert states(manager) == {"a": "hibernated", "b": "live"}
        manager.close("b", purge=True)
        assert states(manager) == {"a": "hibernated"}
