"""An owner lives as long as its process holds its lock, however that process ends."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from sandbox_kit.errors import SandboxUnavailableError
from sandbox_kit.sessions.liveness import Owner, OwnerLock, is_alive, own_process, remove_lock, remove_stray_locks

HOLD = """
import sys, time
from pathlib import Path
from sandbox_kit.sessions.liveness import OwnerLock
lock = OwnerLock(Path(sys.argv[1]))
print(lock.owner.token, lock.owner.pid, lock.owner.start, lock.owner.boot, flush=True)
time.sleep(600)
"""
ASK_AT_EXIT = """
import atexit, sys
from pathlib import Path
atexit.register(lambda: print(is_alive(lock.owner, lock_dir)))
from sandbox_kit.sessions.liveness import OwnerLock, is_alive
lock_dir = Path(sys.argv[1])
lock = OwnerLock(lock_dir)
"""
WITHIN = 20.0


def in_child(act: Callable[[], bool]) -> bool:
    """What *act* returns in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if act() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def start_holder(directory: Path) -> tuple[subprocess.Popen[str], Owner]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(directory)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    token, pid, start, boot = process.stdout.readline().split()
    process.stdout.close()
    return process, Owner(token, int(pid), int(start), boot)


def test_an_owner_of_this_process_lives_until_it_is_released(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path)
    assert is_alive(lock.owner, tmp_path)
    lock.release()
    lock.release()
    assert not is_alive(lock.owner, tmp_path)


def test_looking_at_owners_does_not_let_go_of_a_lock(tmp_path: Path) -> None:
    locks = [OwnerLock(tmp_path) for _ in range(2)]
    locks[0].release()
    for lock in locks:
        is_alive(lock.owner, tmp_path)
    assert in_child(lambda: is_alive(locks[1].owner, tmp_path))
    assert not in_child(lambda: is_alive(locks[0].owner, tmp_path))
    locks[1].release()


def test_a_dropped_lock_is_let_go(tmp_path: Path) -> None:
    owner = OwnerLock(tmp_path).owner
    gc.collect()
    assert not is_alive(owner, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_owner_is_dead_and_a_living_one_is_not(tmp_path: Path, number: int) -> None:
    process, owner = start_holder(tmp_path)
    with process:
        assert is_alive(owner, tmp_path)
        process.send_signal(number)
        process.wait(WITHIN)
        assert not is_alive(owner, tmp_path)


def test_an_owner_lives_through_all_that_its_process_does_at_exit(tmp_path: Path) -> None:
    words = [sys.executable, "-c", ASK_AT_EXIT, str(tmp_path)]
    assert subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=True).stdout == "True\n"


def test_a_forked_child_has_no_part_in_the_lock(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path)
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        assert is_alive(lock.owner, tmp_path)
        lock.release()
        assert not is_alive(lock.owner, tmp_path)
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)
        for fd in (*ready, *done):
            os.close(fd)


def test_a_childs_end_takes_nothing_from_the_parent(tmp_path: Path) -> None:
    lock = OwnerLock(tmp_path)

    def act() -> bool:
        lock.release()
        return True

    assert in_child(act)
    assert in_child(lambda: is_alive(lock.owner, tmp_path))
    lock.release()


def test_a_child_is_an_owner_of_its_own(tmp_path: Path) -> None:
    parent = OwnerLock(tmp_path)

    def act() -> bool:
        own = OwnerLock(tmp_path)
        return own.owner.pid != parent.owner.pid and is_alive(own.owner, tmp_path) and is_alive(parent.owner, tmp_path)

    assert in_child(act)
    parent.release()


def test_where_the_file_is_gone_the_process_decides(tmp_path: Path) -> None:
    process, owner = start_holder(tmp_path)
    with process:
        remove_lock(tmp_path, owner)
        remove_lock(tmp_path, owner)
        assert is_alive(owner, tmp_path)
        assert not is_alive(evolve(owner, start=owner.start + 1), tmp_path)
        assert not is_alive(evolve(owner, boot="another"), tmp_path)
        process.kill()
        process.wait(WITHIN)
        assert not is_alive(owner, tmp_path)


