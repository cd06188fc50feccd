"""Every public call, by every kind of path, through one guard and through two: each asks at most one question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from sandbox_kit.arguments import CommandMode
from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import PermissionDeniedError, PolicyError, SandboxError
from sandbox_kit.guard import guarding
from sandbox_kit.judge import Ask
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action

from .test_approval import ASK, Person

KEYS = [PermissionRule("*.key", "deny")]
PLAIN = PermissionRuleset(rules=KEYS)
BY_NAME = PermissionRuleset(rules=[PermissionRule(each, "ask") for each in ("to-*", "tree", "x", "none", "up")])
FILES = ("x", "tree/a", "tree/b.pem", "tree/deep/c")
LINKS = {"to-x": "x", "to-tree": "tree", "tree/inner": "a", "tree/below": "deep"}

Call = Callable[[Backend, str, Path], object]
CALLS: dict[str, Call] = {
    "read": lambda backend, path, host: backend.read(path),
    "read_bytes": lambda backend, path, host: backend.read_bytes(path),
    "open_read": lambda backend, path, host: backend.open_read(path).close(),
    "write": lambda backend, path, host: backend.write(path, "new"),
    "edit": lambda backend, path, host: backend.edit(path, "e", "E", replace_all=True),
    "ls": lambda backend, path, host: backend.ls(path),
    "glob": lambda backend, path, host: backend.glob("*", path),
    "glob of everything": lambda backend, path, host: backend.glob("**/*", path),
    "glob by literals": lambda backend, path, host: backend.glob(f"{path}/deep/*"),
    "glob of a name": lambda backend, path, host: backend.glob(f"{path}*"),
    "grep": lambda backend, path, host: list(backend.grep("e", path)),
    "stat": lambda backend, path, host: backend.stat(path),
    "exists": lambda backend, path, host: backend.exists(path),
    "mkdir": lambda backend, path, host: backend.mkdir(path),
    "remove": lambda backend, path, host: backend.remove(path),
    "remove a tree": lambda backend, path, host: backend.remove(path, recursive=True),
    "move": lambda backend, path, host: backend.move(path, "moved"),
    "move to": lambda backend, path, host: backend.move("tree/a", path),
    "upload": lambda backend, path, host: backend.upload(host / "up/one", path),
    "upload a tree": lambda backend, path, host: backend.upload(host / "up", path),
    "download": lambda backend, path, host: backend.download(path, host / "down"),
    "download what can be": lambda backend, path, host: backend.download(path, host / "down", denied="skip"),
    "export": lambda backend, path, host: backend.export(path).read(),
    "export what can be": lambda backend, path, host: backend.export(path, denied="skip", format="zip").read(),
}
PATHS = (
    *("x", "tree", "tree/deep", "none", "none/none", "x/none", "x/none/none", "tree/none", "."),
    *("to-x", "to-tree", "to-tree/a", "to-tree/deep", "to-tree/inner", "to-tree/below", "to-tree/none", "to-x/none"),
)


def fill(root: Path) -> LocalBackend:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"here is {name}\n")
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    return LocalBackend(root)


class Stage:
    """Files in memory or on disk, and what is to be uploaded there."""

    def __init__(self, base: Path, kind: str) -> None:
        self.host = base
        (base / "up/deep").mkdir(parents=True)
        for name in ("up/one", "up/deep/two"):
            (base / name).write_text("uploaded")
        (base / "up/deep").chmod(0o500)
        in_memory = {name: f"here is {name}\n" for name in FILES}
        self.files = StateBackend(in_memory) if kind == "memory" else fill(base / "root")

    def seen(self) -> dict[str, object]:
        """All that is there, and all that was downloaded."""
        found = {info.path: info for info in self.files.glob("**/*")}
        text = {path: self.files.read(path) for path, info in found.items() if not info.is_dir | info.is_symlink}
        return {**found, "text": text, "down": (self.host / "down").exists()}


Guards = Callable[[Backend, PermissionRuleset, Ask, Ask], Backend]


def alone(backend: Backend, rules: PermissionRuleset, first: Ask, second: Ask) -> Backend:
    return guarding(backend, rules, ask=first)


def over_asking_rules(backend: Backend, rules: PermissionRuleset, first: Ask, second: Ask) -> Backend:
    also = PermissionRuleset(rules.default, rules=[*rules.rules, PermissionRule("*.pem", "ask")])
    return guarding(guarding(backend, also, ask=second), rules, ask=first)


def over_plain_rules(backend: Backend, rules: PermissionRuleset, first: Ask, second: Ask) -> Backend:
    return guarding(guarding(backend, PLAIN, ask=second), rules, ask=first)


def beneath_plain_rules(backend: Backend, rules: PermissionRuleset, first: Ask, second: Ask) -> Backend:
    return guarding(guarding(backend, rules, ask=first), PLAIN, ask=second)


GUARDS: dict[str, Guards] = {
    each.__name__: each for each in (alone, over_asking_rules, over_plain_rules, beneath_plain_rules)
}
EACH_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
EACH_GUARDS = pytest.mark.parametrize("guards", GUARDS.values(), ids=GUARDS)
EACH_KIND = pytest.mark.parametrize("kind", ["memory", "disk"])


def questions(stage: Stage, call: Call, path: str, guards: Guards, rules: PermissionRuleset) -> tuple[int, int]:
    first, second = Person(), Person()
    with suppress(SandboxError):
        call(guards(stage.files, rules, first, second), path, stage.host)
    return len(first.questions), len(second.questions)


@EACH_KIND
@EACH_CALL
@EACH_GUARDS
def test_a_call_asks_each_person_once(tmp_path: Path, kind: str, call: Call, guards: Guards) -> None:
    asked = {path: questions(Stage(tmp_path / f"{n}", kind), call, path, guards, ASK) for n, path in enumerate(PATHS)}
    assert asked == dict.fromkeys(PATHS, (1, int(guards is over_asking_rules)))


@EACH_KIND
@EACH_CALL
@EACH_GUARDS
def test_a_call_asks_no_person_twice_by_rules_of_names(tmp_path: Path, kind: str, call: Call, guards: Guards) -> None:
    asked = {
        path: questions(Stage(tmp_path / f"{n}", kind), call, path, guards, BY_NAME) for n, path in enumerate(PATHS)
    }
    most = 1, int(guards is over_asking_rules)
    assert {path: each for path, each in asked.items() if each[0] > most[0] or each[1] > most[1]} == {}


PATTERNS = st.sampled_from(
    ["x", "tree", "./tree", "tree/*", "*.pem", "to-*", "to-tree/*", "**/deep", "none", "none/**", "up", "moved", "**"]
)
RULES = st.lists(st.builds(PermissionRule, PATTERNS, st.sampled_from(["ask", "ask", "allow", "deny"])), max_size=3)
DEFAULTS: st.SearchStrategy[Action | None] = st.sampled_from(["allow", "ask"])


@st.composite
def rulesets(draw: st.DrawFn) -> PermissionRuleset:
    own = {
        operation: OperationPermissions(draw(DEFAULTS), draw(RULES))
        for operation in draw(st.sets(st.sampled_from(["read", "write", "ls", "glob", "grep"]), max_size=2))
    }
    try:
        return PermissionRuleset(draw(DEFAULTS), draw(RULES), **own)
    except PolicyError:
        reject()


@settings(max_examples=80, deadline=None)
@given(outer=rulesets(), inner=rulesets(), call=st.sampled_from(sorted(CALLS)), path=st.sampled_from(PATHS))
def test_no_person_is_asked_twice_whatever_the_rules(
    outer: PermissionRuleset, inner: PermissionRuleset, call: str, path: str
) -> None:
    def both(backend: Backend, rules: PermissionRuleset, first: Ask, second: Ask) -> Backend:
        return guarding(guarding(backend, inner, ask=second), outer, ask=first)

    with TemporaryDirectory() as base:
        asked = questions(Stage(Path(base), "disk"), CALLS[call], path, both, outer)
    assert max(asked) <= 1


@pytest.mark.parametrize("answers", [(False, True), (True, False)], ids=["outer", "inner"])
@EACH_KIND
@EACH_CALL
def test_a_call_that_is_not_approved_changes_nothing_and_returns_nothing(
    tmp_path: Path, kind: str, call: Call, answers: tuple[bool, bool]
) -> None:
    stage = Stage(tmp_path / "stage", kind)
    before = stage.seen()
    for path in PATHS:
        first, second = map(Person, answers)
        with pytest.raises(PermissionDeniedError, match="not approved"):
            call(over_asking_rules(stage.files, ASK, first, second), path, stage.host)
        assert stage.seen() == before
        assert len(first.questions) <= 1
        assert len(second.questions) <= 1


# -- commands

COMMANDS: tuple[str | Sequence[str], ...] = (
    *("cat x", "cat x none tree/a", "cat *", "cat tree/*", "cat none/*", "cat < x", "cat x/none", "echo a > new"),
    *("cat to-x to-tree/a", "cat to-tree/*", "touch tree/new x/none", "echo a > none/a", ["cat", "to-x"], "true"),
)
CANNOT_CONFINE: tuple[CommandMode, CommandMode] = ("auto", "inspected")
MODES: tuple[tuple[CommandMode, CommandMode], ...] = (
    *(("auto", "auto"), ("inspected", "inspected"), ("inspected", "auto"), CANNOT_CONFINE),
)
ASK_TOO = PermissionRuleset("ask", rules=KEYS)


def run(sandbox: Sandbox, command: str | Sequence[str]) -> None:
    sandbox.execute(command, timeout=20)


def spawn(sandbox: Sandbox, command: str | Sequence[str]) -> None:
    with sandbox.spawn(command) as process:
        process.wait(20)


def in_a_missing_directory(sandbox: Sandbox, command: str | Sequence[str]) -> None:
    sandbox.execute(command, cwd="none", timeout=20)


EACH_START = pytest.mark.parametrize("start", [run, spawn, in_a_missing_directory])
Start = Callable[[Sandbox, str | Sequence[str]], None]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    fill(tmp_path)
    with LocalSandbox(tmp_path) as sandbox:
        yield sandbox


@EACH_START
@pytest.mark.parametrize("modes", MODES, ids="-over-".join)
@pytest.mark.parametrize("also", [ASK_TOO, PLAIN], ids=["asking", "plain"])
def test_a_command_asks_each_person_once(
    sandbox: LocalSandbox, start: Start, modes: tuple[CommandMode, CommandMode], also: PermissionRuleset
) -> None:
    for command in COMMANDS:
        for outer, inner in ((ASK, also), (also, ASK)):
            first, second = Person(), Person()
            beneath = guarding(sandbox, inner, ask=second, commands=modes[1])
            with suppress(SandboxError):
                start(guarding(beneath, outer, ask=first, commands=modes[0]), command)
            asks = outer is not PLAIN or modes == CANNOT_CONFINE, inner is not PLAIN
            assert (len(first.questions), len(second.questions)) == asks, command


@EACH_START
@pytest.mark.parametrize("answers", [(False, True), (True, False)], ids=["outer", "inner"])
def test_a_command_that_is_not_approved_does_not_run(
    sandbox: LocalSandbox, start: Start, answers: tuple[bool, bool]
) -> None:
    before = sandbox.glob("**/*")
    for command in COMMANDS:
        first, second = map(Person, answers)
        guarded = guarding(guarding(sandbox, ASK, ask=second), ASK_TOO, ask=first)
        with pytest.raises(PermissionDeniedError, match="not approved"):
            start(guarded, command)
        assert len(first.questions) <= 1
        assert len(second.questions) <= 1
    assert sandbox.glob("**/*") == before
