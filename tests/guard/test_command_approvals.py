"""What the approval of a command holds for: that command, with all that is given with it, and the rules that asked."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.guard import GuardedSandbox, guarding
from sandbox_kit.judged_command import JudgedCommand
from sandbox_kit.primitives import Command
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

from .test_approval import Person

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands are POSIX")

ALLOW = PermissionRuleset("allow")
ASKED = PermissionRuleset("allow", execute=OperationPermissions("ask"))


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def sandbox(tmp_path: Path, person: Person) -> Iterator[GuardedSandbox]:
    (tmp_path / "dir").mkdir()
    with guarding(LocalSandbox(tmp_path), ASKED, ask=person, commands="inspected") as guarded:
        yield guarded


def test_an_argument_vector_is_told_with_its_words_apart(sandbox: GuardedSandbox, person: Person) -> None:
    sandbox.execute(["echo", "x;", "rm", "-rf", "dir"])
    assert [target for _, target, _ in person.questions] == ["echo 'x;' rm -rf dir"]


def test_a_denial_tells_an_argument_vector_with_its_words_apart(tmp_path: Path) -> None:
    rules = PermissionRuleset("allow", execute=OperationPermissions("deny"))
    with guarding(LocalSandbox(tmp_path), rules) as guarded, pytest.raises(PermissionDeniedError) as caught:
        guarded.execute(["echo", "a b"])
    assert caught.value.target == "echo 'a b'"


def test_patterns_see_the_unquoted_words_of_an_argument_vector(tmp_path: Path) -> None:
    rules = PermissionRuleset("allow", execute=OperationPermissions(rules=[PermissionRule("echo a b", "deny")]))
    with guarding(LocalSandbox(tmp_path), rules) as guarded, pytest.raises(PermissionDeniedError):
        guarded.execute(["echo", "a b"])


def test_an_approval_of_a_vector_is_none_of_a_line_that_another_rule_asks_for(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    asking = [PermissionRule("rm *", "ask"), PermissionRule("echo *", "ask")]
    answers = iter([True, False])
    rules = PermissionRuleset("allow", execute=OperationPermissions(rules=asking))
    with guarding(LocalSandbox(tmp_path), rules, ask=lambda *_: next(answers)) as guarded:
        guarded.execute(["echo", "x;", "rm", "-rf", "dir"])
        with pytest.raises(PermissionDeniedError):
            guarded.execute("echo x; rm -rf dir")
    assert (tmp_path / "dir").exists()


def times(given: dict[str, Any], command: str | list[str] = "cat") -> Callable[[GuardedSandbox], object]:
    return lambda box: box.execute(command, **given)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (times({}, ["echo", "a b"]), times({}, ["echo", "a", "b"])),
        (times({}, ["echo", "x\ny"]), times({}, "echo x\ny")),
        (times({}, ["echo", "a"]), times({}, "echo a")),
        (times({}, ["/bin/sh", "-c", "echo a"]), times({}, "echo a")),
        (times({}), times({"stdin": "a"})),
        (times({"stdin": "a"}), times({"stdin": "b"})),
        (times({}), times({"env": {"PATH": "/none"}})),
        (times({"env": {"A": "1"}}), times({"env": {"A": "2"}})),
        (times({"env": {"A": "1", "B": "2"}}), times({"env": {"A": "1\x01B=2"}})),
        (times({}), times({"cwd": "dir"})),
        (times({"stdin": io.BytesIO(b"a")}), times({"stdin": io.BytesIO(b"a")})),
        (times({"stdin": b"a"}), times({"stdin": io.BytesIO(b"a")})),
    ],
    ids=[
        "words",
        "newline",
        "vector and line",
        "shell and line",
        "input",
        "other input",
        "env",
        "value",
        "variable",
        "cwd",
        "streams",
        "stream",
    ],
)
def test_another_command_is_asked_for(
    sandbox: GuardedSandbox,
    person: Person,
    first: Callable[[GuardedSandbox], object],
    second: Callable[[GuardedSandbox], object],
) -> None:
    first(sandbox)
    second(sandbox)
    assert len(person.questions) == 2


@pytest.mark.parametrize(
    "given",
    [{}, {"stdin": "text"}, {"env": {"B": "2", "A": "1"}}, {"cwd": "dir"}, {"stdin": b""}],
    ids=["bare", "input", "env", "cwd", "no input"],
)
def test_the_same_command_is_asked_for_once(sandbox: GuardedSandbox, person: Person, given: dict[str, Any]) -> None:
    for _ in range(2):
        sandbox.execute("cat", **given)
    assert len(person.questions) == 1


@pytest.mark.parametrize("user", [None, "nobody", 0, "0"])
def test_an_approval_is_for_one_user(user: str | int | None) -> None:
    others = {None, "nobody", 0, "0"} - {user}
    key = JudgedCommand(Command(("id",), user=user)).key
    assert key not in {JudgedCommand(Command(("id",), user=other)).key for other in others}


def test_a_user_is_told() -> None:
    assert JudgedCommand(Command(("id",), user="nobody")).terms == ["as user nobody"]


def test_a_process_that_is_to_be_fed_is_asked_for_each_time(sandbox: GuardedSandbox, person: Person) -> None:
    for _ in range(2):
        sandbox.spawn("cat", stdin=subprocess.PIPE).kill()
    assert len(person.questions) == 2


def test_a_question_tells_what_is_given_with_a_command(sandbox: GuardedSandbox, person: Person) -> None:
    sandbox.execute("cat", stdin="text", env={"B": "secret", "A": "1"}, cwd="dir")
    ((_, _, reason),) = person.questions
    assert reason == "execute: by default; in dir; with the variables A, B; with standard input"


def test_a_question_about_a_path_tells_nothing_of_the_command(tmp_path: Path, person: Person) -> None:
    (tmp_path / "f").touch()
    rules = PermissionRuleset("allow", read=OperationPermissions(rules=[PermissionRule("f", "ask")]))
    with guarding(LocalSandbox(tmp_path), rules, ask=person, commands="inspected") as guarded:
        guarded.execute("cat f", env={"A": "1"})
    ((_, _, reason),) = person.questions
    assert reason == "read: ask f"


def test_what_another_rule_asks_for_later_is_asked(tmp_path: Path, person: Person) -> None:
    backend = LocalBackend(tmp_path)
    backend.write("other/k", "x")
    (tmp_path / "link").symlink_to("other")
    rules = PermissionRuleset("allow", read=OperationPermissions("ask", [PermissionRule("secret/**", "ask")]))
    guarded = guarding(backend, rules, ask=person)
    guarded.read("other/k")
    guarding(backend, ALLOW).move("link", "secret")
    for _ in range(2):
        guarded.read("other/k")
    assert [reason for _, _, reason in person.questions] == ["read: by default", "read: ask secret/**"]


def test_what_another_rule_asks_for_by_now_is_asked_within_one_call(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.write("other/k", "x")
    (tmp_path / "link").symlink_to("other")

    def lead_there() -> None:
        if backend.exists("link"):
            guarding(backend, ALLOW).move("link", "secret")

    person = Person(also=lead_there)
    rules = PermissionRuleset("ask", rules=[PermissionRule("secret/**", "ask")])
    guarding(backend, rules, ask=person).edit("other/k", "x", "y")
    reasons = [reason for _, _, reason in person.questions]
    assert "ask secret/**" not in reasons[0]
    assert "edit: ask secret/**" in reasons[1]


MASKING = {
    "deny": PermissionRule("./dir/**", "deny"),
    "ask": PermissionRule("./dir/**", "ask"),
}


class Holding(LocalSandbox):
    """A local sandbox that says that commands are confined, on any machine."""

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        return True


@pytest.mark.parametrize("action", MASKING)
@pytest.mark.parametrize("cwd", ["dir", "dir/sub", "link"])
def test_a_confined_command_cannot_start_in_what_is_hidden_from_it(
    tmp_path: Path, person: Person, action: str, cwd: str
) -> None:
    (tmp_path / "dir" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("dir")
    rules = PermissionRuleset(
        "allow", execute=OperationPermissions("ask"), read=OperationPermissions(rules=[MASKING[action]])
    )
    with guarding(Holding(tmp_path), rules, ask=person, commands="confined") as guarded:
        with pytest.raises(PermissionDeniedError, match="cannot start") as caught:
            guarded.execute("pwd", cwd=cwd)
        with pytest.raises(PermissionDeniedError):
            guarded.spawn("pwd", cwd=cwd)
    assert (caught.value.operation, caught.value.rule) == ("read", f"{action} ./dir/**")
    assert person.questions == []
