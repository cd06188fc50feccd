"""What the dialect takes, what it refuses, and that it means what Python means."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sandbox_kit.errors import InvalidArgumentError, PatternError
from sandbox_kit.search.automaton import Automaton
from sandbox_kit.search.dialect import parse
from sandbox_kit.search.parser import MAX_DEPTH, MAX_REPEAT, parse_regex
from sandbox_kit.search.syntax import size, trim, ways

from .strategies import clean_lines, lines, patterns

REFUSED: list[tuple[str, int | None, str]] = [
    (r"(a)\1", 3, "backreference"),
    (r"(?P<n>a)(?P=n)", 8, "backreference"),
    ("a(?=b)", 1, "lookahead"),
    ("(?!b)", 0, "lookahead"),
    ("(?<=b)a", 0, "lookbehind"),
    ("(?<!b)a", 0, "lookbehind"),
    ("(?>a)", 0, "atomic"),
    ("(a)(?(1)b)", 3, "conditional"),
    ("(?#x)a", 0, "comment"),
    ("(?s)a", 0, "flag"),
    ("a(?i)b", 1, "flag"),
    ("(?a:b)", 0, "flag"),
    ("a*+", 1, "possessive"),
    ("a{2}+", 1, "possessive"),
    ("(", 0, "unterminated group"),
    ("a)", 1, "parenthesis"),
    ("(?P<1>a)", 4, "group name"),
    ("*a", 0, "nothing to repeat"),
    ("^*", 1, "nothing to repeat"),
    ("a|+", 2, "nothing to repeat"),
    ("{2}", 0, "nothing to repeat"),
    ("a|({,2})", 3, "nothing to repeat"),
    ("(?P<n>a)(?P<n>b)", 12, "group name"),
    ("a**", 2, "multiple repeat"),
    ("a*?{2}", 3, "multiple repeat"),
    ("a{3,2}", 1, "least"),
    (f"a{{{MAX_REPEAT + 1}}}", 1, "repetition over"),
    ("a{1,99999999999}", 1, "repetition over"),
    ("(a{1000}){1000}", None, "too large"),
    ("(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), MAX_DEPTH, "nested"),
    ("[a", 0, "unterminated"),
    ("[", 0, "unterminated"),
    ("[a\\", 0, "unterminated"),
    ("[b-a]", 1, "range"),
    (r"[a-\d]", 1, "range"),
    (r"[\d-a]", 1, "range"),
    ("[[:alpha:]]", 1, "POSIX"),
    (r"[\r\n]", 0, "no character"),
    (r"[^\s\S]", 0, "no character"),
    ("a\\", 2, "backslash"),
    (r"\q", 0, "bad escape"),
    (r"\N{DASH}", 0, "bad escape"),
    (r"\xg0", 0, "hexadecimal"),
    (r"\u12", 0, "hexadecimal"),
    (r"\U00110000", 0, "not a character"),
    (r"\ud800", 0, "not a character"),
    ("\udcff", 0, "not a character"),
    (r"\012", 0, "octal"),
    ("a\0", 1, "NUL"),
    ("a\nb", 1, "line feed"),
    (r"a\r", 1, "carriage return"),
    (r"\x00", 0, "NUL"),
    ("a$b", 1, "follow"),
    ("(a$)b", 2, "follow"),
    ("(a$)?", 2, "follow"),
    ("a^b", 1, "before"),
    ("a(b|^c)", 4, "before"),
    ("(^a)*", 1, "before"),
]


@pytest.mark.parametrize(("pattern", "offset", "words"), REFUSED, ids=[ascii(row[0])[:20] for row in REFUSED])
def test_what_is_not_in_the_dialect_is_refused_with_its_place(pattern: str, offset: int | None, words: str) -> None:
    with pytest.raises(PatternError, match=words) as caught:
        parse(pattern)
    assert (caught.value.pattern, caught.value.offset) == (pattern, offset)


@pytest.mark.parametrize(("text", "offset"), [("a\nb", 1), ("\r", 0), ("ab\0", 2), ("\ud800", 0), ("x" * 20_000, None)])
def test_a_plain_string_that_no_line_holds_is_refused(text: str, offset: int | None) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text, fixed=True)
    assert caught.value.offset == offset


ACCEPTED: list[tuple[str, str, bool]] = [
    ("", "", True),
    ("a|", "zzz", True),
    ("needle$", "a needle\r", True),
    ("needle$", "a needle\r\r", False),
    (r"needle\Z", "needle ", False),
    ("^$", "\r", True),
    ("a.b", "a\rb", False),
    (r"\s+$", "foo\r", False),
    (r"\s+$", "foo \r", True),
    (r"a[^\r\n]b", "a-b", True),
    ("(?i)é", "É", True),
    ("(?i:a)b", "Ab", True),
    ("(?i:a)b", "AB", False),
    ("(?i)(?-i:a)b", "aB", True),
    ("(?i)(?-i:a)b", "AB", False),
    ("(?i)[^a]", "A", False),
    ("(?i)k", "\u212a", False),
    (r"\w", "é", False),
    (r"\W", "é", True),
    (r"é\b", "é", False),
    ("x{", "x{", True),
    ("x{,}", "x", True),
    ("x{1,y}", "x{1,y}", True),
    ("[]]", "]", True),
    (r"[\b]", "\b", True),
    (r"\a\f\v\t", "\a\f\v\t", True),
    (r"\-\é\/", "-é/", True),
    ("(?:a|b$)", "b", True),
    (r"\B^$", "", True),
    ("(){3}(?:)*a", "a", True),
    (r"[\^\]\[-]x", "^x", True),
    (r"a{2,3}b", "aab", True),
    ("a{2,}?b", "aab", True),
]


@pytest.mark.parametrize(("pattern", "line", "expected"), ACCEPTED)
def test_what_a_pattern_means(pattern: str, line: str, expected: bool) -> None:
    dialect = parse(pattern)
    assert dialect.matcher()(line.encode()) is expected
    assert bool(dialect.to_python().search(line.encode())) is expected
    assert bool(dialect.to_python(ascii_only=True).search(line.encode())) is expected or not line.isascii()


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@given(patterns, clean_lines)
def test_on_a_line_of_text_it_is_python_itself(pattern: str, line: str) -> None:
    expected = re.search(pattern, line, re.ASCII) is not None
    if r"\B" in pattern and not line:
        expected = re.search(pattern.replace(r"\B", r"(?!\b)"), line, re.ASCII) is not None
    assert parse(pattern).matcher()(line.encode()) is expected


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@given(patterns, st.text("abBxX1_ -]^.\tkK", max_size=12))
def test_ignoring_case_on_ascii_it_is_python_itself(pattern: str, line: str) -> None:
    assume(pattern.isascii() and r"\u" not in pattern and r"\U" not in pattern)
    expected = re.search(pattern.replace(r"\B", r"(?!\b)"), line, re.ASCII | re.IGNORECASE) is not None
    assert parse(pattern, ignore_case=True).matcher()(line.encode()) is expected


@given(patterns, lines)
def test_the_backtracking_engine_and_the_automaton_agree(pattern: str, line: bytes) -> None:
    dialect = parse(pattern)
    automaton = Automaton(parse_regex(pattern))
    assert automaton.matches(line.removesuffix(b"\r")) == bool(dialect.to_python().search(line))


@given(patterns, lines)
def test_every_line_that_matches_holds_the_required_literal(pattern: str, line: bytes) -> None:
    dialect = parse(pattern)
    if dialect.matcher()(line):
        assert (dialect.required_literal or b"") in line
    if dialect.literal is not None:
        assert dialect.matcher()(line) == (dialect.literal in line)


@given(patterns)
def test_trimming_never_makes_a_pattern_larger(pattern: str) -> None:
    node = parse_regex(pattern)
    assert size(trim(node)) <= size(node)
    assert ways(trim(node)) <= ways(node)


@pytest.mark.parametrize(
    ("pattern", "linear", "required", "literal"),
    [
        ("TODO", True, b"TODO", b"TODO"),
        (".*foo.*", True, b"foo", b"foo"),
        ("a{3}b+", True, b"aaab", b"aaab"),
        (r"\d{4}-\d{2}", True, b"-", None),
        (r"\s+$", True, None, None),
        ("(?i)todo", True, None, None),
        ("foo|bar", True, None, None),
        ("x(ab|ab){20}b", False, b"x", None),
        ("x(ab|cd){2}y", True, b"x", None),
        ("x(ab|cd|ef){900}y", False, b"x", None),
        ("x(abc)+y[de]z", False, b"abc", None),
        ("x?(a|b)longer", True, b"longer", None),
        (r"def \w+\(", False, b"def ", None),
        (".*y.*z$", False, b"y", None),
        ("x(a|a){20}b", True, b"x" + b"a" * 20 + b"b", b"x" + b"a" * 20 + b"b"),
        ("(a?){30}a{30}", True, b"a" * 30, b"a" * 30),
        ("b(a?){30}a{30}", False, b"a" * 30, None),
        ("x(a?b?c?){1000}$", False, b"x", None),
        ("", True, None, b""),
        ("a*", True, None, b""),
        ("[ab]{2,}x", True, b"x", None),
    ],
)
def test_what_is_known_of_a_pattern(pattern: str, linear: bool, required: bytes | None, literal: bytes | None) -> None:
    dialect = parse(pattern)
    assert (dialect.linear, dialect.required_literal, dialect.literal) == (linear, required, literal)


def test_a_pattern_is_one_argument_that_begins_as_an_option_of_its_own() -> None:
    dialect = parse("-f.env", fixed=True)
    assert dialect.to_ripgrep() == [r"--regexp=\-f\.env"]
    assert dialect.to_grep() == ["--extended-regexp", r"--regexp=-f\.env"]


def test_the_largest_patterns_fit_into_one_argument() -> None:
    for pattern in ("." * 600, r"\b" * 9_900, "[á-üā-\u0500]" * 1_200, "\x01" * 19_000, "a{1,2}" * 4_900):
        dialect = parse(pattern)
        for options in (dialect.to_ripgrep(), dialect.to_grep()):
            assert max(len(option.encode("utf-8", "surrogateescape")) for option in options) < 128 * 1024


def test_a_pattern_that_no_argument_holds_is_refused() -> None:
    with pytest.raises(PatternError, match="too large"):
        parse("[\x01-\x07]" * 15_000)


@pytest.mark.parametrize(
    "pattern", ["a?" * 5_000 + "b", "b" + "a?" * 5_000, "a*" * 5_000, "(" * 49 + "a?" * 5_000 + ")" * 49]
)
def test_what_is_optional_at_the_ends_goes_however_long_it_is(pattern: str) -> None:
    dialect = parse(pattern)
    assert dialect.to_ripgrep() == ["--regexp=b" if "b" in pattern else "--regexp="]
    assert dialect.matcher()(b"xbx")


@pytest.mark.parametrize("pattern", [None, b"a", 1])
def test_a_pattern_that_is_no_text_is_refused(pattern: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="a pattern is a str"):
        parse(pattern)


def test_a_dialect_is_a_value() -> None:
    dialect = parse("a+", ignore_case=True)
    assert dialect == parse("a+", ignore_case=True) == copy.deepcopy(dialect) == pickle.loads(pickle.dumps(dialect))
    assert dialect != parse("a+")
    assert dialect != parse("a+", fixed=True, ignore_case=True)
    assert repr(dialect) == "Dialect(pattern='a+', fixed=False, ignore_case=True)"
