"""Questions at the terminal: what they say, and what counts as a yes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .programs import PROMPT, at_terminal, kit, without_bubblewrap

ASKING = '[[rules]]\npattern = "notes.txt"\naction = "ask"\n\n[execute]\ndefault = "ask"\n'


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "asking.toml"
    path.write_text(ASKING)
    return str(path)


@pytest.mark.parametrize("answer", [b"y\n", b"yes\n", b"YES\n"])
def test_yes_lets_it_go_on(project: Path, rules: str, answer: bytes) -> None:
    ended = at_terminal("cat", "--root", str(project), "--rules", rules, "notes.txt", answer=answer)
    assert ended.code == 0
    assert b"bake bread" in ended.screen


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"sure\n", b"yeah, no\n", b"\x04"])
def test_anything_else_refuses(project: Path, rules: str, answer: bytes) -> None:
    ended = at_terminal("cat", "--root", str(project), "--rules", rules, "notes.txt", answer=answer)
    assert ended.code == 126
    assert b"bake bread" not in ended.screen
    assert b"not approved" in ended.screen


def test_the_question_names_operation_target_and_reason(project: Path, rules: str) -> None:
    ended = at_terminal("cat", "--root", str(project), "--rules", rules, "notes.txt", answer=b"n\n")
    question = ended.screen.partition(PROMPT)[0]
    assert b"read notes.txt: needs approval (read: ask notes.txt)" in question


def test_interrupting_the_question_is_an_interrupt(project: Path, rules: str) -> None:
    ended = at_terminal("cat", "--root", str(project), "--rules", rules, "notes.txt", answer=b"\x03")
    assert ended.code == 130
    assert b"Traceback" not in ended.screen


def test_a_target_cannot_write_to_the_terminal(project: Path, rules: str) -> None:
    arguments = ("run", "--root", str(project), "--rules", rules, "--commands", "inspected")
    ended = at_terminal(*arguments, "--", "true", "\x1b[8m\nsafe? [y/N]", answer=b"n\n")
    assert ended.code == 126
    assert b"\x1b[8m" not in ended.screen
    assert b"\\x1b[8m\\nsafe?" in ended.screen


def test_without_a_terminal_the_rule_is_named_and_nobody_is_asked(project: Path, rules: str) -> None:
    done = kit("cat", "--root", str(project), "--rules", rules, "notes.txt")
    assert (done.returncode, done.stdout) == (126, b"")
    assert done.stderr.startswith(b"sandbox-kit: read notes.txt: needs approval")
    assert b"ask notes.txt" in done.stderr


def test_where_nothing_can_confine_the_question_gives_the_reason(project: Path, tmp_path: Path) -> None:
    arguments = ("run", "--root", str(project), "--", "cat", "notes.txt")
    ended = at_terminal(*arguments, answer=b"y\n", env=without_bubblewrap(tmp_path))
    assert ended.code == 0
    assert b"bubblewrap is not installed" in ended.screen.partition(PROMPT)[0]
    assert b"bake bread" in ended.screen


def test_where_nothing_can_confine_a_no_runs_nothing(project: Path, tmp_path: Path) -> None:
    arguments = ("run", "--root", str(project), "--", "cat", "notes.txt")
    ended = at_terminal(*arguments, answer=b"\n", env=without_bubblewrap(tmp_path))
    assert ended.code == 126
    assert b"bake bread" not in ended.screen


def test_a_command_that_is_approved_runs(project: Path, rules: str) -> None:
    arguments = ("run", "--root", str(project), "--rules", rules, "--commands", "inspected")
    ended = at_terminal(*arguments, "--", "echo", "done", answer=b"y\n")
    assert ended.code == 0
    assert ended.screen.endswith(b"\r\ndone\r\n")
    assert b"execute echo done: needs approval" in ended.screen
