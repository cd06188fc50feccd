"""The handle of a session answers for its sandbox: what that cannot hide from commands, nobody is promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import evolve

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import UnsupportedError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.sessions.values import RuntimeProfile
from sandbox_kit.types import Capabilities, Limits

from .managing import managed

PATHS = PermissionRuleset("allow", rules=[PermissionRule("*.key", "deny")])
COMMANDS_ALONE = PermissionRuleset("allow", execute=OperationPermissions(rules=[PermissionRule("rm *", "deny")]))


class Half(LocalSandbox):
    """A local sandbox that confines commands, and can hide no file from them."""

    hides = False

    @property
    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities, commands="confined")

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        return Half.hides or ruleset == COMMANDS_ALONE


def make(session_id: str, profile: RuntimeProfile, limits: Limits, workspace: Path) -> Sandbox:
    return Half(workspace)


@contextmanager
def opened(tmp_path: Path) -> Iterator[Sandbox]:
    with managed(tmp_path / "root", backend=make) as manager, manager.open("s") as handle:
        yield handle


def test_a_guard_is_refused_what_the_sandbox_cannot_hide(tmp_path: Path) -> None:
    with opened(tmp_path) as handle:
        with pytest.raises(UnsupportedError):
            guarding(handle, PATHS, commands="confined")
        assert guarding(handle, PATHS).capabilities.commands == "inspected"
        assert guarding(handle, COMMANDS_ALONE, commands="confined").capabilities.commands == "confined"


def test_a_guard_does_not_start_again_what_cannot_hide_files_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Half, "hides", True)
    with opened(tmp_path) as handle:
        guarded = guarding(handle, PATHS, commands="confined")
        guarded.stop()
        monkeypatch.setattr(Half, "hides", False)
        with pytest.raises(UnsupportedError, match="session s"):
            guarded.start()
        assert not handle.is_alive()


def test_a_guard_that_was_stopped_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Half, "hides", True)
    with opened(tmp_path) as handle:
        guarded = guarding(handle, PATHS, commands="confined")
        guarded.stop()
        with guarded:
            assert handle.is_alive()
