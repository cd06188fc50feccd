"""Commands rename what they can: what was kept from them stays so under whatever name it then has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from rules.oracle_masks import WORK_DIR, Held, Tree, above, hold, renamed
from sandbox_kit.errors import PolicyError
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.masks import RuleMasks
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action

Rules = list[tuple[Action, str]]

NAMES = ("a", "b", ".e", ".e.x")
PATTERNS = (
    *("**/.e", "**/.*", "**/a", "**/b/", "**/a/**", "**/.e/**", "**/a/b", "**/b/.e", "**/a/*", "**/a/**/b", "*.x"),
    *("a", "./a", "./**/.e", "a/b", "b/**", "*/b", "/w/b/.e", "{**/a,b/.e}", "{**/a,**/b}/.e", "./**", "**/.e*"),
)
BENEATH = [f"/{a}/{b}".rstrip("/") for a in ("", *NAMES) for b in ("", *NAMES) if a or not b]
ANYWHERE = [*BENEATH, *(f"/a{each}/b" for each in BENEATH)]
STRICTNESS = {"writable": 0, "read-only": 1, "hidden": 2}
ACTIONS: tuple[Action, ...] = ("allow", "allow", "deny", "deny", "ask")
HIDE: tuple[Action, str] = ("deny", "**/.e*")
RULES = st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from(PATTERNS)), max_size=4)
PARTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)
NUMBERS = st.integers(0, 99)
MOVES = st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=4)


def masks(reads: Rules, writes: Rules, default: Action = "allow") -> RuleMasks:
    """The masks of rules; a ruleset in which one never decides is none."""
    read, write = (
        OperationPermissions(default, [PermissionRule(pattern, action) for action, pattern in rules])
        for rules in (reads, writes)
    )
    try:
        ruleset = PermissionRuleset("allow", read=read, write=write)
    except PolicyError:
        reject()
    return RuleMasks(PermissionChecker(ruleset, WORK_DIR), WORK_DIR)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A tree; what something lies beneath is a directory, the rest are files."""
    files = draw(st.lists(PARTS, min_size=1, max_size=6))
    names = {"/".join([WORK_DIR, *parts[: end + 1]]) for parts in files for end in range(len(parts))}
    directories = {name.rpartition("/")[0] for name in names}
    return {name: -i if name in directories else i for i, name in enumerate(sorted(names), 1)}


def files(tree: Tree, held: Held) -> dict[int, str]:
    return {number: held.state(tree, name) for name, number in tree.items() if number > 0}


def destinations(tree: Tree, held: Held, source: str) -> list[str]:
    """The directories that *source* can be moved into."""
    apart = [each for each in held.writable(tree) if source not in above(each)]
    return [each for each in apart if held.mount(tree, each) == held.mount(tree, source)]


def move(tree: Tree, held: Held, source: int, target: int, name: str) -> Tree:
    """*tree* after one rename that commands can do, of those that there are."""
    sources = [name for name in held.movable(tree) if tree[name] < 0]
    if not sources:
        return tree
    chosen = sources[source % len(sources)]
    directories = destinations(tree, held, chosen)
    to = f"{directories[target % len(directories)]}/{name}"
    return tree if to in tree else renamed(tree, chosen, to)


def parents(name: str) -> list[str]:
    """The directories between the work directory and *name*, outermost first."""
    return [*above(name)][-2:0:-1]


def kept(chosen: RuleMasks, name: str) -> Iterator[tuple[Callable[[str], bool], str]]:
    """What the mask of *name* keeps, as a question and what it is asked of: *name* itself or something beneath it."""
    for beneath in BENEATH:
        if chosen.hidden(name) and not (beneath and chosen.opens_beneath(name)):
            yield chosen.hidden, beneath
        elif chosen.read_only(name) and chosen.read_only(name + beneath):
            yield chosen.read_only, beneath


@settings(max_examples=300)
@given(PARTS, PARTS, RULES, RULES, st.sampled_from(["allow", "deny"]))
@example(["a"], ["b", ".e", "a"], [("allow", "**/.e"), ("deny", "**/.e/**")], [], "allow")
@example(["a"], ["b", ".e", "a"], [("allow", "**/.*"), ("ask", "**/.e")], [], "allow")
@example(["b", ".e"], ["b", ".e.x"], [("allow", "*.x"), HIDE], [("allow", "a/**"), HIDE], "allow")
@example(["a"], ["b", "a"], [], [("deny", "*/a/b"), ("allow", "**/b"), ("deny", "**/a")], "allow")
def test_what_a_mask_keeps_stays_so_whatever_becomes_of_the_names_that_are_not_pinned(
    asked: list[str], parts: list[str], reads: Rules, writes: Rules, default: Action
) -> None:
    chosen, name = masks(reads, writes, default), "/".join([WORK_DIR, *parts])
    chosen.pins("/".join([WORK_DIR, *asked]))
    pins = list(chosen.pins(name))
    assert pins == parents(name)[len(parts) - 1 - len(pins) :]
    standing = "/".join(["", *parts[len(parts) - 1 - len(pins) :]])
    for question, beneath in kept(chosen, name):
        places = ANYWHERE if len(pins) < len(parts) - 1 else [""]
        assert [place for place in places if not question(WORK_DIR + place + standing + beneath)] == []


@settings(max_examples=300)
@given(trees(), RULES, RULES, st.sampled_from(["allow", "deny"]), MOVES)
def test_no_rename_brings_what_is_kept_under_a_name_that_rules_allow(
    tree: Tree, reads: Rules, writes: Rules, default: Action, moves: list[tuple[int, int, str, bool]]
) -> None:
    chosen = masks(reads, writes, default)
    held = hold(tree, chosen)
    first = files(tree, held)
    for source, target, name, restarts in moves:
        tree = move(tree, held, source, target, name)
        held = hold(tree, chosen) if restarts else held
    last = files(tree, hold(tree, chosen))
    assert {number: last[number] for number, kind in first.items() if STRICTNESS[last[number]] < STRICTNESS[kind]} == {}
