"""Owners in processes of every make: spawned by a pool, forked, or replaced by another program."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import pytest

from sandbox_kit.errors import SessionLimitError
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy

from .managing import eventually, managed, states

WITHIN = 60.0

REPLACED = """
import os, sys
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
manager = SessionManager(SandboxPolicy(), workspace_root=sys.argv[1], reap_every=None)
box = manager.open("a")
box.write("f", "x")
os.execv(sys.executable, [sys.executable, "-c", "print('ready', flush=True); input()"])
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def opened(root: str) -> SessionManager:
    return SessionManager(SandboxPolicy.from_dict({"max_sessions": 2}), workspace_root=root, reap_every=None)


def use(root: str, id: str) -> int:
    """Use a session, and return which process that was."""
    with opened(root) as manager, manager.open(id) as box:
        box.write(f"{os.getpid()}", id)
    return os.getpid()


def hold(root: str, id: str) -> tuple[int, str]:
    """Hold a session for good, and return the process and how many hold it."""
    global _kept
    manager = opened(root)
    _kept = manager, manager.open(id)
    return os.getpid(), states(manager)[id]


_kept: object = None


@pytest.fixture(params=["spawn", "forkserver"])
def pool(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(request.param)) as made:
        yield made


def test_the_processes_of_a_pool_share_sessions_and_ceilings(root: Path, pool: Executor) -> None:
    with opened(str(root)) as manager:
        kept = manager.open("kept")
        pids = set(pool.map(use, [str(root)] * 8, ["shared"] * 8, timeout=WITHIN))
        assert {path.name for path in (root / "shared" / "workspace").iterdir()} == {str(pid) for pid in pids}
        assert states(manager) == {"kept": "live", "shared": "hibernated"}
        assert kept.is_alive()
        pool.submit(hold, str(root), "held").result(WITHIN)
        with pytest.raises(SessionLimitError):
            manager.open("one-too-many")


def test_a_process_of_a_pool_that_is_killed_gives_its_slot_back(root: Path, pool: Executor) -> None:
    with opened(str(root)) as manager:
        pid, state = pool.submit(hold, str(root), "held").result(WITHIN)
        assert (state, manager.sessions()[0].pids) == ("live", (pid,))
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: manager.reap().recovered == ("held",))
        assert states(manager) == {"held": "hibernated"}


def test_a_process_that_becomes_another_program_is_no_owner_any_more(root: Path) -> None:
    words = [sys.executable, "-c", REPLACED, str(root)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with managed(root) as manager:
            assert states(manager) == {"a": "live"}
            assert manager.reap().recovered == ("a",)
            assert manager.open("a").read("f") == "x"
        process.communicate(b"\n", timeout=WITHIN)
