"""The mark of a process tells whether it lives, and says so only where that can be known."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable

import pytest
from attrs import evolve

from sandbox_kit.host import marks
from sandbox_kit.host.marks import Mark, fate, own_mark, read_mark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no process has a mark")

PRINT_MARK = "import sys; from sandbox_kit.host.marks import own_mark; print(own_mark(), flush=True); sys.stdin.read()"


def own() -> Mark:
    mark = read_mark(own_mark())
    assert mark is not None
    return mark


def other() -> str:
    """Something else of the same kind."""
    return str(uuid.uuid4())


def test_a_process_that_runs_is_alive_and_one_that_ended_is_dead() -> None:
    assert fate(own_mark()) == "alive"
    command = [sys.executable, "-c", PRINT_MARK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        mark = process.stdout.readline().strip()
        assert fate(mark) == "alive"
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert fate(mark) == "dead"
    assert fate(mark) == "dead"


def test_a_forked_child_has_a_mark_of_its_own() -> None:
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, own_mark().encode())
        os._exit(0)
    os.waitpid(child, 0)
    mark = os.read(reader, 1000).decode()
    os.close(reader)
    os.close(writer)
    assert (mark != own_mark(), fate(mark)) == (True, "dead")


def test_a_number_that_another_process_has_by_now_is_dead() -> None:
    assert fate(str(evolve(own(), start=own().start - 1))) == "dead"


def test_a_thread_is_no_process() -> None:
    mark, over = own(), threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert fate(str(evolve(mark, pid=thread.native_id, start=0))) == "dead"
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda mark: evolve(mark, boot=other()), "dead"),
        (lambda mark: evolve(mark, boot=other(), machine=""), "unknown"),
        (lambda mark: evolve(mark, boot=other(), machine="feed"), "unknown"),
        (lambda mark: evolve(mark, boot=other(), space="4026531999-1"), "unknown"),
        (lambda mark: evolve(mark, space="4026531999-1"), "unknown"),
    ],
    ids=["earlier boot", "nameless machine", "another machine", "a boot's container", "a container"],
)
def test_what_is_not_of_here_is_dead_only_by_an_earlier_boot(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Mark], Mark], told: str
) -> None:
    at_home = evolve(own(), machine="cafe", space="4026531836-1")
    monkeypatch.setattr(marks, "_own", lambda: at_home)
    assert fate(str(change(at_home))) == told


def test_a_nameless_machine_knows_no_earlier_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = evolve(own(), machine="", space="4026531836-1")
    monkeypatch.setattr(marks, "_own", lambda: nameless)
    assert fate(str(evolve(nameless, boot=other()))) == "unknown"


@pytest.mark.parametrize(
    "text",
    ["", "x", "a.b.c.d.e", "feed.1-2.boot.1.1", own_mark() + "\n", own_mark() + ".1"],
    ids=["nothing", "a word", "words", "numbers in the wrong places", "a mark and a line end", "a mark and more"],
)
def test_what_is_no_mark_is_unknown(text: str) -> None:
    assert fate(text) == "unknown"


def test_a_process_that_another_user_hides_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def hide(process: str) -> list[str]:
        if process == "self":
            return told(process)
        raise FileNotFoundError(process)

    def refuse(*_: object) -> None:
        raise PermissionError

    told = marks._told
    monkeypatch.setattr(marks, "_told", hide)
    monkeypatch.setattr(os, "kill", refuse)
    assert fate(own_mark()) == "alive"


def test_where_proc_is_that_of_another_namespace_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = own_mark()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert (own_mark(), fate(mark)) == ("", "unknown")


def test_a_mark_can_be_a_files_name() -> None:
    assert "/" not in own_mark()
    assert len(own_mark()) < 200
