"""Runs: neighbouring lines of one file taken as one are the same lines taken one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.search.hits import Hit, confirm
from sandbox_kit.search.runs import Run, as_text, expand, run_of
from sandbox_kit.types import GrepMatch

from .oracles import has_word, hits_in, printed

NEEDLE = has_word(b"a")
contents = st.lists(st.sampled_from([b"a", b"b", b"\n", b"\n", b"a\r\n", b"\0", b"\xff", b"\xc3\xa9a", b"a:1:0:"])).map(
    b"".join
)


@given(contents)
def test_the_lines_of_a_run_are_those_of_a_naive_search(data: bytes) -> None:
    hits = hits_in(data, NEEDLE, name=b"f")
    run = run_of(b"f", printed(b"f", data, NEEDLE))
    if any(hit.binary for hit in hits) or any(hit.line != data[hit.offset :].split(b"\n")[0] for hit in hits):
        assert run is None
    elif run is not None:
        assert run.hits() == hits


@given(contents.filter(lambda data: b"\0" not in data and b"\r" not in data))
def test_plain_lines_make_a_run_and_their_file_bears_them_out(data: bytes) -> None:
    run = run_of(b"f", printed(b"f", data, NEEDLE))
    assert run is not None
    whole = data if data.endswith(b"\n") else data + b"\n"
    assert run.matches("path", as_text(whole)) == [hit.to_match("path") for hit in run.hits()]


@given(contents, contents)
def test_what_another_file_bears_out_is_no_more_than_a_look_at_each_line_confirms(data: bytes, other: bytes) -> None:
    run = run_of(b"f", printed(b"f", data, NEEDLE)) or Run(b"f", [])
    confirmed = [hit.to_match("path") for hit in run.hits() if confirm(hit, other) is not None]
    matches = run.matches("path", as_text(other))
    assert [match for match in confirmed if match in matches] == matches
    if other.endswith(b"\n") and b"\r" not in other:
        assert matches == confirmed


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (b"one\ntwo\n", ("1", "0", "SECRET\n")),
        (b"one\ntwo\n", ("1", "0", "on\n")),
        (b"one\ntwo\n", ("1", "1", "ne\n")),
        (b"one\ntwo\n", ("2", "3", "\n")),
        (b"one\ntwo", ("2", "4", "two\n")),
        (b"one\ntwo\n", ("3", "8", "\n")),
        (b"one\ntwo\n", ("3", "9" * 20, "two\n")),
        (b"", ("1", "0", "\n")),
    ],
)
def test_what_does_not_stand_there_as_it_was_found_is_not_returned(data: bytes, row: tuple[str, str, str]) -> None:
    assert Run(b"f", [row]).matches("path", as_text(data)) == []


def test_undecodable_bytes_become_replacement_characters() -> None:
    run = run_of(b"f", b"f\0001:0:\xff caf\xc3\xa9\n")
    assert run is not None
    assert run.matches("path", as_text(b"\xff caf\xc3\xa9\n")) == [GrepMatch("path", 1, "\ufffd caf\u00e9")]


@pytest.mark.parametrize("records", [b"f\0001-0-context\n", b"f\0x:0:no number\n", b"f\0" + b"1" * 21 + b":0:long\n"])
def test_other_records_make_no_run(records: bytes) -> None:
    assert run_of(b"f", records) is None


def test_lines_of_runs_and_single_ones_keep_their_order() -> None:
    single = Hit(b"g", 1, 0, b"x")
    assert expand([Run(b"f", [("1", "0", "a\n"), ("2", "2", "b\n")]), single]) == [
        Hit(b"f", 1, 0, b"a"),
        Hit(b"f", 2, 2, b"b"),
        single,
    ]
