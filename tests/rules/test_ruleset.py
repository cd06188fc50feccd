"""Rules and rulesets: what they refuse, and how they are loaded and dumped."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathNotFoundError,
    PatternError,
    PolicyError,
)
from sandbox_kit.rules import ruleset as module
from sandbox_kit.rules.cover import covers_command, covers_path
from sandbox_kit.rules.globs import parse_glob
from sandbox_kit.rules.ruleset import (
    OPERATIONS,
    PATH_OPERATIONS,
    OperationPermissions,
    PermissionRule,
    PermissionRuleset,
)
from sandbox_kit.types import Action

from . import oracle_globs as oracle
from .test_globset import valid

ACTIONS: tuple[Action, ...] = ("allow", "ask", "deny")


def rules(*pairs: tuple[Action, str]) -> tuple[PermissionRule, ...]:
    return tuple(PermissionRule(pattern, action) for action, pattern in pairs)


def read(*pairs: tuple[Action, str]) -> PermissionRuleset:
    return PermissionRuleset(read=OperationPermissions(rules=rules(*pairs)))


def problems(document: Any) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        PermissionRuleset.from_dict(document)
    return list(caught.value.problems)


# -- building


@pytest.mark.parametrize("pattern", ["", "/", "/w/[a", "!x", "a**", "{a}"])
def test_a_bad_pattern_is_refused_when_the_rule_is_built(pattern: str) -> None:
    with pytest.raises(PatternError):
        PermissionRule(pattern, "deny")


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (PermissionRule, {"pattern": "a", "action": "Deny"}),
        (PermissionRule, {"pattern": "a", "action": None}),
        (PermissionRule, {"pattern": 3, "action": "deny"}),
        (PermissionRule, {"pattern": "a", "action": "deny", "description": 3}),
        (OperationPermissions, {"default": "no"}),
        (OperationPermissions, {"rules": ["a"]}),
        (PermissionRuleset, {"default": "no"}),
        (PermissionRuleset, {"rules": [("a", "deny")]}),
        (PermissionRuleset, {"read": "deny"}),
        (PermissionRuleset, {"execute": "deny"}),
    ],
)
def test_values_of_the_wrong_kind_are_refused(cls: Any, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        cls(**values)


def test_lists_become_tuples() -> None:
    ruleset = PermissionRuleset(rules=list(rules(("deny", "a"))), read=OperationPermissions(rules=[]))
    assert ruleset.rules == rules(("deny", "a"))
    assert ruleset.read == OperationPermissions()


def test_common_rules_follow_those_of_each_path_operation() -> None:
    own, common = rules(("allow", "a")), rules(("deny", "b"))
    permissions = OperationPermissions("ask", own)
    operations: dict[str, Any] = dict.fromkeys(OPERATIONS, permissions)
    ruleset = PermissionRuleset("deny", common, **operations)
    assert {ruleset.rules_for(operation) for operation in PATH_OPERATIONS} == {own + common}
    assert ruleset.rules_for("execute") == own
    assert {ruleset.default_for(operation) for operation in OPERATIONS} == {"ask"}
    assert {PermissionRuleset("deny").default_for(operation) for operation in OPERATIONS} == {"deny"}


def test_rules_of_execute_are_command_patterns() -> None:
    bomb = PermissionRule(":(){ :|:& };:", "deny", command=True)
    ruleset = PermissionRuleset(execute=OperationPermissions(rules=[bomb, PermissionRule("git *", "allow")]))
    assert [rule.command for rule in ruleset.rules_for("execute")] == [True, True]
    with pytest.raises(PatternError):
        PermissionRuleset(read=OperationPermissions(rules=[bomb]))
    with pytest.raises(PatternError):
        PermissionRuleset(rules=[bomb])
    with pytest.raises(PatternError):
        PermissionRule("", "deny", command=True)


def test_rules_travel() -> None:
    ruleset = read(("deny", "**/.env"), ("allow", "./**"))
    assert pickle.loads(pickle.dumps(ruleset)) == ruleset
    assert copy.deepcopy(ruleset) == ruleset
    assert str(ruleset.rules_for("read")[0]) == "deny **/.env"


# -- inert rules


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("allow", "**"), ("deny", "**/.env")),
        (("deny", "/**"), ("allow", "./**")),
        (("deny", "/w/**"), ("allow", "/w/a")),
        (("deny", "/w"), ("allow", "/w/a/b")),
        (("deny", "**/.git"), ("allow", "**/.git/config")),
        (("deny", "*.pem"), ("allow", "/etc/ssl/ca.pem")),
        (("deny", "*.pem"), ("ask", "*.pem")),
        (("ask", "/w/*"), ("allow", "/w/**/*")),
        (("allow", "./**"), ("deny", "src/**")),
        (("allow", "/a/**/b/**"), ("deny", "/a/x/b/c")),
        (("deny", "*.{pem,key}"), ("allow", "a/{x.pem,y.key}")),
        (("deny", "{a,b}"), ("allow", "x/b")),
        (("deny", "[a-z]*"), ("allow", "[b-d]?x")),
        (("deny", "[!a]"), ("allow", "[!a]")),
        (("deny", "*a*"), ("allow", "*bab*")),
        (("deny", "a/"), ("allow", "**/a/b")),
        (("deny", "**/a/**/b"), ("allow", "a/b")),
    ],
)
def test_a_rule_that_an_earlier_one_covers_is_refused(first: tuple[Action, str], second: tuple[Action, str]) -> None:
    with pytest.raises(PolicyError) as caught:
        read(first, (first[0], "/unrelated"), second)
    (problem,) = caught.value.problems
    assert problem.startswith(f"read.rules[2]: {second[0]} {second[1]} ")
    assert "read.rules[0]" in problem


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("deny", "**/.env"), ("deny", "/w/.env")),
        (("deny", "/w/a"), ("allow", "/w/**")),
        (("allow", "/w/*"), ("deny", "/w/a")),
        (("allow", "/w/src/**"), ("deny", "src/**")),
        (("deny", "./**"), ("allow", "/w/a")),
        (("deny", "./**"), ("allow", "**/a")),
        (("deny", "*.{pem,key}"), ("allow", "{x.pem,y.txt}")),
        (("deny", "[a-c]"), ("allow", "[b-d]")),
        (("deny", "[a-c]"), ("allow", "[!d]")),
        (("deny", "[a-c]"), ("allow", "?")),
        (("deny", "a?"), ("allow", "a*")),
        (("deny", "x"), ("allow", "[x-y]")),
        (("deny", "?*/a"), ("allow", "**/a")),
        (("deny", "/a/b"), ("allow", "/a/*")),
        (("deny", "**/a/*/*/*/*/*/*/b"), ("allow", "**/a/**/b")),
    ],
)
def test_a_rule_that_can_decide_is_accepted(first: tuple[Action, str], second: tuple[Action, str]) -> None:
    assert read(first, second).rules_for("read")[1].pattern == second[1]


def test_a_common_rule_is_inert_behind_an_operations_own() -> None:
    with pytest.raises(PolicyError) as caught:
        PermissionRuleset(
            rules=rules(("deny", "**/.env"), ("allow", "/w/.env")),
            read=OperationPermissions(rules=rules(("allow", "**"))),
        )
    assert sorted(problem.partition(" ")[0] for problem in caught.value.problems) == ["rules[0]:", "rules[1]:"]


def test_an_inert_rule_is_told_once_for_each_place_that_makes_it_so() -> None:
    own = OperationPermissions(rules=rules(("allow", "/w/**"), ("deny", "/w/x")))
    with pytest.raises(PolicyError) as caught:
        PermissionRuleset(
            rules=rules(("deny", "*.pem"), ("allow", "/w/a.pem"), ("deny", "/w/b")), read=own, ls=own, grep=own
        )
    own_ones = [f"{name}.rules[1]: deny /w/x can never decide" for name in ("read", "ls", "grep")]
    common = [f"rules[2]: deny /w/b can never decide, {name}.rules[0] covers it" for name in ("read", "ls", "grep")]
    expected = ["rules[1]: allow /w/a.pem can never decide", *own_ones, *common]
    assert len(caught.value.problems) == len(expected)
    assert all(any(problem.startswith(each) for problem in caught.value.problems) for each in expected)


def test_a_command_rule_that_an_earlier_one_covers_is_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        PermissionRuleset(
            execute=OperationPermissions(rules=rules(("allow", "git *"), ("deny", "ls"), ("deny", "git push *")))
        )
    assert caught.value.problems[0].startswith("execute.rules[2]: deny git push *")


@pytest.mark.parametrize("earlier", ["g[a-z]*", "git push origin *", "ls *"])
def test_a_command_rule_that_is_not_proven_inert_is_accepted(earlier: str) -> None:
    permissions = OperationPermissions(rules=rules(("allow", earlier), ("deny", "git push *")))
    assert PermissionRuleset(execute=permissions).rules_for("execute")[1].action == "deny"


@pytest.mark.parametrize(
    ("outer", "inner", "covered"),
    [
        ("*", "[a]", True),
        ("[a]", "[a]", True),
        ("rm *", "rm", True),
        ("rm *", "rm -rf *", True),
        ("rm -rf *", "rm *", False),
        ("rm?*", "rm *", False),
        ("*push*", "git push", True),
        ("g?t", "git", True),
        ("git", "g?t", False),
        ("[a-z]*", "b", False),
        ("a *", "b *", False),
    ],
)
def test_cover_of_commands_is_proven_or_denied(outer: str, inner: str, covered: bool) -> None:
    assert covers_command(outer, inner) is covered


PATTERNS = oracle.PATTERNS.filter(valid)


@given(PATTERNS, st.booleans(), PATTERNS, st.booleans(), oracle.PATHS, oracle.WORK_DIRS)
def test_a_proven_cover_has_no_counterexample(
    outer: str, outer_beneath: bool, inner: str, inner_beneath: bool, path: str, work_dir: str
) -> None:
    if covers_path(parse_glob(outer), outer_beneath, parse_glob(inner), inner_beneath):
        inside = (oracle.covers if inner_beneath else oracle.matches)(inner, path, work_dir)
        assert not inside or (oracle.covers if outer_beneath else oracle.matches)(outer, path, work_dir)


@given(PATTERNS, st.booleans())
def test_a_pattern_covers_itself(pattern: str, beneath: bool) -> None:
    glob = parse_glob(pattern)
    assert covers_path(glob, True, glob, beneath) or len(glob.alternatives) > 32


def test_a_proof_that_would_cost_too_much_is_not_tried() -> None:
    many, few = "{a,b}" * 6, "a" * 6
    assert read(("deny", many), ("allow", "{a,b}" * 5 + "a")).rules_for("read")
    with pytest.raises(PolicyError):
        read(("deny", many), ("allow", few))
    assert read(("deny", "*" + "a" * 600), ("allow", "b" + "a" * 600)).rules_for("read")
    assert not covers_command("a" * 300 + "*", "a" * 301)


# -- documents

RULE = st.builds(
    PermissionRule, st.sampled_from(["a", "b/*", "/c/**", "**/*.{x,y}"]), st.sampled_from(["deny"]), st.text(max_size=5)
)
PERMISSIONS = st.none() | st.builds(
    OperationPermissions, st.none() | st.sampled_from(ACTIONS), st.lists(RULE, max_size=3)
)
RULESETS = st.builds(
    PermissionRuleset,
    st.sampled_from(ACTIONS),
    st.lists(RULE, max_size=3),
    **dict.fromkeys(OPERATIONS, PERMISSIONS),
)


@given(RULESETS)
def test_a_ruleset_comes_back_from_its_document(ruleset: PermissionRuleset) -> None:
    document = ruleset.to_dict()
    assert PermissionRuleset.from_dict(document) == ruleset
    assert PermissionRuleset.from_dict(json.loads(json.dumps(document))) == ruleset


def test_a_document_says_only_what_differs_from_the_defaults() -> None:
    assert PermissionRuleset().to_dict() == {"default": "allow"}
    assert PermissionRuleset(ls=OperationPermissions()).to_dict() == {"ls": {}}
    ruleset = PermissionRuleset(
        "deny", rules(("allow", "a")), execute=OperationPermissions(rules=rules(("deny", "rm *")))
    )
    assert ruleset.to_dict() == {
        "default": "deny",
        "rules": [{"pattern": "a", "action": "allow"}],
        "execute": {"rules": [{"pattern": "rm *", "action": "deny"}]},
    }


def test_a_bare_action_is_the_default_of_an_operation() -> None:
    ruleset = PermissionRuleset.from_dict({"read": "deny", "execute": "ask", "ls": None, "grep": {"default": None}})
    assert ruleset == PermissionRuleset(
        read=OperationPermissions("deny"), execute=OperationPermissions("ask"), grep=OperationPermissions()
    )


def test_a_command_pattern_of_a_document_need_not_be_a_path_pattern() -> None:
    document = {"execute": {"rules": [{"pattern": ":(){ :|:& };:", "action": "deny"}]}}
    assert PermissionRuleset.from_dict(document).to_dict() == document


def test_every_problem_of_a_document_is_told_with_its_place() -> None:
    document = {
        "default": "x",
        "reed": "deny",
        "rules": 5,
        "read": "alow",
        "write": {
            "rules": [
                {"pattern": "/w/[a", "action": "no", "note": 2},
                {"action": "deny"},
                7,
                {"pattern": 3, "action": "deny", "description": 5},
            ],
            "default": 3,
            "rule": [],
        },
        "edit": {"rules": {"pattern": "a", "action": "deny"}},
        "execute": {"rules": [{"pattern": "", "action": "deny", "command": True}]},
        "ls": [],
    }
    assert sorted(problem.partition(": ")[0] for problem in problems(document)) == [
        "default",
        "edit.rules",
        "execute.rules[0].command",
        "execute.rules[0].pattern",
        "ls",
        "read.default",
        "reed",
        "rules",
        "write.default",
        "write.rule",
        "write.rules[0].action",
        "write.rules[0].note",
        "write.rules[0].pattern",
        "write.rules[1].pattern",
        "write.rules[2]",
        "write.rules[3].description",
        "write.rules[3].pattern",
    ]


def test_an_inert_rule_of_a_document_is_told_with_its_place() -> None:
    document = {"read": {"rules": [{"pattern": "**", "action": "allow"}, {"pattern": "a", "action": "deny"}]}}
    assert [problem.partition(":")[0] for problem in problems(document)] == ["read.rules[1]"]


def test_an_empty_document_is_refused(tmp_path: Path) -> None:
    assert problems({}) == ["the document is empty: it would allow everything"]
    for name, content in (("r.json", "{}"), ("r.toml", "# nothing yet")):
        (tmp_path / name).write_text(content)
        with pytest.raises(PolicyError, match="the document is empty"):
            PermissionRuleset.from_file(tmp_path / name)


def test_a_key_that_no_document_may_set_is_unknown() -> None:
    document = {"read": {"rules": [{"pattern": "a", "action": "deny", "\0command": True}]}}
    assert problems(document) == [r"read.rules[0].'\x00command': unknown key"]


def braces(count: int, text: str) -> str:
    return f"{{{','.join(f'{text}{index}' for index in range(count))}}}"


LARGE = [f"x{index}/{braces(32, 'a')}/{braces(32, 'b')}" for index in range(10)]


def test_the_alternatives_of_a_ruleset_are_bounded() -> None:
    words = "more than 10000 alternatives in all"
    with pytest.raises(PolicyError, match=words):
        PermissionRuleset(rules=[PermissionRule(pattern, "deny") for pattern in LARGE])
    parts: dict[str, Any] = {
        name: {"rules": [{"pattern": each, "action": "deny"}]} for name, each in zip(OPERATIONS, LARGE, strict=False)
    }
    assert PermissionRuleset.from_dict({"default": "ask", **parts}).default == "ask"
    parts["rules"] = [{"pattern": pattern, "action": "deny"} for pattern in LARGE[3:]]
    with pytest.raises(PolicyError, match=words):
        PermissionRuleset.from_dict(parts)
    own = {name: OperationPermissions(rules=[PermissionRule(LARGE[0], "deny")]) for name in ("read", "ls", "glob")}
    assert PermissionRuleset(rules=[PermissionRule(pattern, "deny") for pattern in LARGE[4:]], **own).read
    with pytest.raises(PolicyError, match=words):
        PermissionRuleset(rules=[PermissionRule(pattern, "deny") for pattern in LARGE[3:]], **own)


def test_a_large_document_is_refused_soon() -> None:
    many = [{"pattern": f"{index}/{LARGE[0]}", "action": "deny"} for index in range(1000)]
    started = time.monotonic()
    assert problems({"rules": many, "read": 3})
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("document", [[], None, "deny", 3])
def test_a_document_that_is_no_mapping_is_refused(document: object) -> None:
    assert problems(document) == [f"document: {document!r} is not a mapping"]


# -- files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.json", b'{"read": {"rules": [{"pattern": "**/.env", "action": "deny"}]}}'),
        ("r.JSON", b'\xef\xbb\xbf{"read": {"rules": [{"pattern": "**/.env", "action": "deny"}]}}'),
        ("r.toml", b'[[read.rules]]\npattern = "**/.env"\naction = "deny"\n'),
    ],
)
def test_a_file_is_read_by_its_suffix(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert PermissionRuleset.from_file(tmp_path / name) == read(("deny", "**/.env"))
    assert PermissionRuleset.from_file(str(tmp_path / name)) == read(("deny", "**/.env"))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("r.json", b'{"read": "deny", "read": "allow"}', "'read' is there twice"),
        ("r.json", b'{"execute": {"rules": [{"pattern": "a", "pattern": "b"}]}}', "'pattern' is there twice"),
        ("r.json", b"{", "not well-formed"),
        ("r.json", b"[" * 100_000, "not well-formed"),
        ("r.json", b'{"a":' * 17 + b"1" + b"}" * 17, "deeper than 16"),
        ("r.json", b'{"default": "\xff"}', "not well-formed"),
        ("r.toml", b'read = "deny"\nread = "allow"\n', "not well-formed"),
        ("r.toml", b"=", "not well-formed"),
        ("r.toml", b"a = " + b"[" * 100_000, "deeper than 16"),
        ("r.toml", b".".join([b"a"] * 200_000) + b" = 1", "more than 16 parts"),
        ("r.toml", b"#" * (2 * 2**20 + 1), "2097152 bytes of TOML"),
        ("r.yaml", b"read: deny", "'.yaml' is none of"),
        ("r", b"{}", "'' is none of"),
        ("r.json", b"[]", "is not a mapping"),
    ],
)
def test_a_file_that_is_no_document_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PolicyError, match=problem) as caught:
        PermissionRuleset.from_file(tmp_path / name)
    assert all(problem.startswith(f"{tmp_path / name}: ") for problem in caught.value.problems)


@pytest.mark.parametrize("rules", [PermissionRule("a", "deny"), 5, None])
def test_rules_that_are_no_sequence_are_refused(rules: Any) -> None:
    for build in (PermissionRuleset, OperationPermissions):
        with pytest.raises(InvalidArgumentError, match=r"^rules: "):
            build(rules=rules)


@pytest.mark.parametrize("pattern", [5, None, b"a"])
def test_a_pattern_that_is_no_text_is_refused_by_name(pattern: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^pattern: "):
        PermissionRule(pattern, "deny")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT", 10)
    (tmp_path / "r.json").write_bytes(b"{}" + b" " * 9)
    with pytest.raises(PolicyError, match="10 bytes"):
        PermissionRuleset.from_file(tmp_path / "r.json")


def test_what_is_no_readable_file_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PathNotFoundError):
        PermissionRuleset.from_file(tmp_path / "r.json")
    with pytest.raises(NotRegularFileError):
        PermissionRuleset.from_file(tmp_path)
    os.mkfifo(tmp_path / "fifo.json")
    with pytest.raises(NotRegularFileError):
        PermissionRuleset.from_file(tmp_path / "fifo.json")
    (tmp_path / "r.json").write_bytes(b"{}")
    monkeypatch.setattr(Path, "open", raise_permission_error)
    with pytest.raises(PathAccessError):
        PermissionRuleset.from_file(tmp_path / "r.json")


def raise_permission_error(*_: object) -> None:
    raise PermissionError


def test_building_rules_does_not_load_the_document_library() -> None:
    code = (
        "import sys; from sandbox_kit.rules.checker import PermissionChecker;"
        "from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset;"
        "PermissionChecker(PermissionRuleset(rules=[PermissionRule('a', 'deny')])).verdict('read', 'a');"
        "print('cattrs' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert shown.stdout.strip() == "False"


def test_a_ruleset_shows_its_size_not_its_rules() -> None:
    ruleset = PermissionRuleset(
        "deny", rules=[PermissionRule("a", "allow")], read=OperationPermissions(rules=[PermissionRule("b", "ask")])
    )
    assert repr(ruleset) == "PermissionRuleset(default='deny', 2 rules)"


@pytest.mark.parametrize("name", ["a" * 300 + ".json", "nul\0.json"])
def test_a_document_whose_name_no_file_can_have_is_a_typed_error(name: str) -> None:
    with pytest.raises(PathError):
        PermissionRuleset.from_file(name)
