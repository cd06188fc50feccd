"""What is masked in a workspace, judged entry by entry, against what the rules say of every name."""

from __future__ import annotations

import stat
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from sandbox_kit.backends.docker.plan import Outside, Plan, make_plan
from sandbox_kit.backends.shell.listing import Found
from sandbox_kit.backends.shell.spots import Stat
from sandbox_kit.errors import PolicyError, UnsupportedError
from sandbox_kit.joint_masks import JointMasks
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.masks import RuleMasks
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

WORK_DIR = "/workspace"
KINDS = {"file": stat.S_IFREG, "link": stat.S_IFLNK, "fifo": stat.S_IFIFO}
NAMES = st.sampled_from(["a", "b", ".env", "open", "out"])
TREES = st.recursive(
    st.sampled_from(sorted(KINDS)), lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=14
)
PATTERNS = st.sampled_from(["**/.env", "a/**", "a/b", "b/*", "./**", "**/open", "out/**", "a/b/**", "*/out"])
RULES = st.lists(st.builds(PermissionRule, PATTERNS, st.sampled_from(["allow", "ask", "deny"])), max_size=4)
RULESETS = st.tuples(RULES, RULES)


def found(tree: dict[str, object], prefix: str = "") -> Iterator[Found]:
    """The entries of *tree* as a walk meets them."""
    for name, inner in tree.items():
        path = f"{prefix}{name}"
        kind = stat.S_IFDIR if isinstance(inner, dict) else KINDS[str(inner)]
        yield Found(path, Stat(1, abs(hash(path)) % 10**9 + 2, kind | 0o644, 1, 0, 0.0))
        if isinstance(inner, dict):
            yield from found(inner, f"{path}/")


def masks(reads: list[PermissionRule], writes: list[PermissionRule]) -> RuleMasks:
    """The masks of rules; a ruleset in which one never decides is none."""
    try:
        ruleset = PermissionRuleset(
            "allow", read=OperationPermissions(rules=reads), write=OperationPermissions(rules=writes)
        )
    except PolicyError:
        reject()
    return RuleMasks(PermissionChecker(ruleset, WORK_DIR), WORK_DIR)


def above(name: str) -> Iterator[str]:
    """*name* and each directory that it lies in, innermost first, the workspace itself left out."""
    while name != WORK_DIR:
        yield name
        name = name.rpartition("/")[0]


def is_hidden(plan: Plan, name: str) -> bool:
    return any(each in plan.hidden for each in above(name))


def is_read_only(plan: Plan, name: str) -> bool:
    """What the mount that lies nearest says."""
    for each in above(name):
        if each in plan.read_only:
            return True
        if each in plan.again:
            return plan.again[each]
    return plan.frozen


@given(st.dictionaries(NAMES, TREES, max_size=4), RULESETS)
def test_a_plan_hides_and_freezes_what_the_rules_say(
    tree: dict[str, object], rules: tuple[list[PermissionRule], list[PermissionRule]]
) -> None:
    joint = JointMasks([masks(*rules)])
    assume(not joint.hidden_whole(WORK_DIR))
    plan = make_plan(found(tree), joint, WORK_DIR, Outside())
    for each in found(tree):
        name = f"{WORK_DIR}/{each.name}"
        if each.stat.is_link:
            assert name not in plan.places()
            continue
        whole = any(joint.hidden(over) and joint.hidden_whole(over) for over in above(name))
        assert is_hidden(plan, name) == (whole or (not each.stat.is_dir and joint.hidden(name)))
        if not is_hidden(plan, name):
            assert is_read_only(plan, name) == joint.read_only(name)
    for name in plan.places():
        assert joint.pins(name) <= {*plan.again, *plan.read_only, *plan.hidden}


def test_what_was_hidden_before_is_hidden_under_another_name() -> None:
    tree: dict[str, object] = {"renamed": "file", "directory": {"inside": "file"}}
    known = {(each.stat.device, each.stat.inode) for each in found(tree) if each.name in ("renamed", "directory")}
    plan = make_plan(found(tree), JointMasks([masks([], [])]), WORK_DIR, Outside(), known)
    assert plan.hidden == ("/workspace/directory", "/workspace/renamed")
    assert plan.masked == known


def test_what_one_guard_keeps_in_a_directory_that_another_keeps_stays_in_its_place() -> None:
    one = masks([], [PermissionRule("x/m/f", "deny")])
    other = masks([], [PermissionRule("**/f", "allow"), PermissionRule("**/m", "deny")])
    plan = make_plan(found({"x": {"m": {"f": "file"}}}), JointMasks([one, other]), WORK_DIR, Outside())
    assert plan.again == {"/workspace/x": False, "/workspace/x/m": True}


def test_too_many_masks_are_refused_with_their_number() -> None:
    many = {f"d{number}": {".env": "file"} for number in range(5000)}
    with pytest.raises(UnsupportedError, match="5000"):
        make_plan(found(many), JointMasks([masks([PermissionRule("**/.env", "deny")], [])]), WORK_DIR, Outside())  # type: ignore[arg-type]


def test_a_plan_that_masks_nothing_has_no_digest() -> None:
    assert Plan().digest() == ""
    assert Plan(hidden=("/workspace/a",)).digest() != Plan(read_only=("/workspace/a",)).digest() != ""
