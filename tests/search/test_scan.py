"""The library's own search: every line that matches, from streams that it never holds whole."""

from __future__ import annotations

import io
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import LimitExceededError, SandboxTimeoutError
from sandbox_kit.search import scan
from sandbox_kit.search.dialect import parse
from sandbox_kit.search.hits import Hit
from sandbox_kit.search.scan import Scanner

from .oracles import hits_in

PATTERNS = [
    "needle",
    "(?i)needle",
    "need.e",
    "n.*e",
    "^",
    "$",
    "x*$",
    r"n\w+e$",
    "^$",
    r"\w+ \w+x",
    "é|needle",
    "",
    "n.e?",
]
PIECES = [b"needle", b"needle\r\n", b"Needle ", b"\n", b"\n", "é".encode(), b"\xff", b"\0", b"\r", b"x", b"word word"]
contents = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


class Trickle(io.BytesIO):
    """A stream that gives less than it is asked for."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__(data)
        self.most = most

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self.most)


class Repeated(io.BytesIO):
    """A stream of one block many times over."""

    def __init__(self, block: bytes, count: int) -> None:
        super().__init__()
        self.block = block
        self.left = count

    def read(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        return self.block if self.left >= 0 else b""


@given(contents, st.sampled_from(PATTERNS), st.integers(0, 3), st.integers(1, 9), st.integers(1, 40))
def test_hits_are_those_of_a_naive_search(data: bytes, pattern: str, context: int, max_line: int, most: int) -> None:
    dialect = parse(pattern)
    scanner = Scanner(dialect, context=context, max_line=max_line)
    expected = hits_in(data, dialect.matcher(), name=b"f", context=context, max_line=max_line)
    assert list(scanner.scan(Trickle(data, most), b"f")) == expected
    assert list(scanner.scan(io.BytesIO(data), b"f")) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"), [("needle$", [(1, b"needle")]), ("needle", [(1, b"needle")]), (r"\s$", [])]
)
def test_the_carriage_return_of_a_line_end_is_no_part_of_the_line(
    pattern: str, expected: list[tuple[int, bytes]]
) -> None:
    hits = Scanner(parse(pattern)).scan(io.BytesIO(b"needle\r\nfoo\r\n"))
    assert [(hit.line_number, hit.line) for hit in hits] == expected


@pytest.mark.parametrize(
    ("pattern", "length"), [("needle", 20_000_000), ("need[l]e", 20_000_000), ("n.*l[e]", 2_000_000)]
)
@pytest.mark.parametrize("context", [0, 1])
def test_a_line_of_20_mb_is_searched_whole_and_cut(pattern: str, length: int, context: int) -> None:
    data = b"first\n" + b"x" * length + b"needle\nneedle 2"
    hits = list(Scanner(parse(pattern), context=context, max_line=100).scan(io.BytesIO(data)))
    assert [(hit.line_number, hit.offset, hit.line) for hit in hits] == [
        (2, 6, b"x" * 100),
        (3, length + 13, b"needle 2"),
    ]


def test_a_line_that_is_too_long_is_an_error_not_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONGEST_LINE", 1000)
    data = b"needle\n" + b"x" * 1001
    hits = Scanner(parse("needle")).scan(Trickle(data, 64))
    assert next(hits).line_number == 1
    with pytest.raises(LimitExceededError):
        next(hits)


@pytest.mark.parametrize("pattern", ["needle", "need[l]e", "z.*e$"])
def test_the_time_limit_ends_the_search(pattern: str) -> None:
    scanner = Scanner(parse(pattern), time_limit=-1.0)
    with pytest.raises(SandboxTimeoutError):
        list(scanner.scan(io.BytesIO(b"x needle\n")))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("[n]", [1, 3]), ("n.*e$", [1, 3]), ("^$", [2]), ("z*$", [1, 2, 3]), (r"[mn]\w+[de]$", [1, 3])],
)
def test_context_reaches_over_the_ends_of_blocks(pattern: str, expected: list[int]) -> None:
    data = b"needle\n\nneedle\n"
    dialect = parse(pattern)
    for most in (2, 3, 7, 8, 100):
        hits = list(Scanner(dialect, context=1).scan(Trickle(data, most)))
        assert hits == hits_in(data, dialect.matcher(), context=1)
        assert [hit.line_number for hit in hits] == expected


@pytest.mark.parametrize("context", [0, 1])
def test_nothing_follows_the_binary_hit_of_a_stream(context: int) -> None:
    hits = Scanner(parse("needle"), context=context).scan(io.BytesIO(b"needle\n\0needle\nneedle\nx\nneedle\n"))
    assert [(hit.line_number, hit.binary) for hit in hits] == [(1, False), (2, True)]


def test_a_time_limit_that_is_far_away_changes_nothing() -> None:
    scanner = Scanner(parse("z.*e$"), time_limit=3600.0)
    assert [hit.line_number for hit in scanner.scan(io.BytesIO(b"x\nzze\n"))] == [2]


def test_the_first_hit_comes_before_the_stream_is_read_to_its_end() -> None:
    stream = Repeated(b"needle\n", 1000)
    hits = Scanner(parse("needle")).scan(stream)
    assert next(hits) == Hit(b"", 1, 0, b"needle")
    assert stream.left == 999


@pytest.mark.parametrize("pattern", ["needle", "[xy]z", "n.*z"])
@pytest.mark.parametrize("context", [0, 2])
def test_memory_stays_flat(pattern: str, context: int) -> None:
    scanner = Scanner(parse(pattern), context=context)
    block = b"a" * 30_000 + b"\n" + b"a line\n" * 30 + b"needle xz\n"
    list(scanner.scan(io.BytesIO(block)))
    tracemalloc.start()
    try:
        count = sum(1 for _ in scanner.scan(Repeated(block, 300)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 300
    assert peak < 30 * len(block)


def test_the_time_that_the_caller_takes_between_hits_does_not_count() -> None:
    hits = Scanner(parse("needle"), time_limit=0.5).scan(io.BytesIO(b"needle\n" * 3))
    for _ in range(3):
        assert next(hits).line == b"needle"
        time.sleep(0.4)
    assert list(hits) == []
