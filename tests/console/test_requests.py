"""A person says yes to what was shown, whole, and to nothing else; nobody takes the place of another person."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import ApprovalRequest, Desk, ErrorText, Parameter, Tool, ToolDefinition, console_tools
from sandbox_kit.console.approving import UnansweredError
from sandbox_kit.errors import ApprovalRequiredError, InvalidArgumentError
from sandbox_kit.guard import guarding
from sandbox_kit.questions import Question
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Verdict

from .consoles import tools

WRITES = PermissionRuleset(write=OperationPermissions("ask"))
READS_AND_WRITES = PermissionRuleset(read=OperationPermissions("ask"), write=OperationPermissions("ask"))
CALL = {"path": "README.md", "content": "new"}


def request(result: object) -> ApprovalRequest:
    assert isinstance(result, ErrorText)
    assert result.request is not None
    return result.request


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A directory where README.md leads to the file of a build."""
    (tmp_path / "ci.yml").write_text("safe")
    (tmp_path / "README.md").symlink_to("ci.yml")
    return tmp_path


@pytest.fixture
def write(linked: Path) -> Tool:
    return tools(LocalBackend(linked), WRITES)["write_file"]


def test_a_request_tells_a_person_what_it_does_not_tell_the_model(write: Tool, linked: Path) -> None:
    result = write.call(CALL)
    asked = request(result)
    assert (asked.operation, asked.target) == ("write", "README.md")
    assert asked.reason == f"write: by default; leads to {linked}/ci.yml"
    assert "ci.yml" not in str(result)
    assert asked.token not in str(result)


def test_the_token_of_a_request_answers_it_once_more_and_nothing_is_remembered(write: Tool, linked: Path) -> None:
    token = request(write.call(CALL)).token
    assert write.call(CALL, approved=token) == "Wrote 3 B to README.md."
    assert (linked / "ci.yml").read_text() == "new"
    assert request(write.call(CALL))


def _relink(directory: Path) -> None:
    (directory / "README.md").unlink()
    (directory / "README.md").symlink_to("prod.cfg")


def _replace(directory: Path) -> None:
    (directory / "other").write_text("safe")
    (directory / "other").rename(directory / "ci.yml")


@pytest.mark.parametrize("change", [_relink, _replace], ids=["another-name", "another-file"])
def test_what_became_another_one_is_asked_about_again(
    write: Tool, linked: Path, change: Callable[[Path], None]
) -> None:
    (linked / "prod.cfg").write_text("safe")
    before = request(write.call(CALL))
    change(linked)
    after = request(write.call(CALL, approved=before.token))
    assert after.token != before.token
    assert [path.read_text() for path in linked.iterdir()] == ["safe"] * len(list(linked.iterdir()))
    assert write.call(CALL, approved=after.token) == "Wrote 3 B to README.md."


def test_the_token_of_another_call_approves_nothing(write: Tool) -> None:
    token = request(write.call(CALL)).token
    assert request(write.call({**CALL, "content": "other"}, approved=token))
    for other in ("", ".", "yes", token[:-1]):
        assert request(write.call(CALL, approved=other))


def test_a_call_that_asks_twice_gathers_its_answers() -> None:
    backend = StateBackend({"README.md": "old"})
    console = tools(backend, READS_AND_WRITES)
    seen = request(console["read_file"].call({"path": "README.md"}))
    assert "old" in str(console["read_file"].call({"path": "README.md"}, approved=seen.token))
    first = request(console["write_file"].call(CALL))
    second = request(console["write_file"].call(CALL, approved=first.token))
    assert (first.operation, second.operation) == ("read", "write")
    assert backend.read("README.md") == "old"
    assert console["write_file"].call(CALL, approved=second.token) == "Wrote 3 B to README.md."


def test_a_token_is_good_in_another_process(write: Tool) -> None:
    token = request(write.call(CALL)).token
    copied: Tool = pickle.loads(pickle.dumps(write))
    assert copied.call(CALL, approved=token) == "Wrote 3 B to README.md."


