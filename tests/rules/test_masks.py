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
        ((("deny", "**/conf/**"),), "/w/a/conf/b", ("/w/a", "/w/a/conf")),
        ((("deny", "**/a/**/x"),), "/w/a/b/c/x", ("/w/a", "/w/a/b", "/w/a/b/c")),
        ((("deny", "{**/.env,conf/key}"),), "/w/a/.env", ("/w/a",)),
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
