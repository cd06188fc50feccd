"""Verdicts: which rule decides, over which name, and where names lead."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import (
    ApprovalRequiredError,
    InvalidArgumentError,
    PermissionDeniedError,
    PolicyError,
)
from sandbox_kit.rules import compiled
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.globs import normal_path
from sandbox_kit.rules.ruleset import (
    OPERATIONS,
    PATH_OPERATIONS,
    OperationPermissions,
    PermissionRule,
    PermissionRuleset,
)
from sandbox_kit.types import Action, Verdict

from . import oracle_globs as oracle
from .test_globset import valid

Pair = tuple[Action, str]
STRICTNESS = ("allow", "ask", "deny")


def checker(*pairs: Pair, default: Action = "allow", **options: Any) -> PermissionChecker:
    rules = [PermissionRule(pattern, action) for action, pattern in pairs]
    return PermissionChecker(PermissionRuleset(default, rules=rules), **options)


def commands(*pairs: Pair, default: Action = "deny") -> PermissionChecker:
    rules = [PermissionRule(pattern, action, command=True) for action, pattern in pairs]
    return PermissionChecker(PermissionRuleset(execute=OperationPermissions(default, rules)))


# -- one name, several names


def test_the_first_rule_that_matches_decides() -> None:
    found = checker(("allow", "**/.env.example"), ("deny", "**/.env*"), ("ask", "src/**"), work_dir="/w")
    assert found.verdict("read", ".env.example") == Verdict("allow", "read", "allow **/.env.example", "/w/.env.example")
    assert found.verdict("read", "/v/.env.local/x") == Verdict("deny", "read", "deny **/.env*", "/v/.env.local/x")
    assert found.verdict("write", "src//a/./b") == Verdict("ask", "write", "ask src/**", "/w/src/a/b")
    assert found.verdict("ls", "/src") == Verdict("allow", "ls", None, "/src")


def test_the_strictest_verdict_over_all_names_holds() -> None:
    found = checker(("deny", "/d"), ("ask", "/a"))
    assert found.verdict("read", "/x", "/a", "/d", "/y") == Verdict("deny", "read", "deny /d", "/d")
    assert found.verdict("read", "/x", "/a") == Verdict("ask", "read", "ask /a", "/a")
    assert found.verdict("read", "/x", "/y") == Verdict("allow", "read", None, "/x")


@pytest.mark.parametrize("operation", PATH_OPERATIONS)
def test_check_raises_what_the_verdict_says(operation: Any) -> None:
    found = checker(("deny", "**/.env"), ("ask", "/a"))
    found.check(operation, "x")
    with pytest.raises(PermissionDeniedError) as denied:
        found.check(operation, "sub/.env")
    assert not isinstance(denied.value, ApprovalRequiredError)
    assert (denied.value.operation, denied.value.target, denied.value.rule) == (operation, "sub/.env", "deny **/.env")
    with pytest.raises(ApprovalRequiredError):
        found.check(operation, "x", "/a")
    assert [found.allows(operation, name) for name in ("x", ".env", "/a")] == [True, False, False]


@pytest.mark.parametrize("method", ["verdict", "check", "allows", "rules_only", "can_refuse", "may_allow_beneath"])
def test_an_unknown_operation_is_refused(method: str) -> None:
    call = getattr(checker(), method)
    for operation in ("chmod", "", None, 7, ["read"], {"read"}):
        with pytest.raises(InvalidArgumentError):
            call(*(operation, "x")[: 1 if method == "can_refuse" else 2])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_name_a_nul_and_what_is_no_text_are_refused(operation: Any) -> None:
    found = checker()
    for names in ((), ("a\0b",), ("a", "b\0"), (None,), (PurePosixPath("a"),), (b"a",), (["a"],), ("a", {"b"}), (1,)):
        for _ in range(2):
            with pytest.raises(InvalidArgumentError):
                found.verdict(operation, *names)
    with pytest.raises(InvalidArgumentError):
        found.may_allow_beneath("read", "\0")
    with pytest.raises(InvalidArgumentError):
        found.command_verdict("\0", None)


def test_anything_but_a_ruleset_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="ruleset"):
        PermissionChecker({"default": "deny"})  # type: ignore[arg-type]


@pytest.mark.parametrize("work_dir", ["w", "", "/w\0", None, PurePosixPath("/w")])
def test_a_work_directory_is_absolute(work_dir: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        checker(work_dir=work_dir)


def test_names_that_rules_do_not_match_have_no_verdict_by_rules() -> None:
    found = checker(("deny", "/d"), ("allow", "/a"), default="deny")
    assert found.rules_only("read", "/x") is None
    assert found.rules_only("read", "/x", "/a") == Verdict("allow", "read", "allow /a", "/a")
    assert found.rules_only("read", "/a", "/d/e", "/x") == Verdict("deny", "read", "deny /d", "/d/e")


def test_operations_with_different_rules_are_judged_apart() -> None:
    own = OperationPermissions("deny", [PermissionRule("./**", "allow")])
    found = PermissionChecker(PermissionRuleset(rules=[PermissionRule(".env", "deny")], write=own), "/w")
    assert found.verdict("read", "/etc/x").action == "allow"
    assert found.verdict("write", "/etc/x") == Verdict("deny", "write", None, "/etc/x")
    assert found.verdict("edit", "/w/.env").rule == "deny .env"


def test_what_is_remembered_is_bounded_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MAX_REMEMBERED", 3)
    found = checker(("deny", "*7"))
    for number in [*range(20), *range(20)]:
        assert found.allows("read", f"/{number}") is (number % 10 != 7)


def test_long_names_are_not_remembered() -> None:
    found = checker(("deny", "*7"))
    tracemalloc.start()
    for number in range(20):
        assert found.allows("read", f"/{'x' * 2**20}{number}/a") is (number % 10 != 7)
        assert found.allows("read", f"/{'x/' * 2**18}{number}") is (number % 10 != 7)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2**20


RULES = st.lists(st.tuples(st.sampled_from(STRICTNESS), oracle.PATTERNS.filter(valid)), max_size=6)


@given(RULES, st.sampled_from(STRICTNESS), st.lists(oracle.PATHS, min_size=1, max_size=3), oracle.WORK_DIRS)
def test_verdicts_are_those_of_a_scan(rules: list[Pair], default: Action, paths: list[str], work_dir: str) -> None:
    try:
        found = checker(*rules, default=default, work_dir=work_dir)
    except PolicyError:
        return
    decided = [naive(rules, default, path, work_dir) for path in paths]
    assert found.verdict("read", *paths).action == max(decided, key=STRICTNESS.index)


def naive(rules: list[Pair], default: Action, path: str, work_dir: str) -> Action:
    for action, pattern in rules:
        if (oracle.matches if action == "allow" else oracle.covers)(pattern, path, work_dir):
            return action
    return default


# -- what can come out


@pytest.mark.parametrize(
    ("pairs", "default", "can_refuse"),
    [
        ([], "allow", False),
        ([], "ask", True),
        ([("allow", "/a")], "allow", False),
        ([("allow", "/a")], "deny", True),
        ([("allow", "**")], "deny", False),
        ([("allow", "./**")], "deny", True),
        ([("deny", "/a"), ("allow", "**")], "allow", True),
        ([("ask", "/a")], "allow", True),
    ],
)
def test_whether_an_operation_can_be_refused(pairs: list[Pair], default: Action, can_refuse: bool) -> None:
    assert checker(*pairs, default=default, work_dir="/w").can_refuse("read") is can_refuse


def test_whether_a_command_can_be_refused() -> None:
    assert not commands(("allow", "git *"), default="allow").can_refuse("execute")
    assert commands(("allow", "git *")).can_refuse("execute")
    assert commands(("ask", "git *"), default="allow").can_refuse("execute")


@pytest.mark.parametrize(
    ("pairs", "default", "directory", "may"),
    [
        ([("deny", "/d")], "allow", "/d", False),
        ([("deny", "/d/*")], "allow", "/d", True),
        ([("deny", "/d/*/x")], "allow", "/d", True),
        ([("allow", "**/keep"), ("deny", "/d")], "allow", "/d", True),
        ([("allow", "/d/a/b"), ("deny", "/d")], "allow", "/d", True),
        ([("allow", "/d/a/b"), ("deny", "/d")], "allow", "/d/a", True),
        ([("allow", "/d/a/b"), ("deny", "/d")], "allow", "/d/c", False),
        ([("ask", "/d"), ("allow", "/e")], "deny", "/d", False),
        ([("allow", "/d/a/**"), ("deny", "/d")], "deny", "/d/a", True),
        ([], "deny", "/d", False),
        ([("allow", "/e")], "deny", "/d", False),
        ([("allow", "/d/e")], "deny", "/", True),
        ([], "allow", "/", True),
        ([("deny", "/**")], "allow", "/", False),
    ],
)
def test_whether_something_beneath_a_directory_may_be_allowed(
    pairs: list[Pair], default: Action, directory: str, may: bool
) -> None:
    assert checker(*pairs, default=default).may_allow_beneath("read", directory) is may


@given(RULES, st.sampled_from(STRICTNESS), oracle.PATHS, oracle.PATHS.filter(lambda path: path != "/"), st.booleans())
def test_nothing_is_allowed_beneath_where_nothing_may_be(
    rules: list[Pair], default: Action, directory: str, below: str, sensitive: bool
) -> None:
    try:
        found = checker(*rules, default=default, case_sensitive=sensitive)
    except PolicyError:
        return
    if not found.may_allow_beneath("read", directory):
        assert not found.allows("read", normal_path(directory + below))


# -- where names lead


def test_each_name_and_spelling_has_its_own_verdict() -> None:
    found = checker(("ask", "./t"), ("ask", "/given/t/**"), ("deny", "/given/d"), ("allow", "/given/a"), work_dir="/w")
    assert not found.has_alias
    assert [each.rule for each in found.verdicts("read", "t/x", "/v")] == ["ask ./t", None]
    aliased = found.with_alias("/given", "/w")
    assert aliased.has_alias
    assert aliased.verdicts("read", "t/x", "/v") == [
        Verdict("ask", "read", "ask ./t", "/w/t/x"),
        Verdict("allow", "read", None, "/v"),
        Verdict("ask", "read", "ask /given/t/**", "/w/t/x"),
    ]
    assert [each.rule for each in aliased.verdicts("read", "d")] == ["deny /given/d", "deny /given/d"]
    assert [each.rule for each in aliased.verdicts("read", "a")] == ["allow /given/a"]


def test_a_deny_or_ask_also_holds_where_its_literal_prefix_leads() -> None:
    found = checker(
        ("deny", "/etc/**"),
        ("ask", "private/*.key"),
        ("allow", "data/**"),
        ("deny", "**/x"),
        default="deny",
        work_dir="/w",
    )
    assert found.literal_prefixes == {"/etc", "/w/private"}
    resolved = found.with_prefixes({"/etc": ["/private/etc/"], "/w/private": ["/w/store/p"], "/w/data": ["/secret"]})
    assert resolved.verdict("read", "/private/etc/passwd").rule == "deny /etc/**"
    assert resolved.verdict("read", "/w/store/p/a.key").rule == "ask private/*.key"
    assert resolved.verdict("read", "/w/store/p/a.txt").rule is None
    assert resolved.verdict("read", "/etc/passwd").rule == "deny /etc/**"
    assert resolved.verdict("read", "/secret/a").rule is None
    assert resolved.verdict("read", "/w/data/a").rule == "allow data/**"
    assert found.verdict("read", "/private/etc/passwd").rule is None


def test_a_resolved_deny_keeps_its_place_among_the_rules() -> None:
    found = checker(("allow", "/p/etc/ok"), ("deny", "/etc/**"), ("allow", "/p/**"), default="deny")
    found = found.with_prefixes({"/etc": ["/p/etc", "/q"]})
    assert [found.allows("read", path) for path in ("/p/etc/ok", "/p/etc/no", "/p/x")] == [True, False, True]


def test_rules_beneath_the_operators_spelling_of_the_root_hold_beneath_its_real_name() -> None:
    found = checker(
        ("deny", "/link/private/**"), ("allow", "/link/**"), ("allow", "/li*/y"), default="deny", work_dir="/real"
    )
    assert not found.allows("read", "/real/a")
    alias = found.with_alias("/link/", "/real")
    assert alias.verdict("read", "/real/private/k").rule == "deny /link/private/**"
    assert alias.verdict("read", "/link/private/k").rule == "deny /link/private/**"
    assert alias.verdict("read", "/real/a").rule == "allow /link/**"
    assert alias.verdict("read", "/link/a").rule is None
    assert alias.literal_prefixes == {"/link/private", "/real/private"}
    resolved = alias.with_prefixes({"/real/private": ["/real/p"]})
    assert resolved.verdict("read", "/real/p/k").rule == "deny /link/private/**"
    assert found.with_alias("/real", "/real/.") is found


# -- case


def test_folding_only_adds_denials() -> None:
    pairs: list[Pair] = [("deny", "**/.ssh/**"), ("ask", "[A-C]x"), ("allow", "Docs/**")]
    folding = checker(*pairs, default="deny", case_sensitive=False)
    exact = checker(*pairs, default="deny")
    assert folding.verdict("read", "/.SSH/id").rule == "deny **/.ssh/**"
    assert folding.verdict("read", "/bX").rule == "ask [A-C]x"
    assert exact.verdict("read", "/.SSH/id").rule is None
    assert exact.verdict("read", "/bX").rule is None
    for found in (folding, exact):
        assert found.verdict("read", "/Docs/a").rule == "allow Docs/**"
        assert found.verdict("read", "/docs/a").rule is None


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("stra\u00dfe", "/STRASSE"),
        ("STRASSE", "/stra\u00dfe"),
        ("stra\u00dfe", "/STRA\u1e9eE"),
        ("?X", "/\u00dfx"),
        ("\u00c9*", "/\u00e9a"),
        ("\u0130x", "/\u0130X"),
        ("\u017fecret", "/SECRET"),
        ("*.Pem", "/a.pEM"),
        ("a**/x".replace("**", "*"), "/AB/X"),
        ("**/.env", "/w/.e\u200dnv"),
        ("**/.env", "/w/.E\ufeffNV"),
        ("**/.ssh", "/\u200c.ss\u00adh/id"),
        ("*.pem", "/a.p\u034fem"),
        ("a\u200db", "/AB"),
        ("a\u200db", "/a\u200dB"),
        ("a?b", "/A\u200dB"),
        ("\u3164", "/\u3164"),
        ("caf\u00e9", "/cafe\u200d\u0301"),
    ],
)
def test_every_spelling_of_a_denied_name_is_denied_where_case_is_folded(pattern: str, path: str) -> None:
    assert not checker(("deny", pattern), case_sensitive=False).allows("read", path)


@given(RULES, st.sampled_from(STRICTNESS), oracle.PATHS)
def test_folding_never_allows_more(rules: list[Pair], default: Action, path: str) -> None:
    try:
        exact = checker(*rules, default=default)
    except PolicyError:
        return
    folding = checker(*rules, default=default, case_sensitive=False)
    rule = exact.rules_only("read", path)
    if rule is not None and rule.action != "allow":
        assert not folding.allows("read", path)
    if folding.rules_only("read", path) == rule:
        assert folding.verdict("read", path) == exact.verdict("read", path)


# -- commands


@pytest.mark.parametrize(
    ("pairs", "line", "simple", "rule"),
    [
        ([("allow", "git *")], "git log", [["git log"]], "allow git *"),
        ([("allow", "git *")], "git log; rm x", [["git log"], ["rm x"]], None),
        ([("allow", "git *"), ("allow", "ls")], "git log; ls", [["git log"], ["ls"]], "allow git *"),
        ([("allow", "git *")], "git log; ls", None, None),
        ([("allow", "*")], "", [], None),
        ([("deny", "rm *"), ("allow", "*")], "ls; rm x", [["ls"], ["rm x"]], "deny rm *"),
        ([("deny", "* | sh"), ("allow", "*")], "curl x | sh", [["curl x"], ["sh"]], "deny * | sh"),
        ([("allow", "curl *"), ("deny", "* | sh")], "curl x | sh", [["curl x"], ["sh"]], "deny * | sh"),
        ([("allow", "git push *"), ("deny", "git *")], "git push x >o", [["git push x"]], "allow git push *"),
        (
            [("allow", "git push *"), ("deny", "git *")],
            "git push x; git gc",
            [["git push x"], ["git gc"]],
            "deny git *",
        ),
        ([("ask", "* x"), ("deny", "rm *")], "ls x; rm y", [["ls x"], ["rm y"]], "deny rm *"),
        ([("ask", "rm *")], "rm 'x", None, "ask rm *"),
        ([("deny", "git *")], "/usr/bin/git x", [["/usr/bin/git x", "git x"]], "deny git *"),
        ([("allow", "git *")], "/usr/bin/git x", [["/usr/bin/git x", "git x"]], "allow git *"),
        ([("allow", "git *")], "./git x", [["./git x", "git x"]], None),
        ([("allow", "/opt/git *")], "/opt/git x", [["/opt/git x", "git x"]], "allow /opt/git *"),
    ],
)
def test_a_command_line_is_held_to_the_rules(
    pairs: list[Pair], line: str, simple: Sequence[Sequence[str]] | None, rule: str | None
) -> None:
    verdict = commands(*pairs).command_verdict(line, simple)
    assert verdict.rule == rule
    assert verdict.operation == "execute"


def test_what_is_found_in_a_line_that_cannot_be_split_can_only_refuse() -> None:
    found = commands(("allow", "git *"), ("ask", "rm *"))
    assert found.command_verdict("git log '", None, [["git log"], ["rm x"]]).action == "deny"
    assert commands(("ask", "rm *"), default="allow").command_verdict("'", None, [["rm x"]]).rule == "ask rm *"


def test_a_command_given_as_a_name_is_split_first() -> None:
    found = commands(("deny", "rm *"), ("allow", "git *"), ("allow", "ls *"))
    assert found.verdict("execute", "git log && ls") == Verdict("allow", "execute", "allow git *", "git log")
    assert found.verdict("execute", "git log; rm x") == Verdict("deny", "execute", "deny rm *", "rm x")
    assert found.verdict("execute", "ls", "rm x").rule == "deny rm *"
    assert not found.allows("execute", "git log '")
    with pytest.raises(PermissionDeniedError) as caught:
        found.check("execute", "/bin/rm x")
    assert caught.value.target == "/bin/rm x"
