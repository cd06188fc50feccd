"""A guard whose sandbox can no longer confine: "confined" runs nothing, "auto" asks."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
from attrs import evolve

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.errors import ApprovalRequiredError, UnsupportedError
from sandbox_kit.guard import GuardedSandbox, guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Capabilities

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands are POSIX")

COMMANDS_ALONE = PermissionRuleset("allow", execute=OperationPermissions(rules=[PermissionRule("rm *", "deny")]))
PATHS = PermissionRuleset("allow", rules=[PermissionRule("*.key", "deny")])
BOTH = pytest.mark.parametrize("rules", [COMMANDS_ALONE, PATHS], ids=["commands alone", "paths"])


class Machine(LocalSandbox):
    """A local sandbox on a machine that may lose what confines."""

    able = True

    @property
    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities, commands="confined" if Machine.able else "inspected")


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "able", True)


def lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "able", False)


@BOTH
def test_confined_runs_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: PermissionRuleset
) -> None:
    with guarding(Machine(tmp_path), rules, commands="confined") as guarded:
        lose(monkeypatch)
        with pytest.raises(UnsupportedError, match="commands='confined'"):
            guarded.execute("touch made")
        with pytest.raises(UnsupportedError, match="commands='confined'"):
            guarded.spawn("touch made")
        assert not guarded.exists("made")
        assert guarded.capabilities.commands == "inspected"


@BOTH
def test_confined_does_not_start_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: PermissionRuleset
) -> None:
    guarded = guarding(Machine(tmp_path), rules, commands="confined")
    lose(monkeypatch)
    with pytest.raises(UnsupportedError, match="commands='confined'"):
        guarded.start()


@BOTH
def test_confined_does_not_start_where_it_is_loaded_and_nothing_confines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: PermissionRuleset
) -> None:
    kept = pickle.dumps(guarding(Machine(tmp_path), rules, commands="confined"))
    lose(monkeypatch)
    loaded: GuardedSandbox = pickle.loads(kept)
    with pytest.raises(UnsupportedError, match="commands='confined'"):
        loaded.start()


def test_an_outer_guard_holds_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = guarding(Machine(tmp_path), PATHS)
    with guarding(inner, COMMANDS_ALONE, commands="confined") as guarded:
        lose(monkeypatch)
        with pytest.raises(UnsupportedError):
            guarded.execute("touch made")


def test_auto_asks_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with guarding(Machine(tmp_path), PATHS) as guarded:
        told = [guarded.capabilities.commands]
        lose(monkeypatch)
        with pytest.raises(ApprovalRequiredError, match="cannot be confined"):
            guarded.execute("true")
        told.append(guarded.capabilities.commands)
    assert told == ["confined", "inspected"]


def test_auto_runs_what_no_rule_of_paths_needs_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with guarding(Machine(tmp_path), COMMANDS_ALONE) as guarded:
        lose(monkeypatch)
        assert guarded.execute("echo hi").stdout == "hi\n"


def test_an_approval_of_a_confined_command_does_not_hold_for_an_unconfined_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        asked.append(reason)
        return True

    rules = evolve(PATHS, execute=OperationPermissions(rules=[PermissionRule("true*", "ask")]))
    with guarding(Machine(tmp_path), rules, ask=ask) as guarded:
        for _ in range(2):
            guarded.execute("true")
        lose(monkeypatch)
        guarded.execute("true")
    assert len(asked) == 2
    assert "not confined" in asked[1]
