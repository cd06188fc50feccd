"""A rule also holds for what its literal prefix leads to, whoever makes a link of it, and when."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError, SandboxUnavailableError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

RULES = PermissionRuleset("allow", read=OperationPermissions(rules=(PermissionRule("data/**", "deny"),)))
SLOW_LINK = "import os; input(); os.symlink('private', 'da' + 'ta'); print('made', flush=True); input()"
LINK = ["python3", "-c", "import os; os.symlink('private', 'da' + 'ta')"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("TOPSECRET")
    return tmp_path


def denied(sandbox: Backend) -> bool:
    try:
        sandbox.read("private/key")
    except PermissionDeniedError:
        return True
    return False


def test_a_prefix_that_is_a_link_from_the_start(workspace: Path) -> None:
    (workspace / "data").symlink_to("private")
    assert denied(guarding(LocalBackend(workspace), RULES))


def test_a_prefix_that_a_change_makes_a_link(workspace: Path) -> None:
    (workspace / "elsewhere").symlink_to("private")
    guarded = guarding(LocalBackend(workspace), RULES)
    assert not denied(guarded)
    guarded.move("elsewhere", "data")
    assert denied(guarded)


def test_a_prefix_that_a_command_makes_a_link(workspace: Path) -> None:
    with guarding(LocalSandbox(workspace), RULES, commands="inspected") as guarded:
        assert not denied(guarded)
        guarded.execute(LINK, check=True)
        assert denied(guarded)


def test_a_prefix_that_a_background_process_makes_a_link(workspace: Path) -> None:
    with guarding(LocalSandbox(workspace), RULES, commands="inspected") as guarded:
        process = guarded.spawn(["python3", "-c", SLOW_LINK], stdin=subprocess.PIPE)
        assert not denied(guarded)
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert next(process.stdout) == "made\n"
        assert denied(guarded)
        process.kill()
        assert denied(guarded)
        assert denied(guarded)


def test_a_background_process_whose_end_is_not_known_does_not_stop_the_guard(workspace: Path) -> None:
    with guarding(LocalSandbox(workspace), RULES, commands="inspected") as guarded:
        process = guarded.spawn("sleep 0.3; kill -KILL $PPID; sleep 60")
        with pytest.raises(SandboxUnavailableError):
            process.wait(10)
        assert not denied(guarded)
        assert not denied(guarded)


def test_the_root_as_given_is_the_root_for_every_rule(workspace: Path) -> None:
    link = workspace.parent / "link"
    link.symlink_to(workspace)
    rules = PermissionRuleset(
        "deny", rules=[PermissionRule(f"{link}/private/**", "deny"), PermissionRule(f"{link}/**", "allow")]
    )
    guarded = guarding(LocalBackend(link), rules)
    guarded.write(f"{link}/ok", "fine")
    assert guarded.read(f"{workspace}/ok") == guarded.read("ok") == "fine"
    assert denied(guarded)


def test_what_a_prefix_led_to_stays_refused(workspace: Path) -> None:
    """Pointing the link elsewhere, or putting a directory in its place, opens nothing."""
    (workspace / "data").symlink_to("private")
    guarded = guarding(LocalBackend(workspace), RULES)
    assert denied(guarded)
    (workspace / "data").unlink()
    (workspace / "data").mkdir()
    guarded.write("other", "x")
    guarded.remove("other")
    assert denied(guarded)


def test_a_prefix_reached_through_another_link(workspace: Path) -> None:
    (workspace / "dir").mkdir()
    (workspace / "elsewhere").symlink_to("../private")
    (workspace / "link").symlink_to("dir")
    rules = PermissionRuleset("allow", read=OperationPermissions(rules=(PermissionRule("dir/data/**", "deny"),)))
    guarded = guarding(LocalBackend(workspace), rules)
    assert not denied(guarded)
    guarded.move("elsewhere", "link/data")
    assert denied(guarded)


def test_a_link_that_a_running_command_repoints(workspace: Path) -> None:
    with guarding(LocalSandbox(workspace), RULES, commands="inspected") as guarded:
        seen: list[bool] = []
        command = [
            "python3",
            "-c",
            "import os, time; os.symlink('private', 'da' + 'ta'); print(1, flush=True); input()",
        ]
        guarded.execute(command, stdin="go\n", on_output=lambda stream, text: seen.append(denied(guarded)))
        assert seen == [True]


def test_a_pattern_with_wildcards_in_the_spelling_of_a_linked_root(workspace: Path) -> None:
    link = workspace.parent / "alias"
    link.symlink_to(workspace)
    rules = PermissionRuleset("allow", rules=[PermissionRule(f"{workspace.parent}/ali*/private/**", "deny")])
    guarded = guarding(LocalBackend(link), rules)
    assert denied(guarded)
    guarded.write("ok", "fine")
    assert guarded.read(f"{link}/ok") == "fine"
