"""Commands, file calls and background commands at once, from many threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import CommandTimeoutError, SandboxClosedError, SandboxTimeoutError

from .channels import GUARD, MakeBox, nothing_left, works

THREADS = 8
ROUNDS = 5


@pytest.fixture
def shared_box(image: str, make_box: MakeBox) -> DockerSandbox:
    return make_box(image, user=1000)


def at_once(work: Callable[[int], None], numbers: Sequence[int] = range(THREADS)) -> None:
    """Have each number worked on in a thread of its own; an error of any is raised."""
    with ThreadPoolExecutor(len(numbers)) as pool:
        for done in [pool.submit(work, number) for number in numbers]:
            done.result(timeout=2 * GUARD)


def test_threads_get_what_they_asked_for(engine: Engine, shared_box: DockerSandbox) -> None:
    def work(number: int) -> None:
        for round_ in range(ROUNDS):
            text = f"{number} {round_}"
            if number % 4 == 0:
                shared_box.write(f"file {number}", text)
                assert shared_box.read(f"file {number}") == text
            elif number % 4 == 1:
                assert shared_box.execute(["/bin/cat"], stdin=text, timeout=GUARD).stdout == text
            elif number == 2 and round_ == 0:
                with shared_box.spawn(f"echo {text}") as process:
                    assert list(process.stdout) == [f"{text}\n"]
            else:
                user = "root" if number == 3 else None
                result = shared_box.execute(f"(sleep 100 &) ; echo {text}; exit {number}", user=user, timeout=GUARD)
                assert (result.stdout, result.exit_code) == (f"{text}\n", number)

    at_once(work)
    works(shared_box)
    assert nothing_left(engine, shared_box)


def test_file_calls_go_on_beside_commands_that_end(shared_box: DockerSandbox) -> None:
    over = threading.Event()
    data = os.urandom(200_000)
    shared_box.write("data", data)

    def work(number: int) -> None:
        if number == 0:
            for _ in range(60):
                shared_box.execute("(sleep 100 &); sleep 0.01", timeout=GUARD)
            over.set()
        while not over.is_set():
            if number % 2:
                assert shared_box.read_bytes("data") == data
            else:
                assert [entry.path for entry in shared_box.ls("data")] == ["data"]

    at_once(work, range(4))


def test_a_search_goes_on_after_commands_between_its_matches(shared_box: DockerSandbox) -> None:
    for number in range(5):
        shared_box.write(f"d/{number}.txt", f"needle {number}\n" * 20_000)
    seen = 0
    with shared_box.grep("needle", "d") as matches:
        for match in matches:
            assert match.line.startswith("needle")
            if seen % 30_000 == 0:
                works(shared_box)
            seen += 1
    assert seen == 100_000


def test_commands_of_one_user_queue_and_the_wait_counts(shared_box: DockerSandbox) -> None:
    begun = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            shared_box.execute("echo on; sleep 2", on_output=lambda *_: begun.set(), timeout=GUARD)
            return
        assert begun.wait(GUARD)
        with pytest.raises(SandboxTimeoutError, match="not begun") as raised:
            shared_box.execute("echo never >never", timeout=0.2)
        assert not isinstance(raised.value, CommandTimeoutError)
        assert raised.value.timeout == 0.2

    at_once(work, range(3))
    assert not shared_box.exists("never")


@pytest.mark.parametrize("command", [{"command": "echo on; sleep 1000"}, {"command": "cat; sleep 1000", "stdin": "on"}])
def test_stopping_ends_commands_that_run_and_wait(image: str, make_box: MakeBox, command: dict[str, str]) -> None:
    box = make_box(image, user=1000)
    begun = threading.Event()
    ended: list[float] = []

    def work(number: int) -> None:
        if number == 0:
            assert begun.wait(GUARD)
            time.sleep(0.1)
            box.stop()
            ended.append(time.monotonic())
            return
        with pytest.raises(SandboxClosedError):
            box.execute(**command, on_output=lambda *_: begun.set())  # type: ignore[arg-type]
        ended.append(time.monotonic())

    at_once(work, range(4))
    assert max(ended) - min(ended) < 10
    works(box.start())
