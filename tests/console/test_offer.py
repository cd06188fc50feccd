"""Which tools there are, over which backend and by which rules, and whose the backend is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import sandbox_kit
from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import Desk, Parameter, ToolDefinition, backend_for, console_tools
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.guard import GuardedBackend, guarding
from sandbox_kit.rules.presets import DEFAULT, READONLY, SECRETS, STRICT
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.spec import SandboxSpec

from .consoles import tools

FILES = ["ls", "read_file", "write_file", "edit_file", "glob", "grep"]
COMMANDS = ["execute", "run_in_background", "read_output", "kill_process", "list_processes"]
NO_ENV = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])


def shout(desk: Desk, path: str) -> str:
    return desk.backend.read(path).upper()


SHOUT = ToolDefinition("shout", "Read aloud.", [Parameter("path", "string", "A file.")], shout, ["read"])


def test_files_alone_have_no_tool_for_commands() -> None:
    assert list(tools(StateBackend())) == FILES


def test_a_sandbox_has_all_tools() -> None:
    assert list(tools(LocalSandbox())) == FILES + COMMANDS


def test_what_is_denied_throughout_has_no_tool() -> None:
    assert list(tools(LocalSandbox(), READONLY)) == ["ls", "read_file", "glob", "grep"]


def test_a_guard_beneath_takes_tools_away_too() -> None:
    assert "execute" not in tools(guarding(LocalSandbox(), READONLY), SECRETS)


def test_a_rule_that_opens_something_keeps_the_tool() -> None:
    opening = OperationPermissions("deny", [PermissionRule("out/**", "allow")])
    assert "write_file" in tools(StateBackend(), PermissionRuleset(write=opening))


def test_one_denied_operation_of_several_takes_the_tool_away() -> None:
    assert {"edit_file", "grep", "read_file"}.isdisjoint(tools(StateBackend(), PermissionRuleset(read=_only("deny"))))


def _only(action: Any) -> OperationPermissions:
    return OperationPermissions(action)


def asking(backend: Any, ruleset: PermissionRuleset) -> set[str]:
    return {tool.name for tool in console_tools(backend, ruleset, commands="inspected") if tool.needs_approval}


def test_tools_that_are_asked_about_say_so() -> None:
    assert asking(LocalSandbox(), DEFAULT) == {"execute", "run_in_background"}
    assert asking(LocalSandbox(), STRICT) == {"write_file", "edit_file", "execute", "run_in_background"}
    assert asking(LocalSandbox(), SECRETS) == set()


def test_commands_that_nothing_confines_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalSandbox, "_confines", lambda self, ruleset: False)
    assert tools(LocalSandbox(), SECRETS)["execute"].needs_approval
    assert not tools(LocalSandbox(), SECRETS, commands="inspected")["execute"].needs_approval
    assert not tools(LocalSandbox(), PermissionRuleset())["execute"].needs_approval


def test_a_tool_of_ones_own_is_held_to_the_rules() -> None:
    own = tools(StateBackend({".env": "secret", "a": "text"}), NO_ENV, extra=[SHOUT])["shout"]
    assert own(path="a") == "TEXT"
    assert own(path=".env") == tools(StateBackend(), NO_ENV)["read_file"](path=".env")


def test_a_tool_of_ones_own_may_be_denied_throughout() -> None:
    assert "shout" not in tools(StateBackend(), PermissionRuleset(read=_only("deny")), extra=[SHOUT])


def test_a_tool_of_ones_own_that_needs_commands_says_where_there_are_none() -> None:
    def run(desk: Desk) -> str:
        return desk.sandbox.execute("true").stdout

    own = tools(StateBackend(), extra=[ToolDefinition("run", "Run.", [], run, [])])["run"]
    assert own() == "Error: there are only files here: nothing runs commands; do it another way."


def test_two_tools_cannot_have_one_name() -> None:
    with pytest.raises(InvalidArgumentError, match="shout"):
        console_tools(StateBackend(), extra=[SHOUT, SHOUT])


def test_a_backend_without_rules_stays_as_it_is() -> None:
    backend = StateBackend()
    assert backend_for(backend) is backend


def test_a_guard_stays_as_it_is_unless_somebody_else_is_to_be_asked() -> None:
    guard = guarding(StateBackend({"a": ""}), PermissionRuleset(read=_only("ask")))
    assert backend_for(guard) is guard
    other = backend_for(guard, ask=lambda operation, target, reason: True)
    assert isinstance(other, GuardedBackend)
    assert other.read("a") == ""
    assert other.rulesets == (PermissionRuleset(read=_only("ask")),)


@pytest.mark.parametrize(
    ("backend", "options", "named"),
    [
        (SandboxSpec("state"), {}, "backend"),
        (None, {}, "backend"),
        (StateBackend(), {"ruleset": "secrets"}, "ruleset"),
        (StateBackend(), {"ruleset": SECRETS, "ask": 3}, "ask"),
        (StateBackend(), {"ask": print}, "ask"),
        (StateBackend(), {"ruleset": SECRETS, "commands": "never"}, "commands"),
        (LocalSandbox(), {"commands": "confined"}, "commands"),
    ],
    ids=["spec", "none", "ruleset", "ask", "asked-by-nothing", "commands", "commands-of-nothing"],
)
def test_the_faults_of_a_program_raise(backend: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{named}: "):
        console_tools(backend, **options)


def test_the_public_names_load_no_agent_framework() -> None:
    code = (
        "import sandbox_kit, sys; sandbox_kit.console_tools, sandbox_kit.Tool; sys.exit('pydantic_ai' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
    assert sandbox_kit.console_tools is console_tools
