"""A link that other links lead on from: what a walk lists is what a read opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

CHAIN = {"first": "second", "second": "third", "third": "file"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("x\n")
    for name, target in CHAIN.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


def guarded(root: Path, *rules: tuple[str, str]) -> Backend:
    """A guard that allows the root, the first link and the file, and after *rules* nothing by default."""
    allowed = [PermissionRule(pattern, "allow") for pattern in (str(root), "./first", "./file")]
    first = [PermissionRule(pattern, action) for pattern, action in rules]  # type: ignore[arg-type]
    return guarding(LocalBackend(root), PermissionRuleset("deny", rules=[*first, *allowed]))


def test_links_on_the_way_are_held_to_rules_and_not_to_the_default(root: Path) -> None:
    backend = guarded(root)
    assert backend.read("first") == "x\n"
    assert [info.path for info in backend.ls()] == ["file", "first"]
    assert [info.path for info in backend.glob("*")] == ["file", "first"]
    assert backend.stat("first").is_symlink
    assert backend.exists("first")
    assert backend.ls("first")[0].path == "first"
    for name in ("second", "third"):
        with pytest.raises(PermissionDeniedError):
            backend.read(name)
        with pytest.raises(PermissionDeniedError):
            backend.stat(name)


@pytest.mark.parametrize("denied", ["second", "third"])
@pytest.mark.parametrize("action", ["deny", "ask"])
def test_a_rule_on_any_link_on_the_way_holds(root: Path, denied: str, action: str) -> None:
    backend = guarded(root, (f"**/{denied}", action))
    assert [info.path for info in backend.ls()] == ["file"]
    assert [info.path for info in backend.glob("*")] == ["file"]
    for call in (backend.read, backend.stat, backend.exists, backend.ls):
        with pytest.raises(PermissionDeniedError):
            call("first")


def test_where_a_chain_ends_is_held_to_the_default_too(root: Path) -> None:
    (root / "file").rename(root / "other")
    (root / "third").unlink()
    (root / "third").symlink_to("other")
    backend = guarded(root)
    assert backend.ls() == []
    for call in (backend.read, backend.stat, backend.exists):
        with pytest.raises(PermissionDeniedError):
            call("first")


def test_a_link_on_the_way_is_also_held_to_the_rules_of_an_outer_guard(root: Path) -> None:
    outer = guarding(guarded(root), PermissionRuleset(rules=[PermissionRule("second", "deny")]))
    assert [info.path for info in outer.ls()] == ["file"]
    with pytest.raises(PermissionDeniedError):
        outer.read("first")
