"""What is approved in a call is good for that call's own steps, and for nothing that came between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit import judge
from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PathAccessError, PermissionDeniedError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

from .test_approval import ASK, Person


def asking(*patterns: str) -> PermissionRuleset:
    return PermissionRuleset(rules=[PermissionRule(pattern, "ask") for pattern in patterns])


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    (tmp_path / "root/tree").mkdir(parents=True)
    for name in "abcde":
        (tmp_path / "root/tree" / name).write_text(f"text of {name}")
    (tmp_path / "root/link").symlink_to("tree")
    return LocalBackend(tmp_path / "root")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "closed").mkdir(parents=True)
    for name in ("one", "closed/two"):
        (source / name).write_text(name)
    (source / "zlink").symlink_to("one")
    (source / "closed").chmod(0o500)
    return source


@pytest.mark.parametrize("path", ["tree", "link"])
def test_a_tree_may_have_more_entries_than_a_guard_remembers(
    backend: Backend, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "_REMEMBERED", 2)
    person = Person()
    assert b"text of e" in guarding(backend, ASK, ask=person).export(path).read()
    assert len(person.questions) == 1


@pytest.mark.parametrize(
    ("path", "rules"),
    [
        ("tree", ASK),
        ("link", ASK),
        ("link", asking("link")),
        ("tree", asking("tree")),
        ("link", asking("tree", "link")),
    ],
)
def test_a_member_that_is_replaced_before_it_is_read_is_no_longer_approved(
    backend: Backend, path: str, rules: PermissionRuleset
) -> None:
    answers = iter([True, False])
    asked: list[str] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        asked.append(target)
        return next(answers)

    archive = guarding(backend, rules, ask=ask).export(path)
    backend.move("tree/c", "old")
    backend.write("tree/c", "another")
    with pytest.raises(PermissionDeniedError, match="not approved"), archive:
        archive.read()
    assert asked == [path, f"{path}/c"]


def test_what_comes_while_the_person_thinks_is_asked_for_again(backend: Backend) -> None:
    others = iter(["of another"])

    def write_beside() -> None:
        for text in others:
            backend.write("new", text)

    person = Person(also=write_beside)
    guarding(backend, ASK, ask=person).write("new", "of this one")
    assert len(person.questions) == 2
    assert backend.read("new") == "of this one"


def test_an_entry_that_no_approved_rule_decides_is_not_copied_with_its_tree(backend: Backend) -> None:
    person = Person()
    guarded = guarding(backend, asking("tree/a", "link"), ask=person)
    with guarded.export("link", denied="skip") as archive:
        text = archive.read()
    assert b"text of b" in text
    assert b"text of a" not in text
    assert len(person.questions) == 1


def test_the_approval_of_a_copy_by_a_link_is_none_for_a_file_behind_it(backend: Backend) -> None:
    person = Person()
    guarded = guarding(backend, asking("tree/a", "link"), ask=person)
    guarded.export("link", denied="skip").read()
    guarded.read("link/a")
    assert len(person.questions) == 2
    assert "ask tree/a" in person.questions[1][2]


def test_an_upload_closes_its_directories_without_a_second_question(backend: LocalBackend, source: Path) -> None:
    person = Person()
    guarding(backend, ASK, ask=person).upload(source, "link/new")
    assert backend.stat("tree/new/closed").mode == 0o500
    assert len(person.questions) == 1


def test_an_upload_that_fails_is_taken_back_without_a_second_question(
    backend: LocalBackend, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PathAccessError("zlink")

    monkeypatch.setattr(LocalBackend, "_symlink", fail)
    before = backend.glob("**/*")
    person = Person()
    with pytest.raises(PathAccessError):
        guarding(backend, ASK, ask=person).upload(source, "new")
    assert backend.glob("**/*") == before
    assert len(person.questions) == 1


def test_what_an_upload_made_is_asked_for_by_the_next_call(backend: Backend, source: Path) -> None:
    person = Person()
    guarded = guarding(backend, ASK, ask=person)
    guarded.upload(source, "new")
    guarded.write("new/one", "changed")
    assert len(person.questions) == 2


@pytest.mark.parametrize("line", ["cat tree/*", "cat tre*/c", "cat tree/[c]"])
@pytest.mark.parametrize("answer", ["deny", "ask"])
def test_an_outer_guard_sees_the_names_in_a_command_that_an_inner_one_hides(
    tmp_path: Path, backend: Backend, line: str, answer: str
) -> None:
    hiding = PermissionRuleset(ls=OperationPermissions(rules=[PermissionRule("tree/c", "deny")]))
    refusing = PermissionRuleset(read=OperationPermissions(rules=[PermissionRule("tree/c", answer)]))
    with LocalSandbox(tmp_path / "root") as sandbox:
        inner = guarding(sandbox, hiding, commands="inspected")
        with pytest.raises(PermissionDeniedError):
            guarding(inner, refusing, commands="inspected").execute(line)


@pytest.mark.parametrize("line", ["cat tree/c", "cat link/c", "cat tree/*", "cat < tree/c"])
def test_an_inner_guard_still_judges_what_a_command_names(tmp_path: Path, backend: Backend, line: str) -> None:
    plain = PermissionRuleset(rules=[PermissionRule("*.key", "deny")])
    with LocalSandbox(tmp_path / "root") as sandbox:
        for action in ("deny", "ask"):
            rules = PermissionRuleset(read=OperationPermissions(rules=[PermissionRule("tree/c", action)]))
            inner = guarding(sandbox, rules, commands="inspected")
            with pytest.raises(PermissionDeniedError):
                guarding(inner, plain, commands="inspected").execute(line)


READS: dict[str, Callable[[Backend], object]] = {
    "read": lambda backend: backend.read("tree/a"),
    "by its real name": lambda backend: backend.read(f"{backend.work_dir}/tree/a"),
    "ls": lambda backend: backend.ls("tree"),
    "download": lambda backend: backend.export("tree").read(),
}


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_a_question_tells_the_rules_of_both_spellings_of_a_root(
    tmp_path: Path, backend: Backend, call: Callable[[Backend], object]
) -> None:
    given = tmp_path / "given"
    given.symlink_to("root")
    rules = [PermissionRule("./tree", "ask"), PermissionRule(f"{given}/tree/**", "ask")]
    person = Person()
    call(guarding(LocalBackend(given), PermissionRuleset(rules=rules), ask=person))
    ((_, _, reason),) = person.questions
    for rule in rules:
        assert str(rule) in reason


def test_an_approval_in_one_spelling_covers_no_entry_that_the_other_asks_for(tmp_path: Path, backend: Backend) -> None:
    given = tmp_path / "given"
    given.symlink_to("root")
    rules = [PermissionRule("./tree", "ask"), PermissionRule(f"{given}/tree/a", "ask")]
    listed = guarding(LocalBackend(given), PermissionRuleset(rules=rules), ask=Person()).ls("tree")
    assert [entry.name for entry in listed] == ["b", "c", "d", "e"]


def test_files_in_memory_are_uploaded_whole_with_one_question(source: Path) -> None:
    (source / "zlink").unlink()
    person, backend = Person(), StateBackend()
    guarding(backend, ASK, ask=person).upload(source, "new")
    assert backend.stat("new/closed").mode == 0o500
    assert len(person.questions) == 1
