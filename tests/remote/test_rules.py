"""Rules over the real service hold for what the sandbox's own file system says that names lead to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.backends.remote import RemoteSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import ApprovalRequiredError, PermissionDeniedError, SandboxConflictError, UnsupportedError
from sandbox_kit.guard import guarding
from sandbox_kit.primitives import allow
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

RULES = PermissionRuleset("allow", rules=[PermissionRule("secret/**", "deny"), PermissionRule("**/.env", "deny")])
PLANT = """
mkdir secret open && echo TOP > secret/key && echo TOP > .env && echo fine > open/f
ln -s ../secret/key open/way && ln -s secret door && ln -s "$PWD/.env" open/abs && ln -s way open/twice
"""


@pytest.fixture
def guarded(box: RemoteSandbox) -> Sandbox:
    """A sandbox with secrets, and links that lead to them."""
    box.execute(PLANT, check=True)
    return guarding(box, RULES)


WAYS = ("secret/key", ".env", "open/way", "open/twice", "open/abs", "door/key", "open/../.env", "/workspace/.env")
READS: dict[str, Callable[[Sandbox, str, Path], object]] = {
    "read": lambda box, path, host: box.read(path),
    "read_bytes": lambda box, path, host: box.read_bytes(path),
    "grep": lambda box, path, host: list(box.grep("TOP", path)),
    "edit": lambda box, path, host: box.edit(path, "TOP", "x"),
    "write": lambda box, path, host: box.write(path, "x"),
    "download": lambda box, path, host: box.download(path, host / "copy"),
}


@pytest.mark.parametrize("use", READS)
def test_no_way_leads_to_what_is_denied(guarded: Sandbox, box: RemoteSandbox, tmp_path: Path, use: str) -> None:
    for path in WAYS:
        with pytest.raises(PermissionDeniedError):
            READS[use](guarded, path, tmp_path)
    assert not list(tmp_path.iterdir())
    assert (box.read("secret/key"), box.read(".env")) == ("TOP\n", "TOP\n")


def test_what_is_denied_is_not_met_in_a_walk(guarded: Sandbox) -> None:
    assert [entry.path for entry in guarded.ls()] == ["open"]
    assert [entry.path for entry in guarded.glob("**/*")] == ["open", "open/f"]
    assert [match.path for match in guarded.grep("TOP|fine", hidden=True)] == ["open/f"]


def test_a_tree_with_something_denied_in_it_stays_where_it_is(guarded: Sandbox, box: RemoteSandbox) -> None:
    changes: list[Callable[[], None]] = [
        lambda: guarded.remove("secret", recursive=True),
        lambda: guarded.remove("door/key"),
        lambda: guarded.move("secret", "found"),
        lambda: guarded.move("open/f", "secret/f"),
    ]
    for change in changes:
        with pytest.raises(PermissionDeniedError):
            change()
    assert box.exists("secret/key")


def test_a_link_that_a_command_makes_opens_nothing(guarded: Sandbox, box: RemoteSandbox) -> None:
    box.execute("rm open/f && ln -s ../.env open/f", check=True)
    with pytest.raises(PermissionDeniedError):
        guarded.read("open/f")


def test_a_file_that_another_takes_the_place_of_is_not_read(box: RemoteSandbox) -> None:
    box.write("f", "one")
    (identity,) = box._resolve(("f",), operations=("read",), authorize=allow)
    box.execute("mv f g && echo two > f", check=True)
    with pytest.raises(SandboxConflictError):
        box._open_read("f", operations=("read",), authorize=allow, expect=identity)


def test_commands_ask_where_rules_refuse_any_path(guarded: Sandbox, box: RemoteSandbox) -> None:
    with pytest.raises(ApprovalRequiredError):
        guarded.execute("touch ran")
    assert not box.exists("ran")
    assert guarded.capabilities.commands == "inspected"
    asked: list[str] = []

    def approve(operation: str, target: str, reason: str) -> bool:
        asked.append(target)
        return True

    approving = guarding(box, RULES, ask=approve)
    assert approving.execute("echo ran").stdout == "ran\n"
    assert asked == ["echo ran"]


def test_commands_that_are_inspected_are_held_to_the_paths_that_they_name(box: RemoteSandbox) -> None:
    box.execute(PLANT, check=True)
    inspected = guarding(box, RULES, commands="inspected")
    assert inspected.execute("cat open/f").stdout == "fine\n"
    for line in ("cat .env", "cat secret/key", "cat open/../.env", "cd open; cat f > ../secret/new"):
        with pytest.raises(PermissionDeniedError):
            inspected.execute(line)
    with pytest.raises(PermissionDeniedError):
        inspected.execute("cat key", cwd="door")


def test_commands_cannot_be_confined(box: RemoteSandbox) -> None:
    with pytest.raises(UnsupportedError, match="confined"):
        guarding(box, RULES, commands="confined")


def test_the_preset_for_secrets_hides_those_of_the_system(box: RemoteSandbox) -> None:
    guarded = guarding(box, SECRETS)
    for path in ("/etc/passwd", "/proc/1/environ", ".ssh/id_rsa"):
        with pytest.raises(PermissionDeniedError):
            guarded.read(path)
