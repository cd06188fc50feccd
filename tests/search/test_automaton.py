"""Linear time, whatever the pattern; an end to every wait."""

from __future__ import annotations

import time

import pytest

from sandbox_kit.errors import SandboxTimeoutError
from sandbox_kit.search import automaton
from sandbox_kit.search.automaton import Automaton
from sandbox_kit.search.clock import Clock
from sandbox_kit.search.dialect import parse
from sandbox_kit.search.parser import parse_regex

EVIL = [".*y.*z$", "(a*)*b", "(a|a)*b", "x(a|aa)+$", "(.*)(.*)(.*)(.*)x", r"(\w+\s*)+:", "a.*b.*c.*d"]


@pytest.mark.parametrize("pattern", EVIL)
@pytest.mark.parametrize("line", [b"y" * 200_000, b"a" * 200_000 + b"!", b"abc" * 70_000, b"a b " * 50_000])
def test_patterns_that_make_a_backtracking_engine_explode_end_soon(pattern: str, line: bytes) -> None:
    begun = time.monotonic()
    parse(pattern).matcher()(line)
    assert time.monotonic() - begun < 5


def test_the_clock_ends_a_match_that_must_build_a_state_a_byte() -> None:
    matches = parse("(a|b)*a(a|b){900}c").matcher(Clock(-1.0))
    with pytest.raises(SandboxTimeoutError):
        matches(b"ab" * 1000 + b"c")


def test_a_full_table_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton, "MAX_CELLS", 60)
    matcher = Automaton(parse_regex("a.{4}b$|^x"))
    lines = [b"a1234b", b"aaaaaaaab", b"aaa1b", b"x", b"yx", b"a123b", b"baaaaab"]
    assert [matcher.matches(line) for line in lines * 2] == [True, True, False, True, False, False, True] * 2


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        (r"\bfoo\b", b"a foo.", True),
        (r"\bfoo\b", b"afoo", False),
        (r"\Boo\b", b"foo", True),
        (r"\bé", "aé".encode(), True),
        ("^a", b"ba", False),
        ("^", b"", True),
        ("a$", b"aa", True),
        ("", b"x", True),
        ("(?:ab|cd){2,}x", b"abcdx", True),
        ("(?:é|€)?x{1,3}$", "€xxx".encode(), True),
    ],
)
def test_assertions_hold_where_they_should(pattern: str, line: bytes, expected: bool) -> None:
    assert Automaton(parse_regex(pattern)).matches(line) is expected
