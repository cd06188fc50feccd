"""A tree is refused for one entry: the error names it, unless rules hide its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action

CALLS: dict[str, Callable[[Backend], object]] = {
    "remove": lambda backend: backend.remove("./top//tree", recursive=True),
    "move": lambda backend: backend.move("top/tree", "top/bush"),
}
KEY = PermissionRule("*.pem", "deny")
WRITE = OperationPermissions(rules=[KEY])


@pytest.fixture(params=["memory", "disk", "linked"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to("root")
    place = tmp_path / ("link" if request.param == "linked" else "root")
    chosen: Backend = StateBackend() if request.param == "memory" else LocalBackend(place)
    for name in ("top/tree/a", "top/tree/deep/b.pem"):
        chosen.write(name, name)
    return chosen


def refused(backend: Backend, rules: PermissionRuleset, call: str) -> PermissionDeniedError:
    with pytest.raises(PermissionDeniedError) as caught:
        CALLS[call](guarding(backend, rules))
    assert backend.read("top/tree/deep/b.pem") == "top/tree/deep/b.pem"
    return caught.value


@pytest.mark.parametrize("call", CALLS)
def test_a_refusal_says_for_which_entry(backend: Backend, call: str) -> None:
    error = refused(backend, PermissionRuleset(write=WRITE), call)
    assert str(error).endswith("denied by rule deny *.pem, for top/tree/deep/b.pem")
    assert error.operation == "write"
    assert "b.pem" not in error.target


@pytest.mark.parametrize("hides", ["deny", "ask"])
@pytest.mark.parametrize("call", CALLS)
def test_a_refusal_does_not_name_what_no_listing_shows(backend: Backend, call: str, hides: Action) -> None:
    hidden = OperationPermissions(rules=[PermissionRule("*.pem", hides)])
    for rules in (PermissionRuleset(rules=[KEY]), PermissionRuleset(write=WRITE, ls=hidden)):
        assert "b.pem" not in str(refused(backend, rules, call))


@pytest.mark.parametrize("call", CALLS)
def test_a_refusal_does_not_name_what_an_outer_guard_hides(backend: Backend, call: str) -> None:
    inner = guarding(backend, PermissionRuleset(write=WRITE))
    assert "b.pem" in str(refused(inner, PermissionRuleset(rules=[PermissionRule("*.key", "deny")]), call))
    outer = PermissionRuleset(ls=OperationPermissions(rules=[PermissionRule("deep", "deny")]))
    assert "b.pem" not in str(refused(inner, outer, call))


def test_a_refusal_of_what_was_named_names_nothing_else(backend: Backend) -> None:
    rules = PermissionRuleset(write=OperationPermissions(rules=[PermissionRule("top/tree", "deny")]))
    for call in CALLS:
        assert str(refused(backend, rules, call)).endswith("denied by rule deny top/tree")


def test_a_refusal_of_the_new_name_of_an_entry_does_not_tell_it(backend: Backend) -> None:
    rules = PermissionRuleset(write=OperationPermissions(rules=[PermissionRule("top/bush/**/*.pem", "deny")]))
    assert "b.pem" not in str(refused(backend, rules, "move")).removesuffix("*.pem")
