"""Callers, factories and disks that misbehave: nothing is lost, nothing hangs, and the error says what it was."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import (
    InvalidArgumentError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from sandbox_kit.primitives import MaskSource, allow
from sandbox_kit.sessions.entry import Call, SessionEntry
from sandbox_kit.sessions.events import SessionEvent
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.membership import Membership
from sandbox_kit.sessions.policy import SandboxPolicy

from .managing import WITHIN, WatchedFactory, eventually, in_child, managed, states

AT_ONCE = 1e-6
LEDGER = ".sandbox_kit/ledger.sqlite"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def told(root: Path, callback: Callable[[SessionEvent], object], **policy: Any) -> SessionManager:
    return SessionManager(SandboxPolicy.from_dict(policy), workspace_root=root, reap_every=None, on_event=callback)


OPENED: dict[str, Callable[[Sandbox], Any]] = {
    "stream": lambda box: box.open_read("d/1"),
    "grep": lambda box: box.grep("x"),
    "entries": lambda box: box._scandir("d", operations=("ls",), authorize=lambda *_, **__: True),
}


@pytest.mark.parametrize("kind", OPENED)
def test_what_is_read_bit_by_bit_keeps_its_session_up(root: Path, kind: str) -> None:
    with managed(root, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        for number in range(3):
            box.write(f"d/{number}", "x\n" * 3)
        opened = OPENED[kind](box)
        next(opened)
        assert manager.reap().hibernated == ()
        assert len(list(opened)) >= 2
        opened.close()
        assert manager.reap().hibernated == ("a",)
        dropped = OPENED[kind](box)
        assert manager.reap().hibernated == ()
        dropped.close()
        del dropped
        assert manager.reap().hibernated == ("a",)


def test_the_time_of_being_idle_begins_when_the_last_thing_was_closed(root: Path) -> None:
    with managed(root, idle_timeout=1) as manager:
        box = manager.open("a")
        box.write("f", "x")
        with box.open_read("f"):
            time.sleep(1.1)
            assert manager.reap().hibernated == ()
        assert manager.reap().hibernated == ()


@pytest.mark.parametrize("travel", [pickle.dumps, copy.copy, copy.deepcopy])
def test_handles_and_managers_do_not_travel_and_say_what_does(root: Path, travel: Callable[[Any], Any]) -> None:
    with managed(root) as manager:
        for each, advice in ((manager.open("a"), "open the session by its id"), (manager, "make another one")):
            with pytest.raises(TypeError, match=advice):
                travel(each)


def test_a_handle_works_in_a_child_whatever_a_thread_of_the_parent_did_with_it(root: Path) -> None:
    with managed(root) as manager:
        box = manager.open("a")
        held, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            with box._life:
                held.set()
                go_on.wait(WITHIN)

        def act() -> bool:
            signal.alarm(int(WITHIN))
            return bool(box.start().execute("echo x").stdout == "x\n")

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(WITHIN)
        try:
            assert in_child(act) == 0
        finally:
            go_on.set()
            thread.join(WITHIN)


def test_a_factory_may_not_give_one_sandbox_to_two_sessions(root: Path) -> None:
    made: list[LocalSandbox] = []

    def factory(session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
        if not made:
            made.append(LocalSandbox(workspace))
        return made[0]

    with managed(root, backend=factory) as manager:
        manager.open("a").write("f", "x")
        with pytest.raises(InvalidArgumentError, match="session a again"):
            manager.open("b")
        manager.close("a")
        assert manager.open("a").read("f") == "x"
        assert states(manager) == {"a": "live"}


@pytest.mark.parametrize("act", ["open", "close", "purge"])
def test_a_factory_may_not_ask_for_the_session_that_it_makes(root: Path, act: str) -> None:
    def factory(session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
        if act == "open":
            return manager.open(session_id)
        manager.close(session_id, purge=act == "purge")
        return LocalSandbox(workspace)

    manager: SessionManager = managed(root, backend=factory)
    with manager:
        with pytest.raises(SandboxConflictError, match="by the caller itself"):
            manager.open("a")
        assert states(manager) == {}


def test_a_factory_may_open_another_session(root: Path) -> None:
    def factory(session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
        if session_id == "a":
            manager.open("b").write("f", "x")
        return LocalSandbox(workspace)

    manager = managed(root, backend=factory)
    with manager:
        manager.open("a")
        assert states(manager) == {"a": "live", "b": "live"}


def test_an_interrupted_callback_leaves_no_call_under_way(root: Path) -> None:
    def interrupt(event: SessionEvent) -> None:
        if event.kind == "woken":
            raise KeyboardInterrupt

    with told(root, interrupt, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        manager.reap()
        with pytest.raises(KeyboardInterrupt):
            box.exists("f")
        assert manager.reap().hibernated == ("a",)


def test_an_interrupt_once_a_call_is_counted_leaves_none_under_way(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter = SessionEntry.enter

    def interrupt(self: SessionEntry, *call: Call) -> None:
        enter(self, *call)
        raise KeyboardInterrupt

    with managed(root, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        with monkeypatch.context() as patch:
            patch.setattr(SessionEntry, "enter", interrupt)
            with pytest.raises(KeyboardInterrupt):
                box.exists("f")
        assert manager.reap().hibernated == ("a",)


class InterruptedLock:
    """A lock whose first holder is interrupted before it is told that it holds it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.release = self.lock.release
        self.interrupts = True

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        got = self.lock.acquire(blocking, timeout)
        if self.interrupts:
            self.interrupts = False
            raise KeyboardInterrupt
        return got


