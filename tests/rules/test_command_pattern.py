"""Execute patterns: what they match, what is refused, and that they stay linear."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import PatternError
from sandbox_kit.rules.commands import compile_command
from tests.rules.oracle_commands import naive_matches


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("git log", "git log", True),
        ("git log", "git log -1", False),
        ("git *", "git", True),
        ("git *", "git ", True),
        ("git *", "git log && rm x", True),
        ("git *", "gitk", False),
        ("git*", "gitk", True),
        ("*", "", True),
        ("*", "a\nb", True),
        ("* *", "a b", True),
        ("* *", "ab", True),
        ("a*b", "a/x\ny/b", True),
        ("a?b", "a\nb", True),
        ("a?b", "ab", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[!a]x", "/x", True),
        ("[]a]x", "]x", True),
        ("[!]a]x", "]x", False),
        ("[a-]x", "-x", True),
        ("[\\]-]x", "]x", True),
        ("[a\\-c]x", "bx", False),
        ("[/]x", "/x", True),
        ("\\*x", "*x", True),
        ("\\*x", "ax", False),
        ("\\ \\*", " *", True),
        ("a\\ *", "a", False),
        ("a\\ *", "a b", True),
        ("{a,b}", "{a,b}", True),
        ("{a,b}", "a", False),
        ("a.b", "axb", False),
        ("x [\\]y]z *", "x yz q", True),
        ("é*", "eté", False),
        ("ab*ba", "aba", False),
        ("*a*a*", "aba", True),
        ("a*b*c", "abbc", True),
        ("a*bc*bc", "abc", False),
    ],
)
def test_pattern_matches_the_whole_text(pattern: str, text: str, matches: bool) -> None:
    assert compile_command(pattern).matches(text) is matches


@pytest.mark.parametrize(
    ("pattern", "offset"),
    [
        ("", 0),
        (" git", 0),
        ("git ", 3),
        ("git\n", 3),
        ("a\0b", 1),
        ("ab\ud800", 2),
        ("git \\", 4),
        ("\\a", 0),
        ("\\1", 0),
        ("[a\\b]", 2),
        ("x[", 1),
        ("x[a", 1),
        ("x[]", 1),
        ("x[!]", 1),
        ("x[a-", 1),
        ("x[a\\", 1),
        ("[z-a]", 1),
        ("[[:alpha:]]", 1),
        ("[a[=b=]]", 2),
    ],
)
def test_malformed_pattern_is_refused_with_its_place(pattern: str, offset: int) -> None:
    with pytest.raises(PatternError) as caught:
        compile_command(pattern)
    assert (caught.value.pattern, caught.value.offset) == (pattern, offset)


def test_pattern_knows_its_source() -> None:
    assert compile_command("rm [ab] *").source == "rm [ab] *"
    assert repr(compile_command("git *")) == "CommandPattern('git *')"


PATTERNS = st.lists(st.sampled_from(["a", "b", " ", "*", "?", "\\*", "ab", " *"]), min_size=1, max_size=8)
TEXTS = st.text("ab *\n", max_size=10)


@given(PATTERNS.map("".join), TEXTS)
def test_pattern_agrees_with_backtracking(pattern: str, text: str) -> None:
    pattern = f"a{pattern.strip()}b" if pattern != pattern.strip() else pattern
    assert compile_command(pattern).matches(text) is naive_matches(pattern, text)


@pytest.mark.parametrize("pattern", ["*a" * 40 + "*b", "*" * 200 + "b", "a*" * 100 + "b *", "?*" * 60 + "b"])
def test_hard_pattern_ends_soon(pattern: str) -> None:
    began = time.monotonic()
    assert not compile_command(pattern).matches("a" * 20_000)
    assert time.monotonic() - began < 5
