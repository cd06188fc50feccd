"""GrepFilter: of what an external grep prints, exactly the hits in allowed files."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.errors import RemoteProtocolError
from sandbox_kit.search.filter import ByteFilter, GrepFilter
from sandbox_kit.search.hits import Hit
from sandbox_kit.search.records import MAX_NAME, RecordParser
from sandbox_kit.search.runs import expand

from .oracles import cut_at, has_word, hits_in, printed

NEEDLE = has_word(b"needle")
NAMES = [b"a", b"ab", b"a:1:b", b"-r", b"new\nline", b"x\n1:2:y", b"\xff", b"dir/f-4-g", b"\n", b"1:0:"]
PIECES = [b"needle", b"needle\r\n", b"x", b"\n", b"\n", b"\0", b"\xff", b"-1-", b":1:0:", b"needle\n", b"\r"]
names = st.sampled_from(NAMES)
trees = st.lists(st.tuples(names, st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join)), max_size=6)
cuts = st.lists(st.integers(0, 10_000), max_size=20)


def allowed(name: bytes) -> bool:
    return sum(name) % 2 == 0


def fed(search_filter: GrepFilter, chunks: list[bytes]) -> list[Hit]:
    return [hit for chunk in chunks for hit in expand(search_filter.feed(chunk))] + expand(search_filter.close())


def unlike_neighbours(tree: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """A file is printed in one go: keep the first of each name."""
    return list({name: (name, data) for name, data in reversed(tree)}.values())


@given(trees, cuts, st.integers(0, 3), st.integers(1, 8))
def test_hits_are_those_of_a_naive_search_of_the_allowed_files(
    tree: list[tuple[bytes, bytes]], cuts: list[int], context: int, max_line: int
) -> None:
    tree = unlike_neighbours(tree)
    output = b"".join(printed(name, data, NEEDLE, context=context) for name, data in tree)
    expected = [
        hit
        for name, data in tree
        if allowed(name)
        for hit in hits_in(data, NEEDLE, name=name, context=context, max_line=max_line)
    ]
    assert fed(GrepFilter(allowed, context=context, max_line=max_line), cut_at(output, cuts)) == expected
    assert fed(GrepFilter(allowed, context=context, max_line=max_line), [bytes([byte]) for byte in output]) == expected


@given(trees, cuts)
def test_bytes_are_passed_on_as_they_are(tree: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    records = [(name, printed(name, data, NEEDLE)) for name, data in unlike_neighbours(tree)]
    search_filter = ByteFilter(allowed)
    chunks = cut_at(b"".join(record for _, record in records), cuts)
    output = b"".join(map(search_filter.feed, chunks))
    search_filter.close()
    assert output == b"".join(record for name, record in records if allowed(name))


@given(trees, cuts, st.integers(0, 5), st.integers(0, 2))
def test_the_limit_counts_allowed_hits_only(
    tree: list[tuple[bytes, bytes]], cuts: list[int], limit: int, context: int
) -> None:
    output = b"".join(printed(name, data, NEEDLE, context=context) for name, data in unlike_neighbours(tree))
    whole = fed(GrepFilter(allowed, context=context), [output])
    limited = GrepFilter(allowed, context=context, limit=limit)
    assert fed(limited, cut_at(output, cuts)) == whole[:limit]
    assert limited.truncated == (len(whole) > limit)


def test_many_denied_hits_before_the_only_allowed_one_do_not_use_up_the_limit() -> None:
    output = b"".join(b"denied%d\0001:0:needle\n" % number for number in range(1200)) + b"ok\0001:0:needle\n"
    search_filter = GrepFilter(lambda name: name == b"ok", limit=10)
    assert [hit.name for hit in fed(search_filter, [output])] == [b"ok"]
    assert not search_filter.truncated


def test_what_comes_after_the_limit_is_not_even_parsed() -> None:
    search_filter = GrepFilter(lambda name: True, limit=1)
    assert search_filter.feed(b"f\0001:0:a\nf\0002:2:b\n") == [Hit(b"f", 1, 0, b"a")]
    assert search_filter.truncated
    assert search_filter.feed(b"\0 not a record") == []
    assert search_filter.close() == []


def test_a_name_is_asked_for_once_a_run_also_across_chunks() -> None:
    asked: list[bytes] = []

    def allow(name: bytes) -> bool:
        asked.append(name)
        return True

    output = b"".join(b"%s\0%d:0:x\n" % (name, number) for name in (b"a", b"b", b"a") for number in range(50))
    fed(GrepFilter(allow), [output[index : index + 7] for index in range(0, len(output), 7)])
    assert asked == [b"a", b"b", b"a"]


def test_a_denied_file_that_names_itself_like_a_record_forges_nothing() -> None:
    output = b"a\nok.txt:1:SECRET\0001:0:needle ok.txt 2:0:x\nn\nb.txt\0001:0:needle\n"
    assert fed(GrepFilter(lambda name: b"SECRET" not in name), [output]) == [Hit(b"n\nb.txt", 1, 0, b"needle")]


def test_a_context_line_that_holds_a_nul_is_empty_and_ends_nothing() -> None:
    output = b"f\0001-0-a\0\nf\0002:3:b\nf\0003-5-\0c\nf\0004:8:d\n"
    assert fed(GrepFilter(lambda name: True, context=1), [output]) == [
        Hit(b"f", 2, 3, b"b", (b"",), (b"",)),
        Hit(b"f", 4, 8, b"d", (b"",), ()),
    ]


@pytest.mark.parametrize("context", [0, 1])
def test_nothing_follows_the_binary_hit_of_a_file(context: int) -> None:
    output = b"f\0001:0:a\nf\0002:2:b\0\nf\0003:5:c\nf\0004-7-x\ng\0001:0:d\n"
    hits = fed(GrepFilter(lambda name: True, context=context), [output])
    assert [(hit.name, hit.line_number, hit.line, hit.binary) for hit in hits] == [
        (b"f", 1, b"a", False),
        (b"f", 2, b"", True),
        (b"g", 1, b"d", False),
    ]


def test_a_long_line_is_cut_and_its_nul_is_seen_beyond_the_cut() -> None:
    long = b"x" * 50_000
    output = b"f\0001:0:" + long + b"\r\nf\0002:9:" + long + b"\0\n"
    chunks = [output[index : index + 4096] for index in range(0, len(output), 4096)]
    assert fed(GrepFilter(lambda name: True, max_line=10), chunks) == [
        Hit(b"f", 1, 0, b"x" * 10),
        Hit(b"f", 2, 9, b"", binary=True),
    ]


BROKEN = [
    b"no nul and no end",
    b"f\0001:0:cut",
    b"f\0001:0:whole\nf\0002",
    b"f\0001:0:whole\n--\n",
    b"\0001:0:no name\n",
    b"f\0x:0:no number\n",
    b"f\0001:x:no offset\n",
    b"f\0" + b"1" * 30 + b":0:too long a number\n",
    b"n" * (MAX_NAME + 1),
    b"f\0one:two",
]


@pytest.mark.parametrize("output", BROKEN)
@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_a_stream_that_is_not_made_of_records_is_an_error(output: bytes, size: int) -> None:
    chunks = [output[index : index + size] for index in range(0, len(output), size)]
    with pytest.raises(RemoteProtocolError):
        fed(GrepFilter(lambda name: True), chunks)


@pytest.mark.parametrize("output", [b"n" * (MAX_NAME + 1), b"\0x"])
def test_bytes_that_cannot_be_records_are_an_error_at_once(output: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        ByteFilter(lambda name: True).feed(output)


@pytest.mark.parametrize("output", [b"part of a name", b"f\0001:0:cut"])
def test_bytes_that_end_inside_a_record_are_an_error_at_the_end(output: bytes) -> None:
    search_filter = ByteFilter(lambda name: True)
    search_filter.feed(output)
    with pytest.raises(RemoteProtocolError):
        search_filter.close()


def test_records_of_a_trusted_stream_need_no_filter() -> None:
    parser = RecordParser()
    assert parser.feed(b"f\0001:0:a\nf\0002-2-context is dropped\n") == [Hit(b"f", 1, 0, b"a")]
    with pytest.raises(RemoteProtocolError):
        parser.feed(b"n" * (MAX_NAME + 1))


def test_a_trusted_stream_must_end_at_the_end_of_a_record() -> None:
    parser = RecordParser()
    assert parser.feed(b"f\0001:0:a\nf\0002") == [Hit(b"f", 1, 0, b"a")]
    with pytest.raises(RemoteProtocolError):
        parser.close()


@pytest.mark.parametrize("context", [0, 2])
@pytest.mark.parametrize("allow", [True, False])
def test_memory_stays_flat(allow: bool, context: int) -> None:
    record = b"some/file name\0001:0:" + b"needle " * 60 + b"\n"
    chunk = record * (2**16 // len(record))
    line = b"y" * 2**16
    search_filter = GrepFilter(lambda name: allow, context=context)
    tracemalloc.start()
    try:
        search_filter.feed(chunk)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(150):
            search_filter.feed(chunk)
        search_filter.feed(b"other\0001:0:")
        for _ in range(150):
            search_filter.feed(line)
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert grown < 60 * len(chunk)
