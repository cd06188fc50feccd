"""execute: what runs, with what, and what comes back."""

from __future__ import annotations

import io
from typing import Any

import pytest

from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import (
    CommandFailedError,
    InvalidArgumentError,
    PathNotDirectoryError,
    PathNotFoundError,
    UnsupportedError,
)
from sandbox_kit.testing.base import Conformance, fill, paths
from sandbox_kit.testing.sharing import together
from sandbox_kit.types import CommandResult

__all__ = ["CommandConformance", "OutputConformance", "SandboxTests"]


class SandboxTests(Conformance):
    """The fixture of tests that run commands."""

    @pytest.fixture
    def sandbox(self, backend: Backend) -> Sandbox:
        """The started sandbox under test."""
        assert isinstance(backend, Sandbox)
        return backend


class CommandConformance(SandboxTests):
    """What a command is given."""

    def test_a_text_goes_to_the_shell(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("echo one; echo two | cat")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "one\ntwo\n", "")
        assert result.ok
        assert result.duration >= 0

    @pytest.mark.parametrize("word", ["two words", "it's", "$HOME", "*", "a\nb", "", "-e", "ü", "; echo x", "`id`"])
    def test_a_sequence_reaches_the_program_word_by_word(self, sandbox: Sandbox, word: str) -> None:
        result = sandbox.execute(["printf", "[%s]", word, "end"])
        assert result.stdout == f"[{word}][end]"

    @pytest.mark.parametrize("code", [0, 1, 2, 127, 255])
    def test_an_exit_code_is_a_result(self, sandbox: Sandbox, code: int) -> None:
        result = sandbox.execute(f"echo out; exit {code}")
        assert (result.exit_code, result.stdout, result.ok) == (code, "out\n", code == 0)

    @pytest.mark.parametrize("number", [9, 15])
    def test_death_by_a_signal_is_128_and_its_number(self, sandbox: Sandbox, number: int) -> None:
        assert sandbox.execute(f"kill -{number} $$").exit_code == 128 + number

    def test_a_program_that_is_missing_is_a_result(self, sandbox: Sandbox) -> None:
        assert sandbox.execute("no-such-program-anywhere").exit_code == 127
        assert sandbox.execute(["no-such-program-anywhere"]).exit_code == 127

    def test_a_file_that_is_no_program_is_a_result(self, sandbox: Sandbox) -> None:
        sandbox.write("f", "x")
        assert sandbox.execute(["./f"]).exit_code == 126

    def test_check_raises_for_a_failure_only(self, sandbox: Sandbox) -> None:
        assert sandbox.execute("echo fine", check=True).stdout == "fine\n"
        with pytest.raises(CommandFailedError) as caught:
            sandbox.execute("echo out; echo why >&2; exit 3", check=True)
        assert caught.value.result.exit_code == 3
        assert caught.value.result.stdout == "out\n"
        assert "why" in str(caught.value)

    def test_files_and_commands_see_the_same_workspace(self, sandbox: Sandbox) -> None:
        sandbox.write("d/in", "from a file\n")
        sandbox.execute("cat d/in > out; chmod 755 out", check=True)
        assert sandbox.read("out") == "from a file\n"
        assert sandbox.stat("out").mode == 0o755
        sandbox.write("out", "#!/bin/sh\necho ran\n")
        assert sandbox.execute(["./out"], check=True).stdout == "ran\n"

    def test_a_command_starts_in_the_work_directory(self, sandbox: Sandbox) -> None:
        assert sandbox.execute("pwd -P", check=True).stdout == f"{sandbox.work_dir}\n"

    @pytest.mark.parametrize("cwd", ["d/e", "./d//e/", "{work_dir}/d/e"])
    def test_cwd_is_where_a_command_starts(self, sandbox: Sandbox, cwd: str) -> None:
        fill(sandbox, {"d/e/f": "x"})
        result = sandbox.execute("pwd -P; cat f", cwd=cwd.format(work_dir=sandbox.work_dir), check=True)
        assert result.stdout == f"{sandbox.work_dir}/d/e\nx"

    def test_cwd_must_be_a_directory(self, sandbox: Sandbox) -> None:
        sandbox.write("f", "x")
        for cwd, error in (("missing", PathNotFoundError), ("f", PathNotDirectoryError)):
            with pytest.raises(error):
                sandbox.execute("touch ran", cwd=cwd)
        assert paths(sandbox.ls()) == ["f"]

    def test_the_environment_of_the_host_is_not_passed_on(
        self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SANDBOX_KIT_TEST_TOKEN", "secret")
        result = sandbox.execute("env", check=True)
        assert "secret" not in result.output
        names = {line.partition("=")[0] for line in result.stdout.splitlines()}
        assert {"PATH", "HOME", "LANG", "TERM"} <= names
        assert f"HOME={sandbox.work_dir}\n" in result.stdout

    def test_env_adds_variables(self, sandbox: Sandbox) -> None:
        env = {"PLAIN": "1", "AWKWARD": "a b'\"$x\nü", "EMPTY": "", "LANG": "C"}
        result = sandbox.execute('printf "%s|" "$PLAIN" "$AWKWARD" "${EMPTY-unset}" "$LANG"', env=env, check=True)
        assert result.stdout == "1|a b'\"$x\nü||C|"
        assert sandbox.execute("echo ${PLAIN-unset}").stdout == "unset\n"

    @pytest.mark.parametrize("command", ["cat", 'read x; echo "[$x]"', "wc -c"])
    def test_stdin_is_empty_unless_given(self, sandbox: Sandbox, command: str) -> None:
        result = sandbox.execute(command, timeout=self.hang_guard)
        assert result.stdout.strip() in {"", "[]", "0"}

    def test_stdin_is_what_is_given(self, sandbox: Sandbox) -> None:
        for stdin, expected in (
            ("text ü\n", "text ü\n".encode()),
            (b"\0\xff", b"\0\xff"),
            (b"", b""),
            (io.BytesIO(b"from a file"), b"from a file"),
        ):
            assert sandbox.execute("cat", stdin=stdin, timeout=self.hang_guard).stdout_bytes == expected

    def test_a_large_stdin_does_not_hold_its_output(self, sandbox: Sandbox) -> None:
        data = b"0123456789abcde\n" * 2**16
        assert sandbox.execute("cat", stdin=data, timeout=self.hang_guard).stdout_bytes == data

    def test_a_stdin_that_nobody_reads_is_no_error(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("exit 3", stdin=b"x" * 2**21, timeout=self.hang_guard)
        assert result.exit_code == 3

    @pytest.mark.parametrize(
        "arguments",
        [
            {"command": ""},
            {"command": []},
            {"command": [""]},
            {"command": "touch ran\0"},
            {"command": ["touch", "ran\0"]},
            {"command": ["touch", 1]},
            {"timeout": 0},
            {"timeout": -1},
            {"timeout": float("nan")},
            {"timeout": float("inf")},
            {"timeout": True},
            {"timeout": "1"},
            {"cwd": "a\0b"},
            {"cwd": 1},
            {"env": {"A=B": "x"}},
            {"env": {"": "x"}},
            {"env": {"A": "x\0"}},
            {"env": {"A": 1}},
            {"stdin": 7},
            {"max_output": 0},
            {"max_output": -1},
            {"max_output": "many"},
        ],
        ids=repr,
    )
    def test_a_bad_argument_is_refused_and_nothing_runs(self, sandbox: Sandbox, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError):
            sandbox.execute(**{"command": "touch ran", **arguments})
        assert sandbox.ls() == []

    def test_a_user_can_be_given_where_the_capabilities_say_so(self, sandbox: Sandbox) -> None:
        if sandbox.capabilities.users:
            assert sandbox.execute("id -u", user=0, check=True).stdout == "0\n"
        else:
            with pytest.raises(UnsupportedError):
                sandbox.execute("touch ran", user="no-such-user-anywhere")
            assert sandbox.ls() == []


class OutputConformance(SandboxTests):
    """What a command prints."""

    def test_the_streams_are_apart_and_together(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("echo out; echo err >&2")
        assert (result.stdout, result.stderr) == ("out\n", "err\n")
        assert sorted(result.output.splitlines()) == ["err", "out"]

    @pytest.mark.parametrize("text", ["hello", "Hello, World", '{"a": true}', "null", "123", '"x"', "a\r\nb\rc", "\n"])
    def test_output_is_exact(self, sandbox: Sandbox, text: str) -> None:
        result = sandbox.execute(["printf", "%s", text])
        assert (result.stdout, result.stderr, result.output) == (text, "", text)

    def test_bytes_that_are_no_utf8_are_kept_beside_the_text(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("printf 'a\\377b'; printf '\\303\\050' >&2")
        assert (result.stdout, result.stdout_bytes) == ("a�b", b"a\xffb")
        assert (result.stderr, result.stderr_bytes) == ("�(", b"\xc3(")

    def test_a_large_output_is_whole(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done")
        assert result.stdout == "0123456789\n" * 20000
        assert not result.truncated

    def test_much_on_both_streams_does_not_hold_the_call(self, sandbox: Sandbox) -> None:
        result = sandbox.execute(
            "head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 300000 /dev/zero | tr '\\0' o",
            timeout=self.hang_guard,
        )
        assert (result.stdout, result.stderr) == ("o" * 300000, "e" * 300000)

    def test_output_over_the_limit_is_cut_and_told(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("head -c 1000000 /dev/zero | tr '\\0' x; exit 3", max_output=1000)
        assert (result.exit_code, result.truncated) == (3, True)
        assert result.stdout == "x" * 1000

    def test_output_of_the_limit_is_whole(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("head -c 1024 /dev/zero | tr '\\0' x", max_output="1k")
        assert (len(result.stdout), result.truncated) == (1024, False)

    def test_output_is_handed_over_as_it_comes(self, sandbox: Sandbox) -> None:
        pieces: list[tuple[str, str]] = []
        result = sandbox.execute(
            "echo one; printf '\\303'; sleep 0.2; printf '\\274\\n'; echo err >&2",
            on_output=lambda stream, text: pieces.append((stream, text)),
        )
        assert "".join(text for stream, text in pieces if stream == "stdout") == "one\nü\n" == result.stdout
        assert "".join(text for stream, text in pieces if stream == "stderr") == "err\n"
        assert "".join(text for _, text in pieces) == result.output

    def test_what_a_listener_raises_passes_through(self, sandbox: Sandbox) -> None:
        def stop(stream: str, text: str) -> None:
            raise KeyError(text)

        with pytest.raises(KeyError):
            sandbox.execute("echo x; sleep 60", on_output=stop, timeout=self.hang_guard)
        assert sandbox.execute("echo again").stdout == "again\n"

    def test_a_command_from_within_a_listener_runs_or_is_refused(self, sandbox: Sandbox) -> None:
        """One that would have to wait for the end of the command that it listens to is UnsupportedError."""
        heard: list[str] = []

        def listen(stream: str, text: str) -> None:
            try:
                heard.append(sandbox.execute("echo inner", timeout=self.hang_guard).stdout)
            except UnsupportedError as error:
                heard.append(str(error))

        result = sandbox.execute("echo outer; exit 3", on_output=listen, timeout=self.hang_guard)
        assert (result.stdout, result.exit_code) == ("outer\n", 3)
        assert heard
        assert all(heard)
        assert sandbox.execute("echo again").stdout == "again\n"

    def test_an_interrupt_ends_the_command_and_leaves_the_sandbox(self, sandbox: Sandbox) -> None:
        def interrupt(stream: str, text: str) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sandbox.execute("echo x; sleep 60", on_output=interrupt, timeout=self.hang_guard)
        assert sandbox.execute("echo again").stdout == "again\n"

    def test_a_result_has_no_truth_value(self, sandbox: Sandbox) -> None:
        result = sandbox.execute("exit 1")
        assert isinstance(result, CommandResult)
        with pytest.raises(TypeError, match=r"\.ok"):
            bool(result)

    def test_output_is_exact_many_times(self, sandbox: Sandbox) -> None:
        assert {sandbox.execute(["printf", "hello"]).stdout for _ in range(30)} == {"hello"}

    def test_threads_get_their_own_output(self, sandbox: Sandbox) -> None:
        def work(number: int) -> None:
            for turn in range(5):
                result = sandbox.execute(f"echo {number} {turn}; exit {number}")
                assert (result.stdout, result.exit_code) == (f"{number} {turn}\n", number)

        together(work)
