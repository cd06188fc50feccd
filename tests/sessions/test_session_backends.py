"""A session stays with the backend that it was opened by, and what is of another one is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxConflictError, SessionLimitError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.makers import LocalFactory, as_kind
from sandbox_kit.sweep import sweep

from .managing import WatchedFactory, in_child, managed, states

WITHIN = 60.0
WATCHED = f"{WatchedFactory.__module__}:WatchedFactory"

SPAWNING = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from sandbox_kit import LocalSandbox, SandboxPolicy, SessionManager

def make(session_id, profile, limits, workspace):
    return LocalSandbox(workspace)

def work(root):
    with SessionManager(SandboxPolicy(), workspace_root=root, backend=make, reap_every=None) as manager:
        return manager.open("a").read("f"), manager.sessions()[0].backend

if __name__ == "__main__":
    with SessionManager(SandboxPolicy(), workspace_root=sys.argv[1], backend=make, reap_every=None) as manager:
        manager.open("a").write("f", "x")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(sys.argv[2])) as pool:
            print(*pool.submit(work, sys.argv[1]).result(60))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def plain(session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
    return LocalSandbox(workspace)


class Making:
    def make(self, session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
        return LocalSandbox(workspace)


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("local", "local"),
        (LocalFactory(), "local"),
        (plain, f"{__name__}:plain"),
        (partial(partial(plain, "a"), "b"), f"{__name__}:plain"),
        (Making().make, f"{__name__}:Making.make"),
        (WatchedFactory(), WATCHED),
        (WatchedFactory, WATCHED),
    ],
)
def test_a_backend_has_one_name_in_every_process(backend: Any, name: str) -> None:
    assert as_kind(backend).name == name


def test_the_ledger_tells_whose_sessions_are_whose(root: Path) -> None:
    with managed(root) as first, managed(root, backend=WatchedFactory()) as second:
        first.open("a")
        second.open("b")
        assert [info.backend for info in first.sessions()] == ["local", WATCHED]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_session_of_another_backend_is_refused_by_name(root: Path, is_open: bool) -> None:
    def calls(manager: Any) -> list[Callable[[], object]]:
        return [lambda: manager.open("a"), lambda: manager.close("a"), lambda: manager.close("a", purge=True)]

    with managed(root, backend=WatchedFactory()) as first, managed(root) as second:
        first.open("a").write("f", "x")
        if not is_open:
            first.close("a")
        for call in calls(second):
            with pytest.raises(
                SandboxConflictError, match=f"session a belongs to the backend '{WATCHED}', not 'local'"
            ):
                call()
        assert states(first) == {"a": "live" if is_open else "hibernated"}
        assert first.open("a").read("f") == "x"


def test_what_a_dead_process_left_is_given_back_by_its_own_backend_alone(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory) as first, managed(root) as second:
        assert in_child(lambda: first.open("a").is_alive()) == 0
        assert second.reap().recovered == ()
        assert states(second) == {"a": "live"}
        assert first.reap().recovered == ("a",)
        assert factory.log == [("stop", "a")]


def test_what_ended_with_its_process_is_given_back_by_any_backend(root: Path) -> None:
    with managed(root, max_sessions=1) as first, managed(root, backend=WatchedFactory(), max_sessions=1) as second:
        assert in_child(lambda: first.open("a").is_alive()) == 0
        second.open("b")
        assert states(first) == {"a": "hibernated", "b": "live"}


def test_a_purge_that_ended_with_its_process_is_completed_by_any_backend(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: Layout, session: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with managed(root) as first, managed(root, backend=WatchedFactory()) as second:
        first.open("a")
        first.close("a")
        with monkeypatch.context() as patch:
            patch.setattr(Layout, "remove", die)
            assert in_child(lambda: first.close("a", purge=True)) == -signal.SIGKILL
        assert second.reap().recovered == ("a",)
        assert not (root / "a").exists()


def test_a_refusal_tells_which_backend_gives_back_what_dead_processes_left(root: Path) -> None:
    with managed(root, backend=WatchedFactory(), max_sessions=1) as first, managed(root, max_sessions=1) as second:
        assert in_child(lambda: first.open("a").is_alive()) == 0
        with pytest.raises(SessionLimitError, match=f"slots of the backend '{WATCHED}': a manager of that backend"):
            second.open("b")
        assert first.reap().recovered == ("a",)
        second.open("b")


def test_an_old_session_is_purged_by_its_own_backend_alone(root: Path) -> None:
    factory = WatchedFactory()
    with managed(root, backend=factory) as manager:
        manager.open("a")
        manager.close("a")
    assert sweep(root, workspace_ttl=1e-6).purged == ()
    assert sweep(root, workspace_ttl=1e-6, backend=factory).purged == ("a",)


def test_a_local_sandbox_under_rules_is_stopped_by_each_process(root: Path) -> None:
    def guarded(session_id: str, profile: object, limits: object, workspace: Path) -> Sandbox:
        return guarding(guarding(LocalSandbox(workspace), PermissionRuleset("allow")), PermissionRuleset("ask"))

    with managed(root, backend=guarded) as first, managed(root, backend=guarded) as second:
        boxes = [each.open("a") for each in (first, second)]
        assert [each._service.table.entry("a").made.shared for each in (first, second)] == [False, False]
        first.close("a")
        assert [box.is_alive() for box in boxes] == [False, True]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("as_module", [False, True])
def test_a_factory_of_a_program_has_one_name_in_its_pool(tmp_path: Path, method: str, as_module: bool) -> None:
    (tmp_path / "program.py").write_text(SPAWNING)
    how = ["-m", "program"] if as_module else [str(tmp_path / "program.py")]
    done = subprocess.run(
        [sys.executable, "-W", "error", *how, str(tmp_path / "root"), method],
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(filter(None, [str(tmp_path), *sys.path]))},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"x {'program' if as_module else '__main__'}:make\n", "")