def test_a_process_that_waits_to_be_reaped_is_dead(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    _, _, boot = own_process()
    start = int(Path(f"/proc/{child}/stat").read_text("ascii").rpartition(")")[2].split()[19])
    assert not is_alive(Owner("gone", child, start, boot), tmp_path)
    os.waitpid(child, 0)


def test_many_askers_at_once_get_the_same_answer(tmp_path: Path) -> None:
    process, owner = start_holder(tmp_path)
    with process:
        process.kill()
        process.wait(WITHIN)
        answers: list[bool] = []
        threads = [
            threading.Thread(target=lambda: answers.extend(is_alive(owner, tmp_path) for _ in range(50)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WITHIN)
    assert answers == [False] * 200


def test_only_files_that_nobody_holds_and_nobody_knows_are_stray(tmp_path: Path) -> None:
    process, theirs = start_holder(tmp_path)
    mine = OwnerLock(tmp_path)
    for name in ("stray.lock", "known.lock", "other"):
        (tmp_path / name).touch()
    with process:
        remove_stray_locks(tmp_path, {"known"})
        process.kill()
    expected = {"known.lock", "other", f"{mine.owner.token}.lock", f"{theirs.token}.lock"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    mine.release()


def test_a_file_that_cannot_be_locked_is_no_owner_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr("sandbox_kit.sessions.liveness.fcntl.lockf", refuse)
    for _ in range(3):
        with pytest.raises(SandboxUnavailableError, match="no locks"):
            OwnerLock(tmp_path)
    assert os.listdir("/proc/self/fd") == before
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="owner's lock"):
        OwnerLock(tmp_path / "missing")


@pytest.mark.parametrize("what", ["removed", "replaced", "locked"])
def test_a_lock_that_another_process_meddles_with_before_it_is_held_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    lock, meddled = fcntl.lockf, []

    def meddle(fd: int, how: int) -> None:
        if len(meddled) < 3:
            meddled.append(what)
            (path,) = tmp_path.iterdir()
            if what == "locked":
                raise BlockingIOError(errno.EAGAIN, "another one asks")
            path.unlink()
            if what == "replaced":
                path.touch()
        lock(fd, how)

    with monkeypatch.context() as patch:
        patch.setattr("sandbox_kit.sessions.liveness.fcntl.lockf", meddle)
        mine = OwnerLock(tmp_path)
    assert len(meddled) == 3
    assert [path.stem for path in tmp_path.iterdir()] == [mine.owner.token]
    assert in_child(lambda: is_alive(mine.owner, tmp_path))
    mine.release()
    assert not is_alive(mine.owner, tmp_path)


def test_a_lock_that_others_never_leave_alone_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "another one asks")

    monkeypatch.setattr("sandbox_kit.sessions.liveness.fcntl.lockf", refuse)
    monkeypatch.setattr("sandbox_kit.sessions.liveness._PAUSE", 0)
    with pytest.raises(SandboxUnavailableError, match="all the time"):
        OwnerLock(tmp_path)
    assert list(tmp_path.iterdir()) == []


TIDY = """
import sys
from pathlib import Path
from sandbox_kit.sessions.liveness import remove_stray_locks
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    remove_stray_locks(Path(sys.argv[1]), ())
"""


def test_who_tidies_up_meanwhile_takes_no_owner_its_lock(tmp_path: Path) -> None:
    directory, stop = tmp_path / "owners", tmp_path / "stop"
    directory.mkdir()
    words = [sys.executable, "-c", TIDY, str(directory), str(stop)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tidying:
        assert tidying.stdout is not None
        assert tidying.stdout.readline() == b"ready\n"
        locks = [OwnerLock(directory) for _ in range(300)]
        stop.touch()
        assert tidying.wait(WITHIN) == 0
    assert {path.stem for path in directory.iterdir()} == {lock.owner.token for lock in locks}
    assert in_child(lambda: all(is_alive(lock.owner, directory) for lock in locks))
