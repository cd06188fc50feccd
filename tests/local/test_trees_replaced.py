"""Trees that change while they are judged: no entry goes without a verdict, none that was not approved."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, removal
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError, SandboxConflictError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Identity, Operation

ACTS: dict[str, Callable[[Backend, str], object]] = {
    "remove": lambda backend, path: backend.remove(path, recursive=True),
    "move": lambda backend, path: backend.move(path, "moved"),
}
each_act = pytest.mark.parametrize("act", ACTS)


@each_act
def test_an_entry_that_is_gone_for_a_moment_is_judged_by_its_name(tmp_path: Path, act: str) -> None:
    (tmp_path / "t").mkdir()
    for number in range(8):
        (tmp_path / "t" / f"f{number}").write_text("x")
    with os.scandir(tmp_path / "t") as entries:
        first = next(entries).name
    kept = "f0" if first != "f0" else "f1"
    guarded = guarding(LocalBackend(tmp_path), PermissionRuleset("allow", rules=[PermissionRule(f"t/{kept}", "deny")]))

    def answer(
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        if names[0].endswith(f"/t/{first}"):
            (tmp_path / "t" / kept).unlink(missing_ok=True)
        if identity is not None and names[0].endswith("/t"):
            (tmp_path / "t" / kept).write_text("precious")
        return True

    primitives = {
        "remove": lambda: guarded._remove("t", operations=("write",), authorize=answer, recursive=True),
        "move": lambda: guarded._rename("t", "u", operations=("read", "write"), authorize=answer),
    }
    with pytest.raises(PermissionDeniedError):
        primitives[act]()


@pytest.mark.parametrize("path", ["t", "t/f"], ids=["a tree", "a file"])
@each_act
def test_what_took_the_place_of_an_approved_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, path: str
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f").write_text("judged")
    rules = PermissionRuleset("allow", write=OperationPermissions(rules=[PermissionRule("t/**", "ask")]))
    step = {"remove": "remove", "move": "refuse_others"}[act]
    go_on = getattr(removal, step)

    def exchange(*arguments: object, **options: object) -> None:
        (tmp_path / "t" / "f").rename(tmp_path / "aside")
        (tmp_path / "t" / "f").write_text("another's")
        go_on(*arguments, **options)

    monkeypatch.setattr(removal, step, exchange)
    guarded = guarding(LocalBackend(tmp_path), rules, ask=lambda *_: True)
    with pytest.raises(SandboxConflictError):
        ACTS[act](guarded, path)
    assert (tmp_path / "t" / "f").read_text() == "another's"
