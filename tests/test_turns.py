"""Turns at one thing: of threads and processes that hold it, one holder at a time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from sandbox_kit.errors import SandboxTimeoutError
from sandbox_kit.host.turns import Turns

GUARD = 60.0
WORKER = """
import sys
from sandbox_kit.host.turns import Turns
key, path = sys.argv[1:]
turns = Turns(key, lambda: None)
for _ in range(40):
    with turns.call(None):
        number = int(open(path).read())
        open(path, "w").write(str(number + 1))
"""


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


def soon(seconds: float = GUARD) -> float:
    return time.monotonic() + seconds


def test_processes_have_it_one_after_the_other(key: str, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    started = [subprocess.Popen([sys.executable, "-c", WORKER, key, str(counter)]) for _ in range(4)]
    assert [process.wait(GUARD) for process in started] == [0] * 4
    assert counter.read_text() == "160"


def test_holders_in_threads_have_it_one_after_the_other(key: str) -> None:
    inside: set[int] = set()
    crowds: list[int] = []

    def use(number: int) -> None:
        turns = Turns(key, lambda: None)
        for _ in range(10):
            with turns.call(soon()):
                inside.add(number)
                time.sleep(0.001)
                crowds.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD)
    assert crowds == [1] * 40


def test_calls_that_overlap_do_not_keep_another_holder_waiting(key: str) -> None:
    busy, over = Turns(key, lambda: None), threading.Event()

    def overlap() -> None:
        while not over.is_set():
            with busy.call(soon()):
                time.sleep(0.005)

    threads = [threading.Thread(target=overlap) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with Turns(key, lambda: None).call(soon(20.0)):
            pass
    finally:
        over.set()
        for thread in threads:
            thread.join(GUARD)


def test_calls_beside_a_command_go_on_while_another_waits(key: str) -> None:
    busy, entered = Turns(key, lambda: None), threading.Event()
    other = Turns(key, lambda: None)

    def wait() -> None:
        with other.call(soon()):
            entered.set()

    thread = threading.Thread(target=wait)
    with busy.call(soon(), command=True):
        thread.start()
        while not busy._place._waiting:
            time.sleep(0.001)
        beside = threading.Thread(target=lambda: busy.call(soon()).__enter__())
        beside.start()
        beside.join(GUARD)
        assert not entered.is_set()
    assert not entered.is_set()
    busy._place.leave(command=False)
    thread.join(GUARD)
    assert entered.is_set()


def test_a_file_that_cannot_be_written_keeps_nobody_waiting(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        for _ in range(2):
            with Turns(key, lambda: None).call(soon()):
                pass


def test_an_error_at_the_beginning_of_a_turn_lets_others_have_it(key: str) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with Turns(key, lambda: None).call(soon()):
        pass
    with pytest.raises(ZeroDivisionError), Turns(key, fail).call(soon()):
        pass
    with Turns(key, lambda: None).call(soon(5.0)):
        pass


def test_a_holder_that_is_killed_lets_others_have_it(key: str) -> None:
    code = f"import time; from sandbox_kit.host.turns import Turns; t = Turns({key!r}, lambda: None)\n"
    code += "with t.call(None): print('holds', flush=True); time.sleep(100)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"
        with pytest.raises(SandboxTimeoutError), Turns(key, lambda: None).call(soon(0.1)):
            pass
        holder.kill()
        with Turns(key, lambda: None).call(soon()):
            pass


def test_one_holder_makes_several_calls_at_once(key: str) -> None:
    turns = Turns(key, lambda: None)
    with turns.call(soon()), turns.call(soon()):
        pass
    with Turns(key, lambda: None).call(soon()):
        pass


def test_who_waits_for_another_gives_up_at_the_deadline(key: str) -> None:
    late = Turns(key, lambda: None).call(soon(0.05))
    with Turns(key, lambda: None).call(None), pytest.raises(SandboxTimeoutError), late:
        pass


def test_a_holder_is_told_of_another_that_came_between(key: str) -> None:
    told: list[str] = []
    first, second = Turns(key, lambda: told.append("first")), Turns(key, lambda: told.append("second"))
    for holder in (first, first, second, second, first):
        with holder.call(soon()):
            pass
    assert told[-2:] == ["second", "first"]
    assert told.count("second") == 1


def test_an_error_in_a_call_lets_others_have_it(key: str) -> None:
    with pytest.raises(ZeroDivisionError), Turns(key, lambda: None).call(soon()):
        raise ZeroDivisionError
    with Turns(key, lambda: None).call(soon(1.0)):
        pass
