"""Turns at one thing: of threads and processes that hold it, one holder at a time."""

from __future__ import annotations

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
    inside: list[int] = []
    most: list[int] = []

    def use(number: int) -> None:
        turns = Turns(key, lambda: None)
        for _ in range(30):
            with turns.call(soon()):
                inside.append(number)
                most.append(len(set(inside)))
                inside.remove(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD)
    assert (len(most), max(most)) == (120, 1)


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
