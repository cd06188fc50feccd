"""Checks of what callers pass in."""

from __future__ import annotations

import io
import subprocess
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit import arguments
from sandbox_kit.errors import InvalidArgumentError


class TestCheckCount:
    @given(st.integers(min_value=0))
    def test_an_integer_from_zero_on_is_a_count(self, value: int) -> None:
        assert arguments.check_count(value, "offset") == value

    @pytest.mark.parametrize("value", [-1, -(10**30), True, False, 1.0, "1", None])
    def test_anything_else_is_refused_by_name(self, value: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=r"^offset: "):
            arguments.check_count(value, "offset")


class TestCheckString:
    def test_a_string_is_taken(self) -> None:
        assert arguments.check_string("a", "pattern") == "a"

    @pytest.mark.parametrize("value", [None, 5, b"a", ["a"], PurePosixPath("a")])
    def test_anything_else_is_refused_by_name(self, value: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=r"^pattern: is a str, not "):
            arguments.check_string(value, "pattern")


class TestCheckTimeout:
    @given(st.floats(min_value=0, exclude_min=True, allow_infinity=False) | st.integers(1, 10**6))
    def test_a_positive_number_is_seconds(self, value: float) -> None:
        checked = arguments.check_timeout(value)
        assert checked == value
        assert isinstance(checked, float)

    def test_none_is_no_limit(self) -> None:
        assert arguments.check_timeout(None) is None

    @pytest.mark.parametrize(
        "value",
        [0, 0.0, -0.0, -1, float("nan"), float("inf"), -float("inf"), True, "1", 10**400],
        ids=lambda value: repr(value)[:12],
    )
    def test_anything_else_is_refused_by_name(self, value: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=r"^wait: "):
            arguments.check_timeout(value, "wait")


class TestCheckDenied:
    def test_the_two_answers_are_taken(self) -> None:
        assert (arguments.check_denied("error"), arguments.check_denied("skip")) == ("error", "skip")

    @pytest.mark.parametrize("value", ["", "ERROR", "ask", None, True])
    def test_anything_else_is_refused(self, value: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="denied"):
            arguments.check_denied(value)


class TestCommand:
    def test_a_text_goes_to_the_shell(self) -> None:
        command = arguments.command("echo $x; exit 3")
        assert command.argv == ("/bin/sh", "-c", "echo $x; exit 3")
        assert command.line == "echo $x; exit 3"

    @pytest.mark.parametrize("given_argv", [["ls", "-l", ""], ("ls", "-l", "")])
    def test_a_sequence_is_argv(self, given_argv: Any) -> None:
        command = arguments.command(given_argv)
        assert (command.argv, command.line) == (("ls", "-l", ""), None)

    def test_a_path_in_argv_is_its_text(self) -> None:
        assert arguments.command(["cat", PurePosixPath("src/app.py")]).argv == ("cat", "src/app.py")

    def test_what_is_not_given_is_the_default(self) -> None:
        command = arguments.command("true")
        assert (command.cwd, command.env, command.stdin, command.user, command.timeout) == (".", {}, None, None, None)
        assert command.max_output == arguments.MAX_OUTPUT == 10 * 2**20

    def test_everything_is_taken_over(self) -> None:
        env = {"A": "1"}
        command = arguments.command(
            ["x"], timeout=2, cwd=PurePosixPath("d/e"), env=env, stdin="ü", user="me", max_output="1k", on_output=print
        )
        env["B"] = "2"
        assert (command.timeout, command.cwd, command.env) == (2.0, "d/e", {"A": "1"})
        assert (command.stdin, command.user, command.max_output) == ("ü".encode(), "me", 1024)
        assert command.on_output is print

    @pytest.mark.parametrize("stdin", [b"", b"x", io.BytesIO(b"x"), None])
    def test_a_stdin_is_bytes_or_a_file(self, stdin: Any) -> None:
        assert arguments.command("cat", stdin=stdin).stdin is stdin

    def test_a_stdin_is_a_pipe_only_where_somebody_can_write_to_it(self) -> None:
        assert arguments.command("cat", stdin=subprocess.PIPE, pipe=True).stdin == subprocess.PIPE
        with pytest.raises(InvalidArgumentError):
            arguments.command("cat", stdin=subprocess.PIPE)

    @pytest.mark.parametrize(
        "bad",
        [
            {"given": ""},
            {"given": []},
            {"given": ()},
            {"given": [""]},
            {"given": ["", "x"]},
            {"given": "a\0"},
            {"given": ["a", "\0"]},
            {"given": ["a", 1]},
            {"given": [b"a"]},
            {"given": b"a"},
            {"given": None},
            {"given": 1},
            {"given": "\ud800"},
            {"given": ["a", "\ud800"]},
            {"timeout": 0},
            {"cwd": "a\0"},
            {"cwd": 1},
            {"env": {"": "x"}},
            {"env": {"A=": "x"}},
            {"env": {"A\0": "x"}},
            {"env": {"A": "\0"}},
            {"env": {"A": 1}},
            {"env": {1: "x"}},
            {"env": {"A": "\ud800"}},
            {"env": ["A=1"]},
            {"stdin": 7},
            {"stdin": subprocess.DEVNULL},
            {"stdin": ["x"]},
            {"stdin": "\ud800"},
            {"stdin": True},
            {"user": ""},
            {"user": -1},
            {"user": 1.5},
            {"user": True},
            {"user": "a\0"},
            {"on_output": "print"},
            {"max_output": 0},
            {"max_output": None},
            {"max_output": 1.5},
        ],
        ids=repr,
    )
    def test_what_no_command_can_be_run_with_is_refused(self, bad: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError):
            arguments.command(**{"given": "true", **bad})
