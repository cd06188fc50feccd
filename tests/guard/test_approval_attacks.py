"""What a person approved is no more than what the question told, and a guard keeps the secrets of others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

from .test_approval import Person

WALKS: dict[str, Callable[[Backend], list[str]]] = {
    "grep": lambda b: [match.path for match in b.grep("hit", "l")],
    "ls": lambda b: [info.path for info in b.ls("l")],
    "glob": lambda b: [info.path for info in b.glob("l/*")],
}


def asking(*patterns: str) -> OperationPermissions:
    return OperationPermissions(rules=[PermissionRule(pattern, "ask") for pattern in patterns])


def denying(pattern: str) -> OperationPermissions:
    return OperationPermissions(rules=[PermissionRule(pattern, "deny")])


@pytest.fixture
def files(tmp_path: Path) -> Backend:
    backend = LocalBackend(tmp_path)
    for name in ("b/x", "b/y"):
        backend.write(name, "hit")
    (tmp_path / "l").symlink_to("b")
    return backend


@pytest.mark.parametrize("operation", WALKS)
def test_an_approval_for_every_name_shows_what_is_behind_a_link(files: Backend, operation: str) -> None:
    rules = PermissionRuleset(**{operation: asking("b", "l")})  # type: ignore[arg-type]
    person = Person()
    assert sorted(WALKS[operation](guarding(files, rules, ask=person))) == ["l/x", "l/y"]
    assert len(person.questions) == 1


@pytest.mark.parametrize("operation", WALKS)
def test_an_approval_for_a_link_is_none_by_another_rule_for_what_is_behind_it(files: Backend, operation: str) -> None:
    rules = PermissionRuleset(**{operation: asking("b/x", "l")})  # type: ignore[arg-type]
    assert WALKS[operation](guarding(files, rules, ask=Person())) == ["l/y"]


def test_a_question_tells_the_rule_of_every_name(files: Backend) -> None:
    person = Person()
    guarding(files, PermissionRuleset(read=asking("b/x", "l")), ask=person).read("l/x")
    ((_, _, reason),) = person.questions
    assert "ask l" in reason
    assert "ask b/x" in reason


TAKEN: dict[str, Callable[[Backend], None]] = {
    "remove": lambda b: b.remove("b", recursive=True),
    "move": lambda b: b.move("b", "c"),
}


@pytest.mark.parametrize("act", TAKEN)
def test_an_outer_guard_does_not_name_what_the_inner_one_hides(files: Backend, act: str) -> None:
    hiding = guarding(files, PermissionRuleset(ls=denying("b/x")))
    guarded = guarding(hiding, PermissionRuleset(write=denying("b/x")))
    with pytest.raises(PermissionDeniedError) as caught:
        TAKEN[act](guarded)
    assert "for b/x" not in str(caught.value)


@pytest.mark.parametrize("act", TAKEN)
@pytest.mark.parametrize("hidden", [0, 1, 2, None])
def test_of_three_guards_each_can_hide_the_entry_of_a_refusal(files: Backend, act: str, hidden: int | None) -> None:
    guarded = files
    for place in range(3):
        listing = denying("b/x" if place == hidden else f"none{place}")
        guarded = guarding(guarded, PermissionRuleset(ls=listing, write=denying("b/x" if place == 2 else "none")))
    with pytest.raises(PermissionDeniedError) as caught:
        TAKEN[act](guarded)
    assert ("for b/x" in str(caught.value)) is (hidden is None)


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "k").write_text("SECRET")
    return tmp_path


SECRET = PermissionRuleset(read=denying("secret/**"))
LINK = "import os; os.symlink('other', 'sec' + 'ret'); print('made', flush=True); input()"


def test_a_prefix_that_a_command_of_another_guard_makes_a_link_is_resolved_anew(linked: Path) -> None:
    one = guarding(LocalBackend(linked), SECRET)
    assert one.read("other/k") == "SECRET"
    with guarding(LocalSandbox(linked), SECRET, commands="inspected") as other:
        other.execute(["python3", "-c", LINK], stdin="go\n", check=True)
    with pytest.raises(PermissionDeniedError):
        one.read("other/k")


def test_a_prefix_that_a_live_process_of_another_guard_makes_a_link_is_resolved_anew(linked: Path) -> None:
    one = guarding(LocalBackend(linked), SECRET)
    with guarding(LocalSandbox(linked), SECRET, commands="inspected") as other:
        process = other.spawn(["python3", "-c", f"input(); {LINK}"], stdin=subprocess.PIPE)
        assert one.read("other/k") == "SECRET"
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert next(process.stdout) == "made\n"
        with pytest.raises(PermissionDeniedError):
            one.read("other/k")


def test_a_prefix_that_becomes_a_link_by_another_guard_of_the_same_files_is_resolved_anew(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.write("other/k", "SECRET")
    (tmp_path / "link").symlink_to("other")
    one = guarding(backend, PermissionRuleset(read=denying("secret/**")))
    assert one.read("other/k") == "SECRET"
    guarding(backend, PermissionRuleset(read=denying("secret/**"))).move("link", "secret")
    with pytest.raises(PermissionDeniedError):
        one.read("other/k")
