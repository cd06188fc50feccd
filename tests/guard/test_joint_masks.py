"""Two guards over one sandbox: what the kernel keeps for one of them, it keeps beside the other's rules too."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

pytestmark = pytest.mark.needs("bwrap")


def writing(*rules: tuple[str, str]) -> PermissionRuleset:
    return PermissionRuleset(
        "allow", write=OperationPermissions(rules=[PermissionRule(pattern, action) for pattern, action in rules])
    )


def test_a_rename_does_not_free_what_one_guard_keeps_in_what_another_keeps(tmp_path: Path) -> None:
    (tmp_path / "x/m").mkdir(parents=True)
    (tmp_path / "x/m/f").write_text("kept")
    inner, outer = writing(("x/m/f", "deny")), writing(("**/f", "allow"), ("**/m", "deny"))
    with guarding(guarding(LocalSandbox(tmp_path), inner), outer, commands="confined") as guarded:
        guarded.write("move", "mv x y")
        guarded.write("change", "for n in x y; do echo new >$n/m/f; done")
        moved = guarded.execute("sh move")
        guarded.execute("sh change")
    assert not moved.ok
    assert (tmp_path / "x/m/f").read_text() == "kept"
