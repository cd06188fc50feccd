"""Commands: execute, and those in the background."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.console import ErrorText, Tool

from .consoles import HANGS_AFTER, text, tools

pytestmark = pytest.mark.skipif(os.name != "posix", reason="local commands need a POSIX system")


@pytest.fixture
def box() -> Iterator[LocalSandbox]:
    with LocalSandbox() as box:
        yield box


@pytest.fixture
def console(box: LocalSandbox) -> dict[str, Tool]:
    return tools(box)


def readers() -> list[threading.Thread]:
    """The threads that take the output of background processes."""
    return [each for each in threading.enumerate() if each.name == "sandbox-kit console"]


def output(console: dict[str, Tool], number: int, enough: str) -> str:
    """Return all that a background process printed until *enough* is among it."""
    found, until = "", time.monotonic() + HANGS_AFTER
    while enough not in found:
        assert time.monotonic() < until
        found += text(console["read_output"](process_id=number, wait=1)) + "\n"
    return found


def test_streams_and_exit_code_are_told_apart(console: dict[str, Tool]) -> None:
    result = console["execute"](command="echo out; echo err >&2; exit 3")
    assert result == "exit code 3\nstdout:\nout\nstderr:\nerr"
    assert not isinstance(result, ErrorText)


def test_a_command_without_output_says_so(console: dict[str, Tool]) -> None:
    assert console["execute"](command="true") == "exit code 0\n(no output)"


def test_a_command_starts_where_it_is_told(console: dict[str, Tool], box: LocalSandbox) -> None:
    box.mkdir("deep/er")
    assert text(console["execute"](command="pwd", cwd="deep/er")).endswith("/deep/er")
    assert isinstance(console["execute"](command="pwd", cwd="nowhere"), ErrorText)


def test_a_time_limit_is_told_with_what_came_before(console: dict[str, Tool]) -> None:
    limits = (1, 10, HANGS_AFTER)  # one after the other, on a machine too busy to print anything in time
    results = (text(console["execute"](command="echo early; sleep 60", timeout=limit)) for limit in limits)
    result = next(each for each in results if "early" in each)
    assert isinstance(result, ErrorText)
    assert re.match(r"Error: killed after its time limit of (1|10|60) s: .*run_in_background", result)
    assert result.endswith("stdout:\nearly")


def test_the_limit_of_the_sandbox_holds_where_none_is_given(box: LocalSandbox) -> None:
    box.default_timeout = 0.5
    assert "time limit of 0.5 s" in text(tools(box)["execute"](command="sleep 60"))


def test_long_output_keeps_both_ends_and_says_how_to_see_the_rest(console: dict[str, Tool], box: LocalSandbox) -> None:
    result = text(console["execute"](command="seq 100000"))
    assert len(result) < 21_000
    assert result.startswith("exit code 0\nstdout:\n1\n2\n")
    assert result.endswith("\n99999\n100000")
    assert re.search(r"\n\.\.\. [\d,]+ of 588,895 characters cut here: .* redirected to a file, .* read_file", result)


def test_output_that_was_not_kept_is_told_of(console: dict[str, Tool]) -> None:
    assert "more output than is kept" in text(console["execute"](command="head -c 12000000 /dev/zero | tr '\\0' x"))


def test_a_closed_sandbox_is_told_of() -> None:
    assert tools(LocalSandbox())["execute"](command="true") == "Error: the sandbox does not run; tell the user."


def test_output_in_the_background_comes_once_and_in_order(console: dict[str, Tool]) -> None:
    assert "process 1" in text(console["run_in_background"](command="echo a; echo b >&2; sleep 0.2; echo c"))
    printed = output(console, 1, "ended with exit code 0")
    assert sorted(re.findall(r"^[abc]$", printed, re.MULTILINE)) == ["a", "b", "c"]
    assert console["read_output"](process_id=1) == "process 1: ended with exit code 0\n(no new output)"


def test_a_reading_waits_no_longer_than_told(console: dict[str, Tool]) -> None:
    console["run_in_background"](command="sleep 60")
    assert console["read_output"](process_id=1, wait=0) == "process 1: running\n(no new output)"


def test_a_killed_process_is_gone(console: dict[str, Tool]) -> None:
    console["run_in_background"](command="echo up; sleep 60")
    output(console, 1, "up")
    assert console["kill_process"](process_id=1) == "Process 1 was killed."
    assert text(console["kill_process"](process_id=1)).startswith("process 1: ended")


def test_processes_are_listed_by_number(console: dict[str, Tool]) -> None:
    assert console["list_processes"]() == "Nothing was started in the background."
    console["run_in_background"](command="sleep 60")
    console["run_in_background"](command="exit 4")
    output(console, 2, "ended")
    assert console["list_processes"]() == ("process 1: running (sleep 60)\nprocess 2: ended with exit code 4 (exit 4)")


def test_a_number_that_nothing_has_is_told_with_those_that_there_are(console: dict[str, Tool]) -> None:
    console["run_in_background"](command="true")
    result = console["read_output"](process_id=7)
    assert isinstance(result, ErrorText)
    assert "there are: 1" in result


def test_much_output_comes_in_parts_and_old_output_is_dropped_with_a_count(console: dict[str, Tool]) -> None:
    console["run_in_background"](command="seq 300000; echo; echo the end")
    for thread in readers():
        thread.join(HANGS_AFTER)
    first = text(console["read_output"](process_id=1))
    assert re.search(r"\(\d{3},\d{3} characters of older output were dropped\)", first)
    assert re.search(r"\n\.\.\. [\d,]+ more characters: read_output\(process_id=1\)$", first)
    assert output(console, 1, "the end").rstrip().endswith("the end")


def test_a_line_longer_than_a_part_comes_in_parts(console: dict[str, Tool]) -> None:
    console["run_in_background"](command="head -c 70000 /dev/zero | tr '\\0' x; echo; echo end")
    parts = re.findall(r"^x+$", output(console, 1, "end\n"), re.MULTILINE)
    assert len("".join(parts)) == 70_000
    assert len(parts) > 1


def test_too_many_processes_are_refused(console: dict[str, Tool]) -> None:
    started = [console["run_in_background"](command="sleep 60") for _ in range(17)]
    assert [isinstance(each, ErrorText) for each in started] == [False] * 16 + [True]
    console["kill_process"](process_id=3)
    assert not isinstance(console["run_in_background"](command="sleep 60"), ErrorText)


def test_processes_end_with_the_sandbox_and_their_threads_with_them() -> None:
    with LocalSandbox() as box:
        console = tools(box)
        console["run_in_background"](command="echo up; sleep 60")
        output(console, 1, "up")
        threads = readers()
        assert threads
    for thread in threads:
        thread.join(HANGS_AFTER)
    assert not any(thread.is_alive() for thread in threads)
    assert "ended" in text(console["read_output"](process_id=1))
