"""What a ruleset makes the kernel hide, and which directories must keep their names for it."""

from __future__ import annotations

import pytest

from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.masks import RuleMasks
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset


def masks(*rules: tuple[str, str], default: str = "allow") -> RuleMasks:
    ruleset = PermissionRuleset(default, rules=[PermissionRule(pattern, action) for action, pattern in rules])
    return RuleMasks(PermissionChecker(ruleset, "/w"), "/w")


def test_what_read_denies_or_asks_for_is_hidden() -> None:
    chosen = masks(("deny", "**/.env"), ("ask", "drafts/**"))
    assert [chosen.hidden(name) for name in ("/w/a/.env", "/w/drafts/x", "/w/ok")] == [True, True, False]


def test_what_write_denies_or_asks_for_is_read_only() -> None:
    rules = PermissionRuleset("allow", write=OperationPermissions(rules=(PermissionRule("docs/**", "ask"),)))
    chosen = RuleMasks(PermissionChecker(rules, "/w"), "/w")
    assert [chosen.read_only(name) for name in ("/w/docs/a", "/w/a")] == [True, False]
    assert not chosen.hidden("/w/docs/a")


@pytest.mark.parametrize(("rules", "any"), [((), False), ((("deny", "x"),), True), ((("ask", "x"),), True)])
def test_whether_there_is_anything_to_hold(rules: tuple[tuple[str, str], ...], any: bool) -> None:
    assert masks(*rules).any() is any


def test_a_hidden_directory_may_open_beneath_for_an_earlier_allow() -> None:
    assert masks(("allow", "secret/ok.txt"), ("deny", "secret/**")).opens_beneath("/w/secret")
    assert not masks(("deny", "secret/**")).opens_beneath("/w/secret")


@pytest.mark.parametrize(
    ("rules", "name", "pins"),
    [
        ((("deny", "**/.env"),), "/w/a/b/.env", ()),
        ((("deny", ".env"),), "/w/a/b/.env", ()),
        ((("deny", "private/**"),), "/w/private", ()),
        ((("deny", "a/private/**"),), "/w/a/private", ("/w/a",)),
        ((("deny", "/w/a/*/x"),), "/w/a/b/x", ("/w/a", "/w/a/b")),
        ((("deny", "**/conf/*.key"),), "/w/a/b/conf/x.key", ("/w/a/b/conf",)),
        ((("deny", "**/conf/**"),), "/w/a/conf", ()),
        ((("deny", "**/conf/**"),), "/w/a/conf/b", ("/w/a/conf",)),
        ((("deny", "**/conf"),), "/w/a/conf/b/c", ("/w/a/conf", "/w/a/conf/b")),
        ((("deny", "**/a/**/x"),), "/w/a/b/c/x", ("/w/a", "/w/a/b", "/w/a/b/c")),
        ((("deny", "{**/.env,conf/key}"),), "/w/a/.env", ()),
        ((("deny", "{**/.env,conf/key}"),), "/w/conf/key", ("/w/conf",)),
        ((("deny", "./**/.env"),), "/w/a/b/.env", ()),
        ((("deny", "/w/**/.env"),), "/w/a/b/.env", ()),
        ((("allow", "**/.aws"), ("deny", "**/.aws/**")), "/w/a/.aws/key", ("/w/a/.aws",)),
        ((("allow", "**/.aws"), ("ask", "**/.aws/**")), "/w/a/.aws/key", ("/w/a/.aws",)),
        ((("allow", "**/.*"), ("deny", "**/.aws")), "/w/a/.aws/b/key", ("/w/a/.aws", "/w/a/.aws/b")),
        ((("allow", "**/conf/.*"), ("deny", "**/.env")), "/w/a/b/.env", ("/w/a/b",)),
        ((("allow", "docs/**"), ("deny", "**/.env")), "/w/a/.env", ("/w/a",)),
        ((("allow", "*.example"), ("deny", "**/.env")), "/w/a/.env", ()),
        ((("allow", "**/public/**"), ("deny", "**/*.key")), "/w/a/b.key", ("/w/a",)),
        ((("allow", "public/"), ("deny", "**/*.key")), "/w/a/b.key", ("/w/a",)),
        ((("deny", "other"), ("deny", "**/.env")), "/w/a/.env", ()),
        ((("deny", "**/.env"),), "/w/ok", ()),
        ((("deny", "**/.env"),), "/w/.env", ()),
    ],
)
def test_directories_whose_names_a_mask_depends_on_are_pinned(
    rules: tuple[tuple[str, str], ...], name: str, pins: tuple[str, ...]
) -> None:
    assert masks(*rules).pins(name) == pins


