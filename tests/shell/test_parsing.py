"""Replies taken apart: whatever names a listing holds, in pieces of any size, the same entries come out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.shell.faults import refuse_failure
from sandbox_kit.backends.shell.listing import Found, parse_listing
from sandbox_kit.backends.shell.spots import Spot, Stat, check_length, parse_spot, parse_stat
from sandbox_kit.backends.shell.writing import _format
from sandbox_kit.errors import (
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
)

COMPONENTS = st.binary(min_size=1, max_size=12).filter(lambda raw: not {0, 47} & {*raw} and raw not in (b".", b".."))
PATHS = st.lists(COMPONENTS, min_size=1, max_size=4).map(b"/".join)
NUMBERS = st.integers(0, 2**63)
KINDS = {"d": 0o040000, "f": 0o100000, "l": 0o120000, "p": 0o010000}
ENTRIES = st.tuples(PATHS, st.sampled_from(sorted(KINDS)), st.integers(0, 0o7777), NUMBERS, NUMBERS, st.booleans())


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut *data* into pieces of *sizes*, and the rest."""
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(st.lists(ENTRIES, max_size=6), st.lists(st.integers(0, 40), max_size=10))
def test_what_find_prints_is_what_is_found(
    entries: list[tuple[bytes, str, int, int, int, bool]], sizes: list[int]
) -> None:
    printed = b"".join(
        b"%s%d %d %s%o 1 %d 12.5 %s\0" % (b"!" if closed else b"+", inode, inode, kind.encode(), mode, size, name)
        for name, kind, mode, inode, size, closed in entries
    )
    expected = [
        Found(name.decode("utf-8", "surrogateescape"), Stat(inode, inode, KINDS[kind] | mode, 1, size, 12.5), closed)
        for name, kind, mode, inode, size, closed in entries
    ]
    assert list(parse_listing(cut(printed, sizes))) == expected


@given(st.lists(ENTRIES, max_size=6), st.lists(st.integers(0, 40), max_size=10))
def test_what_stat_prints_is_what_is_found(
    entries: list[tuple[bytes, str, int, int, int, bool]], sizes: list[int]
) -> None:
    printed = b"".join(
        b"./%s//%d %d %x 1 %d 12//\n" % (name, inode, inode, KINDS[kind] | mode, size)
        for name, kind, mode, inode, size, _ in entries
    )
    expected = [
        Found(name.decode("utf-8", "surrogateescape"), Stat(inode, inode, KINDS[kind] | mode, 1, size, 12.0))
        for name, kind, mode, inode, size, _ in entries
    ]
    assert list(parse_listing(cut(printed, sizes))) == expected


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1), min_size=2))
def test_a_place_is_what_its_records_say(names: list[str]) -> None:
    parent, name, *hops = ["/" + text.replace("/", "_") for text in names]
    name = name[1:]
    records = [*(f"h{hop}" for hop in hops), f"p{parent}", f"n{name}", "m", "s1 2 81a4 1 5 7.5\n"]
    spot = parse_spot(records)
    assert (spot.parent, spot.hops, spot.stat) == (parent, tuple(hops), Stat(1, 2, 0o100644, 1, 5, 7.5))
    assert name in (".", "..") or spot.real == f"{parent}/{name}"


def test_a_reply_without_a_place_is_a_conflict() -> None:
    with pytest.raises(SandboxConflictError):
        parse_spot(["g"])


@pytest.mark.parametrize("line", ["", "1 2 3", "stat: cannot stat\n", "1 2 81a4 1 5 6 7 8"])
def test_what_stat_did_not_print_is_nothing(line: str) -> None:
    assert parse_stat(line) is None


@pytest.mark.parametrize(
    ("fault", "error"),
    [("n", PathNotFoundError), ("a", PathAccessError), ("l", NotRegularFileError), ("c", SandboxConflictError)],
)
def test_a_fault_is_an_error_of_its_kind(fault: str, error: type[Exception]) -> None:
    assert type(Spot("/", (), fault=fault).error("x")) is error


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (["mv: cannot move './a: No space left on device' to './b': Permission denied\n", "e!"], PathAccessError),
        (["g", "dd: error writing 'standard output': No space left on device\n", "e!"], PathError),
        (["rmdir: failed to remove './d': Directory not empty\n", "e!"], PathIsDirectoryError),
        (["rmdir: './d': Directory not empty\n", "e!"], PathIsDirectoryError),
        (["ln: ./x: File exists\n", "e!"], PathExistsError),
        (["ex", "p/", "m"], PathExistsError),
        (["ec", "p/", "m"], SandboxConflictError),
        (["en", "p/", "m"], PathNotFoundError),
        (["e!"], PathError),
    ],
)
def test_what_a_tool_says_last_is_the_reason(records: list[str], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        refuse_failure("x", records)
    assert type(caught.value) is error


def test_a_reply_without_a_failure_is_none() -> None:
    refuse_failure("x", ["g", "d/made", ""])


@given(st.binary(max_size=300))
def test_a_format_holds_no_directive_and_no_quote(data: bytes) -> None:
    text = _format(bytearray(data))
    assert text.isascii()
    assert not {"%", "'", '"', "$", "`"} & {*text}
    unescaped = text.encode().decode("unicode_escape").encode("latin-1")
    assert unescaped == data


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("/" + "x" * 255, True),
        ("/" + "x" * 256, False),
        ("/" + "é" * 128, False),
        ("/x" * 2047, True),
        ("/x" * 2048, False),
    ],
)
def test_a_name_that_no_file_can_have_is_refused(name: str, fits: bool) -> None:
    if fits:
        check_length(name, "x")
        return
    with pytest.raises(PathError, match="too long"):
        check_length(name, "x")
