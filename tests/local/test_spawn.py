"""A command that runs beside the caller."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sandbox_kit.backends.local import job
from sandbox_kit.backends.local.groups import GroupTree
from sandbox_kit.backends.local.process import LocalProcess, run, spawn
from sandbox_kit.backends.local.running import Running
from sandbox_kit.errors import (
    PathNotFoundError,
    SandboxClosedError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from sandbox_kit.types import Usage

from .processes import ENV, descriptors, eventually, living, sh, unique_seconds, zombies

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need a POSIX system")


@pytest.fixture(autouse=True, params=["supervised", "group"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "group":
        monkeypatch.setattr(job, "_create_tree", GroupTree)
    elif sys.platform != "linux":
        pytest.skip("supervisors need Linux")
    return str(request.param)


def shell(script: str, **options: Any) -> LocalProcess:
    return spawn(["/bin/sh", "-c", script], **{"cwd": "/", "env": ENV, **options})


@contextmanager
def errors_of_threads() -> Iterator[list[type[BaseException]]]:
    """The kinds of exceptions that end a thread meanwhile."""
    kinds: list[type[BaseException]] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda arguments: kinds.append(arguments.exc_type)
    try:
        yield kinds
    finally:
        sys.unraisablehook = before


class TestLife:
    def test_exit_code_after_the_end_and_none_before(self) -> None:
        with shell("read x; exit 3", stdin=subprocess.PIPE) as process:
            assert process.poll() is None
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 3
            assert process.poll() == 3

    def test_it_is_shown_with_its_pid_and_state(self) -> None:
        with shell("read x; exit 3", stdin=subprocess.PIPE) as process:
            assert repr(process) == f"<LocalProcess {process.pid}: running>"
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
            assert repr(process) == f"<LocalProcess {process.pid}: exit code 3>"

    def test_pid_is_that_of_the_command(self) -> None:
        with shell("echo $$") as process:
            assert list(process.stdout) == [f"{process.pid}\n"]

    def test_a_wait_that_times_out_leaves_it_running(self) -> None:
        with shell("sleep 60") as process:
            with pytest.raises(SandboxTimeoutError) as caught:
                process.wait(0.05)
            assert caught.value.timeout == 0.05
            assert process.poll() is None

    def test_kill_ends_the_whole_tree(self) -> None:
        mark = unique_seconds()
        with shell(f"trap '' TERM; sleep {mark} & sleep {mark}; true") as process:
            assert eventually(lambda: len(living(mark)) == 3)
            process.kill()
            assert not living(mark)
            assert process.poll() == 137

    def test_kill_after_the_end_changes_nothing(self) -> None:
        with shell("exit 3") as process:
            process.wait(30)
            process.kill()
            assert process.poll() == 3

    def test_kill_after_the_end_spares_the_next_command(self) -> None:
        ended = shell("true")
        ended.wait(30)
        with shell("sleep 0.3; exit 4") as process:
            ended.kill()
            assert process.wait(30) == 4

    def test_leaving_with_kills_it(self) -> None:
        mark = unique_seconds()
        with pytest.raises(LookupError), shell(f"sleep {mark}; true"):
            raise LookupError
        assert not living(mark)

    def test_dropping_a_cycle_kills_it_whatever_thread_collects(self) -> None:
        mark = unique_seconds()
        process = shell(f"sleep {mark}; true")
        process.myself = process  # type: ignore[attr-defined]
        del process
        gc.collect()
        assert eventually(lambda: not living(mark))

    def test_dropping_it_kills_it(self) -> None:
        mark = unique_seconds()
        process = shell(f"sleep {mark}; true")
        assert eventually(lambda: bool(living(mark)))
        del process
        assert eventually(lambda: not living(mark))

    def test_what_it_leaves_behind_ends_with_it(self) -> None:
        mark = unique_seconds()
        with shell(f"sleep {mark} & echo hi") as process:
            assert list(process.stdout) == ["hi\n"]
            assert process.wait(30) == 0
            assert eventually(lambda: not living(mark))

    def test_no_zombies_and_no_descriptors(self) -> None:
        sh("true")
        before = descriptors()
        for _ in range(5):
            with shell("echo hi; sleep 60", stdin=subprocess.PIPE) as process:
                assert next(process.stdout) == "hi\n"
            with pytest.raises(PathNotFoundError):
                shell("true", cwd="/no/such/directory")
        sh("true")
        del process
        assert eventually(lambda: len(descriptors()) <= len(before))
        assert eventually(lambda: not zombies())

    def test_runs_beside_other_commands(self) -> None:
        with shell("sleep 0.3; echo first; exit 1") as first, shell("echo second; exit 2") as second:
            assert run(["echo", "third"], cwd="/", env=ENV).stdout == "third\n"
            assert (second.wait(30), list(second.stdout)) == (2, ["second\n"])
            assert (first.wait(30), list(first.stdout)) == (1, ["first\n"])

    def test_a_missing_program_is_127(self) -> None:
        with spawn(["no-such-program"], cwd="/", env=ENV) as process:
            assert process.wait(30) == 127
            assert "no-such-program" in "".join(process.stderr)


class TestRunning:
    def test_usage_counts_the_whole_tree(self) -> None:
        running = Running()
        with shell("sleep 60 & sleep 60 & echo ready; wait", running=running) as process:
            assert next(process.stdout) == "ready\n"
            used = running.usage()
            assert used.pids == 3
            assert used.memory is not None
            assert used.memory > 100_000
            assert used.cpu_seconds is not None

    def test_usage_counts_what_has_left_the_tree(self, kind: str) -> None:
        if kind == "group":
            pytest.skip("what leaves a group is lost sight of")
        running = Running()
        with shell(f"(setsid sleep {unique_seconds()} &); echo ready; sleep 60; true", running=running) as process:
            assert next(process.stdout) == "ready\n"
            assert eventually(lambda: running.usage().pids == 3)

    def test_usage_is_nothing_after_the_end(self) -> None:
        running = Running()
        with shell("exit 0", running=running) as process:
            process.wait(30)
            assert running.usage() == Usage(memory=0, cpu_seconds=0.0, pids=0)

    def test_its_end_kills_all_and_takes_no_more(self) -> None:
        mark = unique_seconds()
        running = Running()
        with shell(f"sleep {mark}; true", running=running) as process:
            assert eventually(lambda: bool(living(mark)))
            running.end()
            assert not living(mark)
            assert process.poll() == 137
            with pytest.raises(SandboxClosedError):
                shell("true", running=running)
            with pytest.raises(SandboxClosedError):
                sh("true", running=running)

    def test_its_end_spares_the_commands_of_others(self) -> None:
        running = Running()
        with shell("read x; exit 3", stdin=subprocess.PIPE) as other, shell("sleep 60", running=running):
            running.end()
            assert other.poll() is None
            assert other.stdin is not None
            other.stdin.close()
            assert other.wait(30) == 3

    @pytest.mark.parametrize("moment", ["before the supervisor", "before the program"])
    def test_its_end_meets_a_command_that_is_being_started(self, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
        mark = unique_seconds()
        running = Running()
        ending = threading.Thread(target=running.end)
        create = job._create_tree

        def create_late() -> Any:
            if moment == "before the supervisor":
                ending.start()
            tree = create()
            if moment == "before the program":
                ending.start()
            ending.join(0.05)
            return tree

        monkeypatch.setattr(job, "_create_tree", create_late)
        with pytest.raises(SandboxClosedError):
            sh(f"sleep {mark}; true", running=running)
        ending.join(30)
        assert not ending.is_alive()
        assert not living(mark)


class TestEnd:
    def test_is_told_once_when_the_tree_is_dead(self) -> None:
        mark = unique_seconds()
        seen: list[list[str]] = []
        with shell(f"sleep {mark} & echo hi", on_end=lambda: seen.append(living(mark))) as process:
            assert process.wait(30) == 0
            assert seen == [[]]
            process.kill()
        assert seen == [[]]

    def test_is_told_of_a_start_that_fails(self) -> None:
        seen: list[str] = []
        with pytest.raises(PathNotFoundError):
            shell("true", cwd="/no/such/directory", on_end=lambda: seen.append("end"))
        assert seen == ["end"]

    def test_is_told_when_the_handle_is_dropped(self) -> None:
        ended = threading.Event()
        process = shell("sleep 60", on_end=ended.set)
        assert not ended.is_set()
        del process
        assert ended.wait(30)

    def test_an_error_of_who_is_told_does_not_hold_it(self) -> None:
        def fail() -> None:
            raise LookupError

        with errors_of_threads() as errors, shell("exit 3", on_end=fail) as process:
            assert process.wait(30) == 3
            assert eventually(lambda: errors == [LookupError])

    def test_what_owns_it_lives_as_long_as_the_handle(self) -> None:
        class Owner:
            pass

        owner = Owner()
        alive = weakref.ref(owner)
        process = shell("true", owner=owner)
        del owner
        process.wait(30)
        assert alive() is not None
        del process
        gc.collect()
        assert alive() is None


class TestOutput:
    def test_streams_are_iterators_of_lines_with_their_ends(self) -> None:
        with shell("printf 'a\\nb\\r\\nc'; echo err >&2") as process:
            assert list(process.stdout) == ["a\n", "b\r\n", "c"]
            assert list(process.stderr) == ["err\n"]

    def test_a_line_is_there_as_soon_as_it_is_printed(self) -> None:
        with shell("echo ready; read x; echo $x", stdin=subprocess.PIPE) as process:
            assert next(process.stdout) == "ready\n"
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
            assert next(process.stdout) == "go\n"
            with pytest.raises(StopIteration):
                next(process.stdout)

    def test_nobody_has_to_read(self) -> None:
        with shell("head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2; exit 3", max_output=1000) as process:
            assert process.wait(60) == 3
            assert process.stdout.dropped == 5_000_000 - 1000

    def test_unread_output_over_the_limit_drops_the_oldest_lines(self) -> None:
        with shell("seq 1000", max_output=16) as process:
            process.wait(30)
            assert list(process.stdout) == ["998\n", "999\n", "1000\n"]

    def test_a_closed_stream_does_not_end_the_process(self) -> None:
        with shell("exec >&-; sleep 0.1; echo late >&2; exit 3") as process:
            assert list(process.stderr) == ["late\n"]
            assert process.wait(30) == 3

    def test_can_be_read_in_threads(self) -> None:
        with shell("for i in 1 2 3; do echo $i; echo $i >&2; done") as process:
            lines: dict[str, list[str]] = {}
            threads = [
                threading.Thread(target=lambda name=name, stream=stream: lines.update({name: list(stream)}))
                for name, stream in (("out", process.stdout), ("err", process.stderr))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
        assert lines == {"out": ["1\n", "2\n", "3\n"], "err": ["1\n", "2\n", "3\n"]}


class TestStdin:
    def test_is_empty_unless_given(self) -> None:
        with shell("cat; echo end") as process:
            assert process.stdin is None
            assert list(process.stdout) == ["end\n"]

    def test_bytes(self) -> None:
        with shell("cat", stdin=b"text") as process:
            assert process.stdin is None
            assert list(process.stdout) == ["text"]

    def test_more_than_a_pipe_holds_can_be_written(self) -> None:
        with shell("wc -c", stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(b"x" * 1_000_000)
            process.stdin.close()
            assert int(next(process.stdout)) == 1_000_000

    def test_unflushed_input_is_no_error_at_the_end(self) -> None:
        with shell("sleep 60", stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(b"never read")
        assert process.poll() == 137


@pytest.mark.skipif(sys.platform != "linux", reason="supervisors need Linux")
def test_an_unknown_end_is_an_error(kind: str) -> None:
    if kind == "group":
        pytest.skip("a group has no supervisor to lose")
    with shell("read x; kill -KILL $PPID; sleep 60", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert list(process.stdout) == []
        with pytest.raises(SandboxUnavailableError):
            process.wait(30)
        with pytest.raises(SandboxUnavailableError):
            process.poll()


def test_a_stranger_that_holds_the_pipe_does_not_hold_the_end() -> None:
    with shell("echo hi; read x", stdin=subprocess.PIPE) as process:
        assert next(process.stdout) == "hi\n"
        held = os.open(f"/proc/{process.pid}/fd/1", os.O_WRONLY)
        try:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 1
            assert list(process.stdout) == []
        finally:
            os.close(held)
