"""Who approves a call: a person who is asked, or the program that says so for this call alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import ErrorText, Tool
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

from .consoles import HANGS_AFTER, tools

ASKS = PermissionRuleset(
    read=OperationPermissions(rules=[PermissionRule("**/.env", "deny"), PermissionRule("private/**", "ask")]),
    execute=OperationPermissions("ask", [PermissionRule("rm *", "deny", command=True)]),
)
FILES = {"private/a": "A", "private/b": "B", ".env": "secret"}


@pytest.fixture
def read() -> Tool:
    return tools(StateBackend(FILES), ASKS)["read_file"]


@pytest.fixture
def execute() -> Iterator[Tool]:
    with LocalSandbox() as box:
        yield tools(box, ASKS, commands="inspected")["execute"]


def needs_approval(result: object) -> bool:
    return isinstance(result, ErrorText) and result.needs_approval


def test_without_anybody_to_ask_a_call_needs_approval(read: Tool) -> None:
    result = read(path="private/a")
    assert needs_approval(result)
    assert "needs approval by rule ask private/**; nothing was done" in str(result)


def test_an_approved_call_is_done_and_nothing_is_remembered(read: Tool) -> None:
    assert read.call({"path": "private/a"}, approved=True) == "     1\tA"
    assert needs_approval(read.call({"path": "private/a"}))
    assert needs_approval(read.call({"path": "private/b"}))


def test_an_approved_command_runs_once(execute: Tool) -> None:
    assert execute.call({"command": "echo hello"}, approved=True) == "exit code 0\nstdout:\nhello"
    assert needs_approval(execute.call({"command": "echo hello"}))


def test_a_denial_stays_one_however_it_is_approved(read: Tool, execute: Tool) -> None:
    for result in (read.call({"path": ".env"}, approved=True), execute.call({"command": "rm x"}, approved=True)):
        assert isinstance(result, ErrorText)
        assert "denied" in result
        assert not result.needs_approval


def test_only_true_approves(read: Tool) -> None:
    assert needs_approval(read.call({"path": "private/a"}, approved=1))  # type: ignore[arg-type]


def test_calls_of_other_threads_are_not_approved(execute: Tool) -> None:
    running = threading.Event()

    def approved() -> object:
        running.set()
        return execute.call({"command": "sleep 0.5"}, approved=True)

    with ThreadPoolExecutor(1) as threads:
        one = threads.submit(approved)
        assert running.wait(HANGS_AFTER)
        while not one.done():
            assert needs_approval(execute.call({"command": "sleep 0.5"}))
        assert one.result() == "exit code 0\n(no output)"


def test_a_person_is_asked_once_for_the_same() -> None:
    asked: list[tuple[str, str]] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        asked.append((operation, target))
        return True

    read = tools(StateBackend(FILES), ASKS, ask=ask)["read_file"]
    assert read(path="private/a") == read(path="private/a") == "     1\tA"
    assert asked == [("read", "private/a")]


def test_an_approved_call_asks_nobody() -> None:
    read = tools(StateBackend(FILES), ASKS, ask=lambda *question: False)["read_file"]
    assert read.call({"path": "private/a"}, approved=True) == "     1\tA"


def test_the_rules_of_a_guard_are_taken_with_the_approval() -> None:
    read = tools(guarding(StateBackend(FILES), ASKS))["read_file"]
    assert needs_approval(read(path="private/a"))
    assert read.call({"path": "private/a"}, approved=True) == "     1\tA"


def test_a_guard_beneath_asks_its_own_person() -> None:
    beneath = guarding(StateBackend(FILES), ASKS, ask=lambda *question: False)
    read = tools(beneath, PermissionRuleset(read=OperationPermissions("ask")))["read_file"]
    assert "not approved" in str(read.call({"path": "private/a"}, approved=True))


def test_nothing_to_ask_about_takes_an_approval_as_it_is() -> None:
    assert tools(StateBackend(FILES))["read_file"].call({"path": ".env"}, approved=True) == "     1\tsecret"


def test_an_approved_background_process_is_the_consoles() -> None:
    with LocalSandbox() as box:
        console = tools(box, ASKS, commands="inspected")
        assert needs_approval(console["run_in_background"](command="sleep 60"))
        console["run_in_background"].call({"command": "sleep 60"}, approved=True)
        assert console["kill_process"](process_id=1) == "Process 1 was killed."


def test_an_approved_reading_is_seen() -> None:
    backend = StateBackend(FILES)
    console = tools(backend, ASKS)
    console["read_file"].call({"path": "private/a"}, approved=True)
    backend.write("private/a", "other")
    assert "has changed" in str(console["write_file"].call({"path": "private/a", "content": ""}, approved=True))
