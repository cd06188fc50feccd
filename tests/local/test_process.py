"""Running a command to its end: input, output, exit codes, limits."""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import job
from sandbox_kit.backends.local.groups import GroupTree
from sandbox_kit.backends.local.process import run
from sandbox_kit.errors import (
    CommandTimeoutError,
    InvalidArgumentError,
    PathNotDirectoryError,
    PathNotFoundError,
)
from sandbox_kit.types import CommandResult

from .processes import ENV, descriptors, eventually, living, python, sh, unique_seconds, zombies

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need a POSIX system")


@pytest.fixture(params=["supervised", "group"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of process tree, for what holds for both."""
    if request.param == "group":
        monkeypatch.setattr(job, "_create_tree", GroupTree)
    elif sys.platform != "linux":
        pytest.skip("supervisors need Linux")
    return str(request.param)


@pytest.mark.usefixtures("kind")
class TestResult:
    def test_streams_are_apart_and_together(self) -> None:
        result = sh("echo out; echo err >&2; exit 3")
        assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
        assert sorted(result.output.splitlines()) == ["err", "out"]
        assert not result.truncated
        assert result.duration > 0

    def test_output_keeps_the_order_of_arrival(self, tmp_path: Path) -> None:
        wait = "until test -e $name; do sleep 0.01; done"
        script = f"for i in 1 2 3; do name=out$i; echo $name; {wait}; name=err$i; echo $name >&2; {wait}; done"
        result = sh(script, cwd=str(tmp_path), on_output=lambda _, text: (tmp_path / text.strip()).touch(), timeout=60)
        assert result.output.split() == ["out1", "err1", "out2", "err2", "out3", "err3"]

    def test_bytes_are_kept_and_undecodable_ones_replaced_in_text(self) -> None:
        result = sh(r"printf 'a\377b\303'")
        assert result.stdout_bytes == b"a\xffb\xc3"
        assert result.stdout == "a\ufffdb\ufffd"

    def test_two_hundred_small_commands_lose_nothing(self) -> None:
        results = [run(["printf", "hello"], cwd="/", env=ENV) for _ in range(200)]
        assert {(result.exit_code, result.stdout) for result in results} == {(0, "hello")}

    @pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 255", 255), ("kill -TERM $$", 143)])
    def test_exit_code(self, script: str, code: int) -> None:
        assert sh(script).exit_code == code

    def test_death_by_kill_is_128_and_the_signal(self) -> None:
        assert sh("kill -KILL $$").exit_code == 137

    def test_a_missing_program_is_127(self) -> None:
        result = run(["no-such-program"], cwd="/", env=ENV)
        assert result.exit_code == 127
        assert result.stderr.startswith("no-such-program: ")

    def test_a_file_that_is_no_program_is_126(self, tmp_path: Path) -> None:
        (tmp_path / "notes").write_text("text")
        assert run(["./notes"], cwd=str(tmp_path), env=ENV).exit_code == 126

    def test_arguments_may_be_bytes_and_undecodable(self) -> None:
        assert run(["printf", "%s", b"\xff"], cwd="/", env=ENV).stdout_bytes == b"\xff"
        assert run(["printf", "%s", "\udcff"], cwd="/", env=ENV).stdout_bytes == b"\xff"

    def test_large_arguments_and_environment(self) -> None:
        result = run(["/bin/sh", "-c", "echo ${#1} ${#BIG}", "sh", "a" * 100_000], cwd="/", env={"BIG": "b" * 100_000})
        assert result.stdout == "100000 100000\n"


@pytest.mark.usefixtures("kind")
class TestSurroundings:
    def test_environment_is_the_given_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOST_SECRET", "secret")
        assert run(["/usr/bin/env"], cwd="/", env={"A": "1"}).stdout == "A=1\n"

    def test_program_is_looked_up_in_the_path_of_the_command(self, tmp_path: Path) -> None:
        (tmp_path / "tool").write_text("#!/bin/sh\necho found")
        (tmp_path / "tool").chmod(0o755)
        assert run(["tool"], cwd="/", env={"PATH": f"/nowhere:{tmp_path}"}).stdout == "found\n"

    def test_directory_by_name_and_by_descriptor(self, tmp_path: Path) -> None:
        fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found = [run(["pwd", "-P"], cwd=cwd, env=ENV).stdout for cwd in (str(tmp_path), fd)]
        finally:
            os.close(fd)
        assert found == [f"{tmp_path.resolve()}\n"] * 2

    def test_missing_directory(self, tmp_path: Path) -> None:
        with pytest.raises(PathNotFoundError):
            run(["true"], cwd=str(tmp_path / "gone"), env=ENV)

    def test_file_as_directory(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(PathNotDirectoryError):
            run(["true"], cwd=str(tmp_path / "file"), env=ENV)

    def test_only_passed_descriptors_are_inherited(self) -> None:
        read, write = os.pipe()
        try:
            result = run(python(f"import os; os.write({write}, b'passed')"), cwd="/", env=ENV, pass_fds=[write])
            assert result.exit_code == 0
            assert os.read(read, 100) == b"passed"
            listing = run(python("import os; print(*os.listdir('/proc/self/fd'))"), cwd="/", env=ENV).stdout
            assert set(listing.split()) <= {"0", "1", "2", "3"}
        finally:
            os.close(read)
            os.close(write)

    def test_signals_are_at_their_defaults(self) -> None:
        status = run(["cat", "/proc/self/status"], cwd="/", env=ENV).stdout
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert int(fields["SigBlk"], 16) == 0
        assert int(fields["SigIgn"], 16) & (1 << (signal.SIGPIPE - 1)) == 0

    def test_command_leads_a_session_of_its_own(self) -> None:
        assert run(python("import os; print(os.getsid(0) == os.getpid())"), cwd="/", env=ENV).stdout == "True\n"


@pytest.mark.usefixtures("kind")
class TestStdin:
    def test_is_empty_unless_given(self) -> None:
        assert sh("cat; read x; echo [$x]").stdout == "[]\n"

    @pytest.mark.parametrize("kind_of", [bytes, io.BytesIO])
    def test_bytes_and_file(self, kind_of: Callable[[bytes], Any]) -> None:
        assert run(["cat"], cwd="/", env=ENV, stdin=kind_of("é\n".encode())).stdout == "é\n"

    def test_empty(self) -> None:
        assert run(["cat"], cwd="/", env=ENV, stdin=b"").stdout == ""

    def test_large_input_and_output_do_not_deadlock(self) -> None:
        data = bytes(range(256)) * 8192
        assert run(["cat"], cwd="/", env=ENV, stdin=data).stdout_bytes == data

    def test_a_real_file_is_read_from_where_it_stands(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"skipped" + b"x" * 200_000)
        with open(tmp_path / "data", "rb") as file:
            file.read(7)
            assert run(["cat"], cwd="/", env=ENV, stdin=file).stdout == "x" * 200_000

    def test_a_pipe_is_read_as_it_fills(self) -> None:
        read, write = os.pipe()
        with open(read, "rb") as source, open(write, "wb", 0) as sink:

            def write_late() -> None:
                sink.write(b"late")
                sink.close()

            writer = threading.Timer(0.1, write_late)
            writer.start()
            assert run(["cat"], cwd="/", env=ENV, stdin=source).stdout == "late"
            writer.join()

    def test_a_raw_file_that_does_not_block_is_waited_for(self) -> None:
        read, write = os.pipe()
        os.set_blocking(read, False)
        with open(read, "rb", 0) as source, open(write, "wb", 0) as sink:
            sink.write(b"early")
            closing = threading.Timer(0.1, sink.close)
            closing.start()
            assert run(["cat"], cwd="/", env=ENV, stdin=source).stdout == "early"
            closing.join()

    def test_a_pipe_that_stays_silent_does_not_hold_the_call(self) -> None:
        read, write = os.pipe()
        with open(read, "rb") as source, open(write, "wb"):
            assert run(["true"], cwd="/", env=ENV, stdin=source, timeout=30).exit_code == 0

    def test_a_command_that_does_not_read_is_no_error(self) -> None:
        assert sh("exec 0<&-; sleep 0.1; echo done", stdin=b"x" * 1_000_000).stdout == "done\n"

    def test_an_error_of_the_source_passes_through(self) -> None:
        class Broken(io.RawIOBase):
            def read(self, size: int = -1) -> bytes:
                raise LookupError("source")

        mark = unique_seconds()
        with pytest.raises(LookupError, match="source"):
            run(["sleep", mark], cwd="/", env=ENV, stdin=Broken())  # type: ignore[arg-type]
        assert not living(mark)


@pytest.mark.usefixtures("kind")
class TestOnOutput:
    def test_gets_what_the_result_holds(self) -> None:
        pieces: list[tuple[str, str]] = []
        result = sh("echo out; sleep 0.05; echo err >&2", on_output=lambda *piece: pieces.append(piece))
        assert pieces == [("stdout", "out\n"), ("stderr", "err\n")]
        assert "".join(text for _, text in pieces) == result.output

    def test_a_character_split_over_reads_stays_whole(self) -> None:
        pieces: list[str] = []
        sh(r"printf '\303'; sleep 0.05; printf '\251'", on_output=lambda _, text: pieces.append(text))
        assert pieces == ["é"]

    def test_runs_in_the_calling_thread_while_the_command_runs(self, tmp_path: Path) -> None:
        threads = []

        def on_output(stream: str, text: str) -> None:
            threads.append(threading.current_thread())
            (tmp_path / "go").touch()

        script = "echo ready; until test -e go; do sleep 0.01; done"
        assert sh(script, cwd=str(tmp_path), on_output=on_output, timeout=30).exit_code == 0
        assert threads == [threading.current_thread()]

    def test_its_exception_kills_the_tree_and_passes_through(self) -> None:
        mark = unique_seconds()

        def on_output(stream: str, text: str) -> None:
            raise LookupError(text)

        with pytest.raises(LookupError, match="hi"):
            sh(f"sleep {mark} & echo hi; wait", on_output=on_output)
        assert not living(mark)


@pytest.mark.usefixtures("kind")
class TestMaxOutput:
    def test_cuts_the_end_of_both_streams_together(self) -> None:
        result = sh("printf 12345; sleep 0.05; printf 67890 >&2; exit 3", max_output=8)
        assert (result.stdout, result.stderr, result.output) == ("12345", "678", "12345678")
        assert (result.truncated, result.exit_code) == (True, 3)

    def test_output_of_exactly_the_limit_is_whole(self) -> None:
        assert not sh("printf 12345678", max_output=8).truncated

    def test_the_command_goes_on_to_its_exit(self) -> None:
        result = sh("head -c 3000000 /dev/zero; exit 3", max_output=100_000)
        assert (result.exit_code, len(result.stdout), result.truncated) == (3, 100_000, True)

    def test_zero_keeps_nothing(self) -> None:
        result = sh("echo hi", max_output=0)
        assert (result.stdout, result.truncated) == ("", True)


@pytest.mark.usefixtures("kind")
class TestTimeout:
    def test_keeps_the_partial_output(self) -> None:
        with pytest.raises(CommandTimeoutError) as caught:
            sh("echo a; echo b >&2; sleep 60", timeout=2)
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.timeout, error.result.exit_code, error.result.stdout, error.result.stderr) == (
            2,
            None,
            "a\n",
            "b\n",
        )

    def test_kills_what_ignores_term_with_its_children(self) -> None:
        mark = unique_seconds()
        with pytest.raises(CommandTimeoutError):
            sh(f"trap '' TERM; sleep {mark} & sleep {mark}; sleep {mark}", timeout=0.3)
        assert not living(mark)

    def test_holds_while_output_pours(self) -> None:
        with pytest.raises(CommandTimeoutError):
            sh("while :; do echo y; done", timeout=0.3, max_output=1000)

    def test_none_is_missed_when_the_command_is_quick(self) -> None:
        assert sh("sleep 0.1; echo ok", timeout=30).stdout == "ok\n"


@pytest.mark.usefixtures("kind")
class TestWhatIsLeftBehind:
    @pytest.mark.parametrize("prefix", ["", "nohup "])
    def test_a_background_child_that_holds_stdout_does_not_hold_the_call(self, prefix: str) -> None:
        mark = unique_seconds()
        result = sh(f"{prefix}sleep {mark} & echo hi", timeout=30)
        assert (result.exit_code, result.stdout) == (0, "hi\n")
        assert eventually(lambda: not living(mark))

    def test_no_zombies_and_no_descriptors(self) -> None:
        sh("true")
        before = descriptors()
        for _ in range(5):
            sh("sleep 100 & true", stdin=b"unread")
            run(["no-such-program"], cwd="/", env=ENV)
            with pytest.raises(CommandTimeoutError):
                sh("sleep 100", timeout=0.05)
            with pytest.raises(PathNotFoundError):
                run(["true"], cwd="/no/such/directory", env=ENV)
        sh("true")
        assert eventually(lambda: len(descriptors()) <= len(before))
        assert eventually(lambda: not zombies())


class TestArguments:
    def test_text_file_as_stdin(self) -> None:
        with pytest.raises(InvalidArgumentError):
            run(["cat"], cwd="/", env=ENV, stdin=io.StringIO("text"))  # type: ignore[arg-type]

    def test_file_that_never_blocks_and_cannot_be_waited_for(self) -> None:
        class Nothing(io.RawIOBase):
            def read(self, size: int = -1) -> None:
                return None

        with pytest.raises(InvalidArgumentError):
            run(["cat"], cwd="/", env=ENV, stdin=Nothing())  # type: ignore[arg-type]

    @pytest.mark.skipif(sys.platform != "linux", reason="supervisors need Linux")
    def test_too_many_descriptors(self) -> None:
        with pytest.raises(InvalidArgumentError):
            run(["true"], cwd="/", env=ENV, pass_fds=range(3, 300))
        assert run(["true"], cwd="/", env=ENV).ok


@pytest.mark.usefixtures("kind")
class TestThreads:
    def test_commands_at_once_do_not_meet(self) -> None:
        results: dict[int, CommandResult] = {}

        def work(number: int) -> None:
            for _ in range(5):
                results[number] = sh(f"sleep 0.05 & echo {number}; sleep 0.1; exit {number}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert {number: (result.exit_code, result.stdout) for number, result in results.items()} == {
            number: (number, f"{number}\n") for number in range(8)
        }
        assert eventually(lambda: not zombies())

    def test_works_inside_a_thread_without_signals_of_the_main_one(self) -> None:
        outcome: list[int | None] = []
        thread = threading.Thread(target=lambda: outcome.append(sh("exit 4").exit_code))
        thread.start()
        thread.join(30)
        assert outcome == [4]


def test_ends_soon_after_the_last_byte_of_a_large_output() -> None:
    began = time.monotonic()
    result = sh("head -c 50000000 /dev/zero | tr '\\0' x", timeout=60)
    assert (result.truncated, len(result.stdout)) == (True, 10 * 2**20)
    assert time.monotonic() - began < 30


@pytest.mark.skipif(sys.platform != "linux", reason="supervisors need Linux")
def test_a_program_is_not_looked_up_in_the_directory_without_a_path(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho found")
    (tmp_path / "tool").chmod(0o755)
    assert run(["tool"], cwd=str(tmp_path), env={}).exit_code == 127
    assert run(["echo", "ok"], cwd=str(tmp_path), env={}).stdout == "ok\n"
