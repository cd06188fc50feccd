"""Hits become records, and are released only if the library's own bytes bear them out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.search.context import ContextWindow, Line
from sandbox_kit.search.hits import Hit, confirm
from sandbox_kit.types import GrepMatch

from .oracles import has_word, hits_in, lines_of

NEEDLE = has_word(b"a")
contents = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\n", b"\r\n", b"\0", b"\xff", b"abab"])).map(b"".join)


@given(contents, st.integers(0, 3), st.integers(1, 4))
def test_what_the_file_holds_is_confirmed_as_it_is(data: bytes, context: int, max_line: int) -> None:
    for hit in hits_in(data, NEEDLE, name=b"f", context=context, max_line=max_line):
        assert confirm(hit, data, context=context, max_line=max_line) == hit


@given(contents, st.integers(0, 3))
def test_context_comes_from_the_data_whatever_the_program_printed(data: bytes, context: int) -> None:
    for hit in hits_in(data, NEEDLE, context=context):
        forged = hit._replace(before=(b"SECRET",), after=(b"SECRET",))
        assert confirm(forged, data, context=context) == hit


@given(contents, contents, st.integers(0, 40))
def test_a_window_of_the_file_is_enough(data: bytes, after: bytes, drop: int) -> None:
    for hit in hits_in(data, NEEDLE):
        base = min(drop, max(0, hit.offset - 1))
        assert confirm(hit, data[base:], base=base) == hit


@pytest.mark.parametrize(
    ("hit", "base"),
    [
        (Hit(b"f", 1, 0, b"SECRET"), 0),
        (Hit(b"f", 1, 0, b"on"), 0),
        (Hit(b"f", 1, 0, b"one more"), 0),
        (Hit(b"f", 1, 1, b"ne"), 0),
        (Hit(b"f", 1, 0, b"", binary=True), 0),
        (Hit(b"f", 2, 4, b"two"), 4),
        (Hit(b"f", 2, 4, b"two"), 5),
        (Hit(b"f", 3, 8, b""), 0),
        (Hit(b"f", 9, 10**12, b""), 0),
    ],
)
def test_what_the_file_does_not_hold_there_is_not_released(hit: Hit, base: int) -> None:
    assert confirm(hit, b"one\ntwo\n"[base:], base=base) is None


def test_a_line_that_a_window_cuts_is_no_context() -> None:
    data = b"SECRET one\ntwo\nthree a\n"
    hit = Hit(b"f", 3, 15, b"three a")
    assert confirm(hit, data[7:], base=7, context=5) == hit._replace(before=(b"two",))


def test_a_hit_becomes_the_public_record() -> None:
    hit = Hit(b"raw", 3, 10, b"\xffneedle", (b"\xe9",), (b"z",))
    assert hit.to_match("name") == GrepMatch("name", 3, "\ufffdneedle", ("\ufffd",), ("z",))
    assert Hit(b"raw", 3, 10, b"", binary=True).to_match("name") == GrepMatch("name", 3, "", binary=True)


def test_a_window_starts_anew_at_a_gap_and_at_another_file() -> None:
    window = ContextWindow(2)
    lines = [(b"f", 1, False), (b"f", 2, True), (b"f", 4, True), (b"g", 5, True), (b"g", 6, False), (b"g", 7, False)]
    made = [window.push(Line(name, number, 0, b"%d" % number, False, match)) for name, number, match in lines]
    around = [[(hit.line, hit.before, hit.after) for hit in hits] for hits in made]
    assert around == [[], [], [(b"2", (b"1",), ())], [(b"4", (), ())], [], [(b"5", (), (b"6", b"7"))]]
    assert not window.waits
    assert window.flush() == []


@given(contents)
def test_the_naive_lines_are_those_between_line_feeds(data: bytes) -> None:
    assert b"".join(line + b"\n" for line in lines_of(data)) in (data, data + b"\n")
