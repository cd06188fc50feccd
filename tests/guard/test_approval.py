"""Rules that say "ask": one question a call, put when everything is known, and only True allows."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from sandbox_kit import judge
from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    ApprovalRequiredError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxConflictError,
    UnsupportedError,
)
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Capabilities

ASK = PermissionRuleset("ask")


class Person:
    """Answers every question alike, and keeps them."""

    def __init__(self, answer: object = True, also: Callable[[], None] = lambda: None) -> None:
        self.answer = answer
        self.also = also
        self.questions: list[tuple[str, str, str]] = []

    def __call__(self, operation: str, target: str, reason: str) -> bool:
        self.questions.append((operation, target, reason))
        self.also()
        return self.answer  # type: ignore[return-value]


@pytest.fixture(params=["memory", "disk"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    chosen: Backend = StateBackend() if request.param == "memory" else LocalBackend(tmp_path)
    for name in ("x", "y", "tree/a", "tree/b.pem"):
        chosen.write(name, name)
    return chosen


@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
def test_anything_but_true_refuses(backend: Backend, answer: object) -> None:
    with pytest.raises(PermissionDeniedError, match="not approved"):
        guarding(backend, ASK, ask=Person(answer)).write("x", "new")
    assert backend.read("x") == "x"


def test_nobody_to_ask_is_an_error_at_once(backend: Backend) -> None:
    with pytest.raises(ApprovalRequiredError):
        guarding(backend, ASK).read("x")


def test_the_fallback_can_plainly_refuse(backend: Backend) -> None:
    with pytest.raises(PermissionDeniedError) as refused:
        guarding(backend, ASK, ask_fallback="deny").read("x")
    assert not isinstance(refused.value, ApprovalRequiredError)


def test_what_the_person_raises_passes_through_and_nothing_happened(backend: Backend) -> None:
    def interrupt(*_: str) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarding(backend, ASK, ask=interrupt).write("x", "new")
    assert backend.read("x") == "x"


def test_an_approval_is_remembered_for_that_object_alone(backend: Backend) -> None:
    person = Person()
    guarded = guarding(backend, ASK, ask=person)
    guarded.read("x")
    guarded.read("x")
    guarded.read("y")
    backend.move("x", "old")
    backend.write("x", "another object")
    guarded.read("x")
    assert [target for _, target, _ in person.questions] == ["x", "y", "x"]


def test_an_approval_is_the_guards_own(backend: Backend) -> None:
    first, second = Person(), Person()
    guarding(backend, ASK, ask=first).read("x")
    guarding(backend, ASK, ask=second).read("x")
    assert len(first.questions) == len(second.questions) == 1


def test_one_question_names_every_rule_that_asks(backend: Backend) -> None:
    person = Person()
    rules = PermissionRuleset(
        "allow",
        edit=OperationPermissions(rules=(PermissionRule("x", "ask"),)),
        write=OperationPermissions(default="ask"),
    )
    guarding(backend, rules, ask=person).edit("x", "x", "z")
    assert len(person.questions) == 1
    assert "ask x" in person.questions[0][2]
    assert "write" in person.questions[0][2]


def test_a_denial_ends_the_call_without_a_question(backend: Backend) -> None:
    person = Person()
    rules = PermissionRuleset("ask", rules=[PermissionRule("*.pem", "deny")])
    with pytest.raises(PermissionDeniedError):
        guarding(backend, rules, ask=person).remove("tree", recursive=True)
    with pytest.raises(PermissionDeniedError):
        guarding(backend, rules, ask=person).move("tree", "moved")
    assert person.questions == []
    assert backend.read("tree/b.pem") == "tree/b.pem"


def test_a_tree_is_asked_for_once(backend: Backend, tmp_path: Path) -> None:
    acts: list[Callable[[Backend], object]] = [
        lambda guarded: guarded.move("tree", "moved"),
        lambda guarded: guarded.remove("moved", recursive=True),
        lambda guarded: guarded.ls(),
    ]
    for act in acts:
        person = Person()
        act(guarding(backend, ASK, ask=person))
        assert len(person.questions) == 1


def test_an_approved_listing_leaves_out_what_another_rule_asks_for(backend: Backend) -> None:
    rules = PermissionRuleset("ask", rules=[PermissionRule("*.pem", "ask")])
    guarded = guarding(backend, rules, ask=Person())
    assert [entry.name for entry in guarded.ls("tree")] == ["a"]


def test_a_missing_file_is_asked_for_before_it_is_said_to_be_missing(backend: Backend) -> None:
    with pytest.raises(ApprovalRequiredError):
        guarding(backend, ASK).read("missing")
    with pytest.raises(PathNotFoundError):
        guarding(backend, ASK, ask=Person()).read("missing")


def test_a_target_that_changes_while_the_person_thinks_is_asked_for_again(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.write("x", "first")
    names = iter(range(2))

    def replace() -> None:
        if (number := next(names, None)) is not None:
            backend.move("x", f"old{number}")
            backend.write("x", f"version {number}")

    person = Person(also=replace)
    assert guarding(backend, ASK, ask=person).read("x") == "version 1"
    assert len(person.questions) == 3


def test_a_target_that_never_stays_the_same_is_given_up(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.write("x", "first")
    names = iter(range(100))

    def replace() -> None:
        backend.move("x", f"old{next(names)}")
        backend.write("x", "another")

    with pytest.raises(SandboxConflictError):
        guarding(backend, ASK, ask=Person(also=replace)).read("x")


def test_the_backend_can_be_used_while_the_person_thinks(backend: Backend) -> None:
    person = Person(also=lambda: backend.write("log", "asked"))
    assert guarding(backend, ASK, ask=person).read("x") == "x"
    assert backend.read("log") == "asked"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to count open descriptors")
@pytest.mark.parametrize(
    "call",
    [
        lambda backend: backend.ls("tree"),
        lambda backend: backend.ls("x"),
        lambda backend: backend.glob("tree/*"),
        lambda backend: backend.export("tree"),
        lambda backend: backend.grep("a", "tree"),
        lambda backend: backend.read("x"),
    ],
    ids=["ls", "ls of a file", "glob", "export", "grep", "read"],
)
def test_a_question_holds_no_descriptor(tmp_path: Path, call: Callable[[Backend], object]) -> None:
    backend = LocalBackend(tmp_path)
    for name in ("x", "tree/a"):
        backend.write(name, name)
    held: list[int] = []

    def count() -> None:
        held.append(len(os.listdir("/proc/self/fd")))

    guarded = guarding(backend, ASK, ask=Person(also=count))
    guarded.exists("nothing")
    count()
    call(guarded)
    assert len(held) == 3
    assert held[1] == held[2]


def test_a_search_of_an_approved_tree_asks_nobody_while_it_runs(backend: Backend) -> None:
    person = Person()
    found = guarding(backend, ASK, ask=person).grep("tree")
    asked = len(person.questions)
    assert {match.path for match in found} == {"tree/a", "tree/b.pem"}
    assert (asked, len(person.questions)) == (1, 1)


def test_an_upload_is_asked_for_once(backend: Backend, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    for name in ("one", "two", "deep/three"):
        (source / name).write_text(name)
    person = Person()
    guarding(backend, ASK, ask=person).upload(source, "copy/here")
    assert len(person.questions) == 1
    assert backend.read("copy/here/deep/three") == "deep/three"


def test_a_download_and_an_export_are_asked_for_once(backend: Backend, tmp_path: Path) -> None:
    person = Person()
    guarded = guarding(backend, ASK, ask=person)
    guarded.download("tree", tmp_path / "copied")
    assert (tmp_path / "copied" / "b.pem").read_text() == "tree/b.pem"
    with guarded.export("tree") as archive:
        assert b"tree/a" in archive.read()
    guarded.download("x", tmp_path / "single")
    assert [target for _, target, _ in person.questions] == ["tree", "x"]


def test_a_glob_with_a_literal_start_is_asked_for_once(backend: Backend) -> None:
    person = Person()
    found = guarding(backend, ASK, ask=person).glob("tree/*")
    assert [entry.name for entry in found] == ["a", "b.pem"]
    assert len(person.questions) == 1


@pytest.mark.parametrize("pattern", ["tree/*", "tree/a", "tree/none/*", "none/*"])
@pytest.mark.parametrize("answer", [True, False])
def test_a_glob_asks_once_whatever_is_there_and_whatever_the_answer(
    backend: Backend, pattern: str, answer: bool
) -> None:
    person = Person(answer)
    guarded = guarding(backend, ASK, ask=person)
    if answer:
        guarded.glob(pattern)
    else:
        with pytest.raises(PermissionDeniedError, match="not approved"):
            guarded.glob(pattern)
    assert len(person.questions) == 1


def test_a_glob_leaves_out_what_nobody_can_approve(backend: Backend) -> None:
    rules = PermissionRuleset(
        rules=[PermissionRule("tree/a", "allow"), PermissionRule("tree/**", "ask"), PermissionRule("y", "deny")]
    )
    assert [entry.path for entry in guarding(backend, rules).glob("tree/*")] == ["tree/a"]


def test_an_edit_of_what_is_missing_asks_once(backend: Backend) -> None:
    person = Person()
    with pytest.raises(PathNotFoundError):
        guarding(backend, ASK, ask=person).edit("none", "a", "b")
    assert len(person.questions) == 1


@pytest.mark.parametrize("change", [lambda b: b.remove("tree", recursive=True), lambda b: b.move("tree", "bush")])
def test_what_lies_in_a_tree_is_not_told_as_where_a_link_leads(
    backend: Backend, change: Callable[[Backend], None]
) -> None:
    person = Person()
    change(guarding(backend, ASK, ask=person))
    assert "leads to" not in person.questions[0][2]


@pytest.mark.parametrize("ask", [None, Person(False)])
def test_an_error_does_not_tell_a_caller_where_a_link_leads(tmp_path: Path, ask: Person | None) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/customer-name").write_text("TOPSECRET")
    (tmp_path / "notes").symlink_to("private/customer-name")
    rules = PermissionRuleset(rules=[PermissionRule("private/**", "ask")])
    guarded = guarding(LocalBackend(tmp_path), rules, ask=ask)
    for call in (guarded.read, guarded.stat, guarded.ls, partial(guarded.grep, "T")):
        with pytest.raises(PermissionDeniedError) as caught:
            call("notes")
        assert "customer" not in f"{caught.value} {caught.value.target} {caught.value.rule}"


def test_the_person_is_told_where_a_link_leads_and_approves_no_more(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.write("secret", "TOPSECRET")
    (tmp_path / "notes").symlink_to("secret")
    person = Person()
    guarded = guarding(backend, ASK, ask=person)
    guarded.read("notes")
    assert f"leads to {tmp_path}/secret" in person.questions[0][2]
    guarded.read("secret")
    assert [target for _, target, _ in person.questions] == ["notes", "secret"]


def test_an_approved_command_is_asked_for_again_when_a_file_that_it_names_is_another(tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("first")
    person = Person()
    rules = PermissionRuleset("allow", read=OperationPermissions(rules=(PermissionRule("plan", "ask"),)))
    with guarding(LocalSandbox(tmp_path), rules, ask=person, commands="inspected") as guarded:
        for _ in range(2):
            assert guarded.execute("cat plan").stdout == "first"
        assert len(person.questions) == 1
        (tmp_path / "plan").rename(tmp_path / "old")
        (tmp_path / "plan").write_text("second")
        assert guarded.execute("cat plan").stdout == "second"
    assert len(person.questions) == 2


def test_a_question_of_the_outer_guard_passes_through_the_inner(backend: Backend) -> None:
    person = Person()
    inner = guarding(backend, PermissionRuleset("allow", rules=[PermissionRule("*.key", "deny")]))
    assert guarding(inner, ASK, ask=person).read("x") == "x"
    assert [target for _, target, _ in person.questions] == ["x"]


def test_the_oldest_approvals_are_forgotten_past_a_great_many(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "_REMEMBERED", 2)
    person = Person()
    guarded = guarding(backend, ASK, ask=person)
    for path in ("x", "y", "tree/a", "x"):
        guarded.read(path)
    assert [target for _, target, _ in person.questions] == ["x", "y", "tree/a", "x"]


class Unconfined(LocalSandbox):
    """A local sandbox on a machine where nothing can confine."""

    @property
    def capabilities(self) -> Capabilities:
        return evolve(super().capabilities, commands="inspected")


def test_every_command_is_asked_for_where_nothing_can_confine_it(tmp_path: Path) -> None:
    rules = PermissionRuleset("allow", rules=[PermissionRule("*.key", "deny")])
    person = Person()
    with guarding(Unconfined(tmp_path), rules) as guarded, pytest.raises(ApprovalRequiredError, match="confined"):
        guarded.execute("echo hi")
    with guarding(Unconfined(tmp_path), rules, ask=person) as guarded:
        assert guarded.execute("echo hi").stdout == "hi\n"
    with guarding(Unconfined(tmp_path), PermissionRuleset("allow")) as guarded:
        assert guarded.execute("echo hi").stdout == "hi\n"
    with pytest.raises(UnsupportedError):
        guarding(Unconfined(tmp_path), rules, commands="confined")
    assert len(person.questions) == 1
