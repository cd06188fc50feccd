"""A start that takes too long is given up with an error, keeps its slot until it ends, and is then undone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxClosedError, SandboxTimeoutError, SessionLimitError
from sandbox_kit.host.aside import begin
from sandbox_kit.primitives import MaskSource
from sandbox_kit.sessions import entry, starting
from sandbox_kit.sessions.claims import Claims
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.schema import Granted
from sandbox_kit.sessions.starting import Start

from .managing import WITHIN, eventually, in_child, states

SOON = 0.2


class Hanging:
    """A factory whose sandboxes start when they may, in what was to be made or in what was made.

    Attributes:
        where: ``"make"`` or ``"start"``.
        may_start: starts wait for it.
        waits: a start does.
        failure: what a start then raises.
        stopped: the sessions that were stopped.
    """

    def __init__(self, where: str = "start") -> None:
        self.where = where
        self.may_start = threading.Event()
        self.waits = threading.Event()
        self.failure: Exception | None = None
        self.stopped: list[str] = []

    def __call__(self, session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
        self.hang("make")
        return Slow(self, session_id, workspace)

    def hang(self, where: str) -> None:
        if where == self.where:
            self.waits.set()
            assert self.may_start.wait(WITHIN)
            if self.failure is not None:
                raise self.failure


class Slow(LocalSandbox):
    def __init__(self, factory: Hanging, session: str, workspace: Path) -> None:
        super().__init__(workspace)
        self.factory = factory
        self.session = session

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        self.factory.hang("start")
        super()._start(masks)

    def _stop(self, purge: bool) -> None:
        self.factory.stopped.append(self.session)
        super()._stop(purge)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_LATE_WITHIN", SOON)


def manager_of(root: Path, factory: Any, **policy: Any) -> SessionManager:
    values = SandboxPolicy.from_dict(policy)
    return SessionManager(values, workspace_root=root, backend=factory, reap_every=None, start_timeout=SOON)


@pytest.mark.parametrize("where", ["make", "start"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_start_that_hangs_is_given_up_and_undone_when_it_ends(root: Path, where: str, fails: bool) -> None:
    factory = Hanging(where)
    with manager_of(root, factory, max_sessions=1) as manager:
        with pytest.raises(SandboxTimeoutError, match=f"session a: its sandbox did not start within {SOON} s"):
            manager.open("a")
        assert states(manager) == {"a": "starting"}
        with pytest.raises(SessionLimitError):
            manager.open("b")
        factory.failure = OSError("broken") if fails else None
        factory.may_start.set()
        assert eventually(lambda: not states(manager))
        assert factory.stopped == ([] if where == "make" and fails else ["a"])
        factory.failure = None
        manager.open("b").write("f", "x")
        assert not (root / "a").exists()


def test_a_session_whose_start_goes_on_is_opened_once_it_is_undone(root: Path) -> None:
    factory = Hanging()
    with manager_of(root, factory) as manager:
        for error in ("did not start within", "a start that was given up goes on"):
            with pytest.raises(SandboxTimeoutError, match=error):
                manager.open("a")
        assert manager.reap().recovered == ()
        assert states(manager) == {"a": "starting"}
        factory.may_start.set()
        assert eventually(lambda: not states(manager))
        with manager.open("a") as box:
            assert box.execute("echo x").stdout == "x\n"
        assert factory.stopped == ["a"]


def test_files_of_a_session_whose_start_was_given_up_stay(root: Path) -> None:
    factory = Hanging()
    factory.may_start.set()
    with manager_of(root, factory) as manager:
        manager.open("a").write("f", "x")
        manager.close("a")
        factory.may_start.clear()
        with pytest.raises(SandboxTimeoutError):
            manager.open("a")
        factory.may_start.set()
        assert eventually(lambda: states(manager) == {"a": "hibernated"})
        assert manager.open("a").read("f") == "x"


def test_shutdown_waits_for_no_start_that_was_given_up_and_others_leave_it_alone(root: Path) -> None:
    factory = Hanging()
    manager = manager_of(root, factory)
    with pytest.raises(SandboxTimeoutError):
        manager.open("a")
    manager.shutdown()
    other = Hanging()
    with manager_of(root, other) as another:
        assert another.reap().recovered == ()
        factory.may_start.set()
        assert eventually(lambda: not states(another))
    assert (factory.stopped, other.stopped) == (["a"], [])
    assert eventually(lambda: not list((root / ".sandbox_kit" / "owners").iterdir()))


def test_what_a_process_was_starting_when_it_ended_is_given_back(root: Path) -> None:
    factory = Hanging()
    with manager_of(root, factory, max_sessions=1) as manager:

        def give_up() -> None:
            with pytest.raises(SandboxTimeoutError):
                manager.open("a")

        assert in_child(give_up) == 0
        assert manager.reap().recovered == ("a",)
        factory.may_start.set()
        manager.open("b")


def test_a_manager_that_is_shut_down_before_a_start_keeps_no_slot(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = Claims.hold

    def hold_and_shut_down(self: Claims, *args: Any, **options: Any) -> Granted:
        granted = hold(self, *args, **options)
        manager.shutdown()
        return granted

    manager = manager_of(root, Hanging())
    with monkeypatch.context() as patch:
        patch.setattr(Claims, "hold", hold_and_shut_down)
        with pytest.raises(SandboxClosedError):
            manager.open("a")
    with manager_of(root, Hanging()) as another:
        assert states(another) == {}


def test_a_start_that_is_interrupted_once_its_thread_runs_is_undone_when_it_ends(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_and_interrupt(work: Callable[[], object]) -> None:
        begin(work)
        assert factory.waits.wait(WITHIN)
        raise KeyboardInterrupt

    factory = Hanging()
    with manager_of(root, factory, max_sessions=1) as manager:
        with monkeypatch.context() as patch:
            patch.setattr(starting, "begin", begin_and_interrupt)
            with pytest.raises(KeyboardInterrupt):
                manager.open("a")
        assert states(manager) == {"a": "starting"}
        with pytest.raises(SessionLimitError):
            manager.open("b")
        factory.may_start.set()
        assert eventually(lambda: not states(manager))
        assert factory.stopped == ["a"]
        assert manager.open("a").is_alive()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("can't start new thread")], ids=repr)
def test_a_start_that_has_not_begun_when_it_is_given_up_never_does(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def keep_and_fail(work: Callable[[], object]) -> None:
        kept.append(work)
        raise error

    kept: list[Callable[[], object]] = []
    factory = Hanging()
    factory.may_start.set()
    with manager_of(root, factory, max_sessions=1) as manager:
        with monkeypatch.context() as patch:
            patch.setattr(starting, "begin", keep_and_fail)
            with pytest.raises(type(error)):
                manager.open("a")
        assert states(manager) == {}
        kept.pop()()
        assert not factory.waits.is_set()
        assert manager.open("a").is_alive()


def test_what_is_given_up_before_it_begins_never_does() -> None:
    done: list[str] = []
    start = Start(lambda: done.append("work"), "it")
    assert not start.abandon(lambda: done.append("late"))
    start.run(WITHIN)
    assert done == []


def test_a_start_may_take_as_long_as_it_takes_without_a_limit(root: Path) -> None:
    factory = Hanging()
    timer = threading.Timer(2 * SOON, factory.may_start.set)
    timer.start()
    with SessionManager(
        SandboxPolicy(), workspace_root=root, backend=factory, reap_every=None, start_timeout=None
    ) as manager:
        manager.open("a")
    timer.join()
