"""The patterns that an index leaves out match nothing that it was asked about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import PatternError
from sandbox_kit.rules.command_index import CommandIndex
from sandbox_kit.rules.commands import compile_command
from sandbox_kit.rules.compiled import CommandRules
from sandbox_kit.rules.dangerous import DANGEROUS_COMMANDS
from sandbox_kit.rules.ruleset import PermissionRule
from sandbox_kit.types import Action

PIECES = st.lists(
    st.sampled_from(["a", "ab", "b", " ", "*", "?", "[ab]", "[!a]", "\\ ", "\\*"]), min_size=1, max_size=6
)
TEXTS = st.lists(st.sampled_from(["a", "ab", "b", " ", "*", "c"]), max_size=6).map("".join)
ACTIONS: st.SearchStrategy[Action] = st.sampled_from(["allow", "ask", "deny"])


def is_valid(pattern: str) -> bool:
    try:
        compile_command(pattern)
    except PatternError:
        return False
    return True


PATTERNS = PIECES.map("".join).filter(is_valid)


@given(st.lists(PATTERNS, max_size=8), st.lists(TEXTS, max_size=2))
def test_no_pattern_that_matches_is_left_out(sources: list[str], texts: list[str]) -> None:
    patterns = [compile_command(source) for source in sources]
    matching = [index for index, pattern in enumerate(patterns) if any(map(pattern.matches, texts))]
    candidates = CommandIndex(patterns).candidates(texts)
    assert candidates == sorted(set(candidates))
    assert set(matching) <= set(candidates)


def first(rules: list[tuple[Action, str]], text: str) -> str | None:
    """The first rule that holds for a command of one word each, by a scan."""
    found = (f"{action} {pattern}" for action, pattern in rules if compile_command(pattern).matches(text))
    return next(found, None)


@given(st.lists(st.tuples(ACTIONS, PATTERNS), max_size=6), TEXTS)
def test_the_first_rule_of_all_decides(rules: list[tuple[Action, str]], text: str) -> None:
    compiled = CommandRules([PermissionRule(pattern, action, command=True) for action, pattern in rules], "allow")
    outcome, _ = compiled.decide(text, [[text]])
    assert outcome.rule == first(rules, text)


def test_everyday_commands_meet_few_patterns() -> None:
    index = CommandIndex([compile_command(pattern) for pattern in DANGEROUS_COMMANDS])
    for line in (
        "ls -la",
        "make test",
        "git status",
        "python3 -m pytest -q tests | tail -5",
        "rm -rf build",
        "curl -o x http://y",
    ):
        assert len(index.candidates([line])) < len(DANGEROUS_COMMANDS) / 8