def test_an_interrupted_try_for_a_lock_leaves_it_free() -> None:
    entry = SessionEntry("a")
    vars(entry)["_lock"] = InterruptedLock()
    with pytest.raises(KeyboardInterrupt), entry.locked_if_free():
        pass

    def tried() -> bool:
        with entry.locked_if_free() as free:
            return free

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(tried).result(WITHIN)
        with entry.locked_if_free() as free, entry.locked_if_free() as again:
            assert (free, again) == (True, True)
            assert not pool.submit(tried).result(WITHIN)
        assert pool.submit(tried).result(WITHIN)


def test_what_is_hibernated_may_not_ask_for_its_own_session(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Asking(LocalSandbox):
        def _stop(self, purge: bool) -> None:
            if asking:
                asked.append(self.id)
                manager.close("a")
            super()._stop(purge)

    asking, asked = True, list[str]()
    with managed(root, backend=lambda workspace, **_: Asking(workspace), idle_timeout=AT_ONCE) as manager:
        manager.open("a")
        assert manager.reap().hibernated == ()
        assert "by the caller itself" in caplog.text
        assert len(asked) == 1
        asking = False
        assert manager.reap().hibernated == ("a",)


def test_shutdown_ends_what_is_still_starting(root: Path) -> None:
    class Late(LocalSandbox):
        def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
            super()._start(masks)
            ending.start()
            ending.join(0.5)

    with managed(root, backend=lambda workspace, **_: Late(workspace)) as manager:
        ending = threading.Thread(target=manager.shutdown)
        box = manager.open("a")
        ending.join(WITHIN)
        assert not ending.is_alive()
        assert not box.is_alive()
    with managed(root) as another:
        assert states(another) == {"a": "hibernated"}


def test_a_callback_may_shut_the_manager_down(root: Path) -> None:
    with told(root, lambda _: manager.shutdown()) as manager:
        box = manager.open("a")
        with pytest.raises(SandboxClosedError):
            box.exists("f")
    with managed(root) as another:
        assert states(another) == {"a": "hibernated"}


def test_a_refused_purge_takes_no_handle(root: Path) -> None:
    with managed(root) as first, managed(root) as second:
        box, other = first.open("a"), second.open("a")
        box.write("f", "x")
        with pytest.raises(SandboxConflictError):
            first.close("a", purge=True)
        assert box.read("f") == other.read("f") == "x"


def test_what_interrupted_calls_left_makes_room(root: Path) -> None:
    factory = WatchedFactory()
    factory.failing["start", "a"] = factory.failing["stop", "a"] = KeyboardInterrupt()
    with managed(root, backend=factory, max_sessions=1) as manager:
        with pytest.raises(KeyboardInterrupt):
            manager.open("a")
        assert states(manager) == {"a": "starting"}
        factory.failing.clear()
        assert manager.open("b").is_alive()


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """Interrupts this thread once, after so many seconds; with 0, not any more."""
    armed = False

    def interrupt(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    def arm(seconds: float) -> None:
        nonlocal armed
        armed = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, interrupt)
    yield arm
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one may come while garbage is freed
def test_interrupts_at_any_moment_lose_no_slot(root: Path, alarm: Callable[[float], None]) -> None:
    def use(id: str) -> None:
        with manager.open(id) as box:
            box.write("f", id)
        manager.close(id, purge=id == "s1")

    with managed(root, max_sessions=1) as manager:
        for number in range(150):
            with suppress(KeyboardInterrupt):
                try:
                    alarm(1e-4 + number * 2e-5)
                    use(f"s{number % 3}")
                    time.sleep(1e-3)
                finally:
                    alarm(0)
        for id in ("s0", "s1", "s2"):
            use(id)
        assert set(states(manager).values()) == {"hibernated"}
    gc.collect()


def break_ledger(root: Path) -> None:
    (root / LEDGER).rename(root / "elsewhere")


@pytest.mark.parametrize("again", [False, True])
def test_shutdown_stops_what_runs_even_where_the_ledger_cannot_be_told(root: Path, again: bool) -> None:
    manager = managed(root)
    box = manager.open("a")
    box.write("f", "x")
    process = box.spawn("sleep 600")
    break_ledger(root)
    for call in (lambda: manager.open("b"), manager.sessions, manager.reap, lambda: manager.close("a", purge=True)):
        with pytest.raises(SandboxUnavailableError, match="removed or replaced"):
            call()
    assert process.poll() is None
    assert box.read("f") == "x"
    with pytest.raises(SandboxUnavailableError, match="removed or replaced"):
        manager.shutdown()
    assert process.wait(WITHIN) != 0
    if again:
        manager.shutdown()
    (root / "elsewhere").rename(root / LEDGER)
    with managed(root) as another:
        assert another.reap().recovered == ("a",)
        assert another.open("a").read("f") == "x"


def test_rounds_of_managers_leave_no_descriptor_thread_or_lock(root: Path) -> None:
    def once() -> tuple[int, int]:
        manager = SessionManager(SandboxPolicy(), workspace_root=root, reap_every=0.01)
        manager.open("a").write("f", "x")
        manager.shutdown()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    once()
    before = once()
    assert [once() for _ in range(30)] == [before] * 30
    assert list((root / ".sandbox_kit" / "owners").iterdir()) == []


def test_nothing_starts_once_a_shutdown_has_begun(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory, refused = WatchedFactory(), list[str]()
    manager = managed(root, backend=factory, idle_timeout=AT_ONCE)
    box = manager.open("a")
    manager.reap()
    leave = Membership.leave

    def use_and_leave(self: Membership) -> None:
        for call in (lambda: box.exists("f"), box.start, lambda: manager.open("b")):
            with pytest.raises(SandboxClosedError, match="shut down"):
                call()
            refused.append("refused")
        leave(self)

    monkeypatch.setattr(Membership, "leave", use_and_leave)
    manager.shutdown()
    assert len(refused) == 3
    assert factory.log == [("start", "a"), ("stop", "a")]


def test_who_waits_for_another_process_is_told_of_a_shutdown(root: Path) -> None:
    slow = WatchedFactory(delay=1.0)
    with managed(root, backend=slow) as first, ThreadPoolExecutor(2) as pool:
        second = managed(root, backend=WatchedFactory())
        starting = pool.submit(first.open, "a")
        assert eventually(lambda: states(first) == {"a": "starting"})
        waiting = pool.submit(second.open, "a")
        time.sleep(0.1)
        second.shutdown()
        with pytest.raises(SandboxClosedError):
            waiting.result(WITHIN)
        assert starting.result(WITHIN).is_alive()


def test_a_write_that_was_opened_keeps_its_session_up_before_it_begins(root: Path) -> None:
    with managed(root, idle_timeout=AT_ONCE) as manager:
        box = manager.open("a")
        opened = box._open_write("f", operations=("write",), authorize=allow)
        assert manager.reap().hibernated == ()
        with opened as stream:
            stream.write(b"x")
            assert manager.reap().hibernated == ()
        assert manager.reap().hibernated == ("a",)
        assert box.read("f") == "x"
        dropped = box._open_write("g", operations=("write",), authorize=allow)
        assert manager.reap().hibernated == ()
        del dropped
        gc.collect()
        assert manager.reap().hibernated == ("a",)


def test_a_factory_that_hangs_holds_up_nobody_for_ever(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_kit.sessions.entry._PATIENCE", 0.1)
    monkeypatch.setattr("sandbox_kit.sessions.claims._OTHERS_WITHIN", 0.1)
    hanging, go_on = threading.Event(), threading.Event()

    def factory(session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
        if session_id == "hangs" and not hanging.is_set():
            hanging.set()
            go_on.wait(WITHIN)
        return LocalSandbox(workspace)

    with managed(root, backend=factory) as one, managed(root, backend=factory) as other, ThreadPoolExecutor(1) as pool:
        opening = pool.submit(one.open, "hangs")
        try:
            assert hanging.wait(WITHIN)
            for each in (one, other):
                with pytest.raises(SandboxTimeoutError):
                    each.open("hangs")
                assert each.open("other").is_alive()
                assert each.reap().recovered == ()
        finally:
            go_on.set()
        assert opening.result(WITHIN).is_alive()
