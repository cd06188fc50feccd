"""Under the same rules, files in memory and in a directory answer alike, and put the same questions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PolicyError, SandboxError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PATH_OPERATIONS, OperationPermissions, PermissionRule, PermissionRuleset

FILES = {"a": "a\n", "b/a": "x a\n", "b/sub/key.pem": "a\r\n", "sub/a": "\ufeffa\n", "sub/.env": "a", "ü/b": "a\na\n"}
PATTERNS = ["**/.env", "*.pem", "sub/**", "sub", "a", "./b", "**/sub/*", "*", "b/*", "{a,b}/**", "ü", "[!a]", "?"]
CALLS: dict[str, Callable[[Backend, str, str], object]] = {
    "read": lambda backend, path, other: backend.read(path),
    "write": lambda backend, path, other: backend.write(path, "new\n"),
    "edit": lambda backend, path, other: backend.edit(path, "a", "b", replace_all=True),
    "ls": lambda backend, path, other: [entry.path for entry in backend.ls(path)],
    "glob": lambda backend, path, other: [entry.path for entry in backend.glob("**/*", path)],
    "glob by literals": lambda backend, path, other: [entry.path for entry in backend.glob(f"{other}/*")],
    "stat": lambda backend, path, other: backend.stat(path).path,
    "exists": lambda backend, path, other: backend.exists(path),
    "grep": lambda backend, path, other: sorted((match.path, match.line) for match in backend.grep("a$", path)),
    "mkdir": lambda backend, path, other: backend.mkdir(path),
    "remove": lambda backend, path, other: backend.remove(path),
    "remove all": lambda backend, path, other: backend.remove(path, recursive=True),
    "move": lambda backend, path, other: backend.move(path, other),
}

actions = st.sampled_from(["allow", "ask", "deny", "deny"])
rules = st.lists(st.builds(PermissionRule, st.sampled_from(PATTERNS), actions), max_size=2)
own = st.builds(OperationPermissions, st.none() | actions, rules)
names = st.lists(st.sampled_from(["a", "b", "sub", ".env", "key.pem", "ü", "new"]), min_size=1, max_size=3).map(
    "/".join
)
spelled = names | st.builds("{}/../{}".format, names, names) | names.map("./{}/".format)
calls = st.tuples(st.sampled_from(list(CALLS)), spelled, names)


@st.composite
def rulesets(draw: st.DrawFn) -> PermissionRuleset | None:
    chosen = draw(st.dictionaries(st.sampled_from(PATH_OPERATIONS), own, max_size=3))
    try:
        return PermissionRuleset(draw(actions), draw(rules), **chosen)
    except PolicyError:
        return None


class Side:
    """One backend under rules, and what a person was asked there."""

    def __init__(self, backend: Backend, ruleset: PermissionRuleset, answer: bool | None) -> None:
        self.questions: list[tuple[str, str, str]] = []
        self._answer = answer is True
        for name, text in FILES.items():
            backend.write(name, text)
        self.backend = backend
        self.guarded = guarding(backend, ruleset, ask=None if answer is None else self._ask)

    def _ask(self, *question: str) -> bool:
        operation, target, reason = question
        self.questions.append((operation, target, reason))
        return self._answer

    def answer(self, call: str, path: str, other: str) -> tuple[object, list[tuple[str, str, str]]]:
        before = len(self.questions)
        try:
            said: object = CALLS[call](self.guarded, path, other)
        except SandboxError as error:
            said = type(error), str(error)
        assert len(self.questions) <= before + 1
        return said, self.questions[before:]

    def files(self) -> list[tuple[str, bytes | None]]:
        found = self.backend.glob("**/*")
        return [(entry.path, None if entry.is_dir else self.backend.read_bytes(entry.path)) for entry in found]


@pytest.mark.parametrize("answer", [True, False, None])
@settings(deadline=None, max_examples=60)
@given(ruleset=rulesets(), steps=st.lists(calls, min_size=1, max_size=4))
def test_memory_and_disk_answer_alike_under_rules(
    answer: bool | None, ruleset: PermissionRuleset | None, steps: list[tuple[str, str, str]]
) -> None:
    if ruleset is None:
        return
    with tempfile.TemporaryDirectory() as root:
        disk = Side(LocalBackend(root), ruleset, answer)
        memory = Side(StateBackend(work_dir=disk.backend.work_dir), ruleset, answer)
        for call, path, other in steps:
            said, questions = disk.answer(call, path, other)
            assert memory.answer(call, path, other) == (said, questions)
            assert disk.files() == memory.files()