def test_a_command_may_not_become_one_in_another_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with LocalSandbox(tmp_path) as box:
        rules = PermissionRuleset(execute=OperationPermissions("ask"))
        execute = tools(box, rules, commands="inspected")["execute"]
        call = {"command": "pwd", "cwd": "a"}
        asked = request(execute.call(call))
        assert asked.reason == "execute: by default; in a"
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").symlink_to("b")
        assert request(execute.call(call, approved=asked.token)).token != asked.token


def test_what_a_tool_of_ones_own_catches_is_an_error_like_any_other() -> None:
    caught: list[ApprovalRequiredError] = []

    def look(desk: Desk, path: str) -> str:
        try:
            return desk.backend.read(path)
        except ApprovalRequiredError as error:
            caught.append(error)
            return "not for me"

    rules = PermissionRuleset(read=OperationPermissions("ask"))
    own = ToolDefinition("look", "Look.", [Parameter("path", "string", "A file.")], look, ["read"])
    assert tools(StateBackend({"x": ""}), rules, extra=[own])["look"](path="x") == "not for me"
    assert str(caught[0]) == "read x: needs approval by default"


def test_an_unanswered_question_pickles_whole() -> None:
    verdict = Verdict("ask", "write", None, "/x")
    error = UnansweredError(Question.of("x", {("write", ("/x", "/y"), None): (verdict,)}))
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.question) == (str(error), error.question)
    assert error.question.reason == "write: by default; leads to /y"


class Person:
    """Says no, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, operation: str, target: str, reason: str) -> bool:
        self.asked += 1
        return False


def yes(operation: str, target: str, reason: str) -> bool:
    return True


OVER: list[dict[str, Any]] = [{}, {"ruleset": WRITES}, {"ruleset": WRITES, "ask": yes}]


@pytest.mark.parametrize("options", OVER, ids=["nothing", "rules", "rules-and-a-person"])
def test_the_person_of_a_guard_is_asked_whatever_is_put_over_it(options: dict[str, Any]) -> None:
    person, backend = Person(), StateBackend()
    write = tools(guarding(backend, WRITES, ask=person), **options)["write_file"]
    assert "not approved" in str(write.call(CALL, approved=True))
    assert person.asked == 1
    assert not backend.exists("README.md")


@pytest.mark.parametrize("options", OVER, ids=["nothing", "rules", "rules-and-a-person"])
def test_a_guard_that_refuses_what_it_would_ask_goes_on_refusing(options: dict[str, Any]) -> None:
    write = tools(guarding(StateBackend(), WRITES, ask_fallback="deny"), **options)["write_file"]
    result = write.call(CALL, approved=True)
    assert "denied by default" in str(result)
    assert isinstance(result, ErrorText)
    assert not result.needs_approval


@pytest.mark.parametrize("given", [{"ask": Person()}, {"ask_fallback": "deny"}], ids=["person", "refusal"])
def test_nobody_takes_the_place_of_a_guards_own_answer(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="ask: "):
        console_tools(guarding(StateBackend(), WRITES, **given), ask=yes)


def test_the_same_guard_once_more_is_one_guard() -> None:
    write = tools(guarding(StateBackend(), WRITES), WRITES)["write_file"]
    assert write.call(CALL, approved=request(write.call(CALL)).token) == "Wrote 3 B to README.md."


def test_a_guard_beneath_with_nobody_to_ask_says_so_and_asks_for_no_approval() -> None:
    other = PermissionRuleset(write=OperationPermissions("ask", [PermissionRule("x", "deny")]))
    write = tools(guarding(StateBackend(), WRITES), other)["write_file"]
    result = write.call(CALL, approved=request(write.call(CALL)).token)
    assert isinstance(result, ErrorText)
    assert not result.needs_approval
    assert "nobody can be asked here" in result


@pytest.mark.needs("bwrap")
def test_a_confined_guard_stays_confined_beneath_another_mode() -> None:
    with guarding(LocalSandbox(), SECRETS, commands="confined") as guard:
        guard._inner.write(".env", "TOKEN=t0p")
        for options in ({}, {"commands": "inspected"}):
            execute = tools(guard, SECRETS, **options)["execute"]
            assert "t0p" not in str(execute(command="cat $(printf '.e%s' nv)"))
