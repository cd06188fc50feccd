"""One question a call, whatever it takes to answer it, and an answer that is an error passes through."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    ApprovalRequiredError,
    NotRegularFileError,
    PathEscapeError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxConflictError,
)
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

from .test_approval import ASK, Person

Call = Callable[[Backend, Path], object]

CALLS: dict[str, Call] = {
    "read": lambda b, host: b.read("x"),
    "write": lambda b, host: b.write("x", "new"),
    "edit": lambda b, host: b.edit("x", "x", "y"),
    "ls": lambda b, host: b.ls("tree"),
    "ls of a file": lambda b, host: b.ls("x"),
    "stat": lambda b, host: b.stat("x"),
    "exists": lambda b, host: b.exists("x"),
    "glob": lambda b, host: b.glob("*"),
    "glob by literals": lambda b, host: b.glob("tree/*"),
    "glob of nothing": lambda b, host: b.glob("x/none/*"),
    "grep": lambda b, host: list(b.grep("a", "tree")),
    "grep of a file": lambda b, host: list(b.grep("x", "x")),
    "mkdir": lambda b, host: b.mkdir("new"),
    "remove": lambda b, host: b.remove("tree", recursive=True),
    "move": lambda b, host: b.move("x", "z"),
    "upload": lambda b, host: b.upload(host / "file", "new"),
    "upload of a tree": lambda b, host: b.upload(host / "source", "new"),
    "download": lambda b, host: b.download("tree", host / "copy", denied="skip"),
    "download of a file": lambda b, host: b.download("x", host / "copy"),
    "export": lambda b, host: b.export("tree", denied="skip").read(),
    "export of a file": lambda b, host: b.export("x").read(),
}
ANSWERS = [
    PathNotFoundError("x"),
    PathNotDirectoryError("x"),
    NotRegularFileError("x"),
    PathEscapeError("x"),
    PermissionDeniedError("read", "x"),
    ApprovalRequiredError("read", "x"),
    SandboxConflictError("x"),
    FileNotFoundError(2, "nobody there"),
    NotADirectoryError(20, "no such desk"),
    ConnectionError("gone home"),
    KeyboardInterrupt(),
]


@pytest.fixture(params=["memory", "disk"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    (tmp_path / "root").mkdir()
    backend: Backend = StateBackend() if request.param == "memory" else LocalBackend(tmp_path / "root")
    for name in ("x", "tree/a", "tree/b.pem"):
        backend.write(name, name)
    (tmp_path / "source/deep").mkdir(parents=True)
    for name in ("file", "source/one", "source/deep/two"):
        (tmp_path / name).write_text(name)
    return backend


@pytest.fixture
def linked(tmp_path: Path) -> Backend:
    """Links to a file and to a directory, and one that leads out of its directory."""
    (tmp_path / "root").mkdir()
    backend = LocalBackend(tmp_path / "root")
    for name in ("x", "tree/a", "tree/b.pem"):
        backend.write(name, name)
    for target, name in (("x", "to-file"), ("tree", "to-tree"), ("../x", "tree/out")):
        (tmp_path / "root" / name).symlink_to(target)
    return backend


@pytest.mark.parametrize("error", ANSWERS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_ask_raises_passes_through_every_call(
    backend: Backend, tmp_path: Path, call: Call, error: BaseException
) -> None:
    raised = type(error)(*error.args) if not hasattr(error, "_fields") else error
    asked: list[str] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        asked.append(target)
        raise raised

    before = backend.glob("**/*")
    with pytest.raises(type(raised)) as caught:
        call(guarding(backend, ASK, ask=ask), tmp_path)
    assert caught.value is raised
    assert len(asked) == 1
    assert backend.glob("**/*") == before
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("error", ANSWERS[:7], ids=lambda error: type(error).__name__)
def test_what_the_ask_of_an_inner_guard_raises_is_no_reason_to_ask_the_outer(
    backend: Backend, tmp_path: Path, error: BaseException
) -> None:
    def ask(operation: str, target: str, reason: str) -> bool:
        raise error

    person = Person()
    guarded = guarding(guarding(backend, ASK, ask=ask), PermissionRuleset(read=OperationPermissions("ask")), ask=person)
    for call in (CALLS["read"], CALLS["exists"], CALLS["download of a file"]):
        with pytest.raises(type(error)) as caught:
            call(guarded, tmp_path)
        assert caught.value is error
    assert len(person.questions) <= 2


@pytest.mark.parametrize("line", ["cat x", "cat *", "cat x/*", "cat < x", "cat ../*"])
def test_what_the_ask_of_an_inner_guard_raises_ends_a_command_that_is_inspected(tmp_path: Path, line: str) -> None:
    (tmp_path / "x").write_text("x")
    error = PathNotFoundError("x")

    def ask(operation: str, target: str, reason: str) -> bool:
        raise error

    asking = PermissionRuleset("ask", execute=OperationPermissions("allow"))
    with guarding(LocalSandbox(tmp_path), asking, ask=ask, commands="inspected") as inner:
        outer = guarding(inner, PermissionRuleset(rules=[PermissionRule("*.pem", "deny")]), commands="inspected")
        with pytest.raises(PathNotFoundError) as caught:
            outer.execute(line)
    assert caught.value is error


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("path", ["x", "to-file", "to-tree", "to-tree/a", "to-tree/out", "tree/out", "tree", "."])
@pytest.mark.parametrize("call", ["ls", "download", "export"])
def test_a_call_by_a_link_asks_once(linked: Backend, tmp_path: Path, call: str, path: str, answer: bool) -> None:
    person = Person(answer)
    calls: dict[str, Callable[[Backend], object]] = {
        "ls": lambda backend: [entry.path for entry in backend.ls(path)],
        "download": lambda backend: backend.download(path, tmp_path / "copy", denied="skip"),
        "export": lambda backend: backend.export(path, denied="skip").read(),
    }
    guarded = guarding(linked, ASK, ask=person)
    if answer:
        expected = calls[call](linked)
        assert len(person.questions) == 0
        for copy in tmp_path.glob("copy"):
            copy.rename(tmp_path / "expected")
        assert calls[call](guarded) == expected
    else:
        with pytest.raises(PermissionDeniedError, match="not approved"):
            calls[call](guarded)
    assert [target for _, target, _ in person.questions] == [path]


@pytest.mark.parametrize("path", ["none", "x/none", "none/none"])
@pytest.mark.parametrize("call", ["ls", "download", "export"])
def test_a_call_that_finds_nothing_asks_once(backend: Backend, tmp_path: Path, call: str, path: str) -> None:
    person = Person()
    method = getattr(guarding(backend, ASK, ask=person), call)
    with pytest.raises((PathNotFoundError, PathNotDirectoryError)):
        method(*(path, tmp_path / "copy")[: 1 + (call == "download")])
    assert len(person.questions) == 1


def test_the_question_tells_where_a_link_leads_that_is_listed_or_copied(linked: Backend, tmp_path: Path) -> None:
    for call in (Backend.ls, partial(Backend.download, local=tmp_path / "copy"), Backend.export):
        person = Person()
        call(guarding(linked, ASK, ask=person), "to-file")
        assert f"leads to {linked.work_dir.rstrip('/')}/x" in person.questions[0][2]


def test_a_rule_of_the_link_alone_is_asked_for_when_it_is_listed(linked: Backend) -> None:
    rules = PermissionRuleset(ls=OperationPermissions("allow", [PermissionRule("to-file", "ask")]))
    person = Person()
    guarding(linked, rules, ask=person).ls("to-file")
    assert len(person.questions) == 1
    with pytest.raises(ApprovalRequiredError):
        guarding(linked, rules).ls("to-file")


@pytest.mark.parametrize("how", ["ripgrep or grep", "own"])
def test_an_approved_search_remembers_the_files_that_it_met(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "own":
        monkeypatch.setenv("PATH", str(tmp_path))
    backend = LocalBackend(tmp_path / "root")
    (tmp_path / "root").mkdir()
    for name in ("tree/a", "tree/b", "c"):
        backend.write(name, "line\n")
    person = Person()
    guarded = guarding(backend, ASK, ask=person)
    assert {match.path for match in guarded.grep("line", "tree")} == {"tree/a", "tree/b"}
    assert [target for _, target, _ in person.questions] == ["tree"]
    assert [match.path for match in guarded.grep("line", "tree/a")] == ["tree/a"]
    assert guarded.read("tree/b") == "line\n"
    assert len(person.questions) == 1
    backend.move("tree/a", "old")
    backend.write("tree/a", "another line\n")
    assert guarded.read("tree/a") == "another line\n"
    assert [target for _, target, _ in person.questions] == ["tree", "tree/a"]


def test_a_search_remembers_nothing_of_what_another_rule_decides(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    for name in ("tree/a", "tree/b.pem"):
        backend.write(name, "line\n")
    rules = PermissionRuleset("ask", rules=[PermissionRule("*.pem", "ask")])
    person = Person()
    guarded = guarding(guarding(backend, rules, ask=person), PermissionRuleset(rules=[PermissionRule("*.key", "deny")]))
    assert [match.path for match in guarded.grep("line", "tree")] == ["tree/a"]
    guarded.read("tree/a")
    assert len(person.questions) == 1
    guarded.read("tree/b.pem")
    assert len(person.questions) == 2


def test_what_was_approved_of_a_directory_holds_when_it_is_moved(backend: Backend) -> None:
    person = Person()
    guarded = guarding(backend, PermissionRuleset("ask", rules=[PermissionRule("tree/*", "allow")]), ask=person)
    with pytest.raises(PathIsDirectoryError):
        guarded.read("tree")
    guarded.move("tree", "bush")
    assert [reason for _, _, reason in person.questions] == ["read: by default", "write: by default"]