def writing(*rules: tuple[str, str]) -> RuleMasks:
    """The masks of rules on writes, beside others on reads."""
    writes = OperationPermissions(rules=[PermissionRule(pattern, action) for action, pattern in rules])
    reads = OperationPermissions(rules=[PermissionRule("*.x", "allow"), PermissionRule("**/.e*", "deny")])
    return RuleMasks(PermissionChecker(PermissionRuleset("allow", read=reads, write=writes), "/w"), "/w")


@pytest.mark.parametrize(
    ("rules", "name", "pins"),
    [
        ((("allow", "**/.aws"), ("deny", "**/.aws/**")), "/w/a/.aws/key", ("/w/a/.aws",)),
        ((("deny", "a/b/f"), ("allow", "**/f"), ("deny", "**/b")), "/w/a/b", ("/w/a",)),
        ((("deny", "c/**"), ("allow", "**/f"), ("deny", "**/b")), "/w/a/b", ()),
        ((("deny", "**/a/b/f"), ("allow", "**/f"), ("deny", "**/b")), "/w/c/a/b", ("/w/c", "/w/c/a")),
        ((("allow", "**/f"), ("deny", "a/b/f/g"), ("deny", "**/b")), "/w/a/b", ()),
    ],
)
def test_a_read_only_directory_depends_on_what_earlier_rules_refuse_and_allow_in_it(
    rules: tuple[tuple[str, str], ...], name: str, pins: tuple[str, ...]
) -> None:
    assert writing(*rules).pins(name) == pins


def test_the_same_rule_may_depend_on_other_names_for_each_operation() -> None:
    chosen = writing(("allow", "c/**"), ("deny", "**/.e*"))
    assert chosen.pins("/w/a/.e") == ("/w/a",)
    assert chosen.pins("/w/a/.e.x") == ("/w/a",)


def test_a_link_that_leads_into_a_read_only_directory_pins_it() -> None:
    rules = [
        PermissionRule(pattern, action) for pattern, action in (("/l/f", "deny"), ("**/f", "allow"), ("**/b", "deny"))
    ]
    checker = PermissionChecker(PermissionRuleset("allow", write=OperationPermissions(rules=rules)), "/w")
    assert RuleMasks(checker, "/w").pins("/w/a/b") == ()
    assert RuleMasks(checker.with_prefixes({"/l/f": ["/w/a/b/f"]}), "/w").pins("/w/a/b") == ("/w/a",)


def test_where_case_is_folded_other_spellings_count() -> None:
    rules = [
        PermissionRule(pattern, action) for pattern, action in (("A/b/f", "deny"), ("**/f", "allow"), ("**/b", "deny"))
    ]
    ruleset = PermissionRuleset("allow", write=OperationPermissions(rules=rules))
    assert RuleMasks(PermissionChecker(ruleset, "/w"), "/w").pins("/w/a/b") == ()
    assert RuleMasks(PermissionChecker(ruleset, "/w", case_sensitive=False), "/w").pins("/w/a/b") == ("/w/a",)


def test_a_work_directory_at_the_root_has_pins_too() -> None:
    ruleset = PermissionRuleset("allow", rules=[PermissionRule("a/*/x", "deny")])
    assert RuleMasks(PermissionChecker(ruleset, "/"), "/").pins("/a/b/x") == ("/a", "/a/b")


def test_what_a_default_hides_depends_on_every_name_above() -> None:
    assert masks(("allow", "docs/**"), default="deny").pins("/w/a/b/x") == ("/w/a", "/w/a/b")


def test_names_outside_the_workspace_are_hidden_as_rules_spell_them_out() -> None:
    chosen = masks(
        ("allow", "/opt/ok"),
        ("deny", "/opt/key"),
        ("deny", "/data/**"),
        ("deny", "/srv/*/x"),
        ("deny", "a/b"),
        ("ask", "/mine/"),
    )
    assert chosen.outside() == ("/opt/key", "/data", "/mine")


def test_the_system_tree_stays_where_commands_need_it() -> None:
    assert masks(("deny", "/etc/**"), ("deny", "/usr/**"), ("deny", "/usr/bin/**")).outside() == ("/usr/bin",)


def test_masks_that_hide_the_same_are_equal() -> None:
    assert masks(("deny", "x")) == masks(("deny", "x"))
    assert masks(("deny", "x")) != masks(("deny", "y"))
    assert masks(("deny", "x")) != "masks"
