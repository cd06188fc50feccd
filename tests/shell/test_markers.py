"""What stands between two marks, however the stream was chopped, against an obviously right reader of the whole."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.shell.markers import Bounds, Reader

BEGIN, END = b"b" * 31 + b"c", b"bb" + b"e" * 30

pieces = st.lists(
    st.sampled_from([BEGIN, END, BEGIN[:7], END[:5], END[:-1], b"b", b"bb", b"e", b"\n", b" ", b" 7\n", b" 12\n", b"x"])
    | st.binary(max_size=8),
    max_size=12,
)


def naive(stream: bytes) -> tuple[bytes, bool, int | None]:
    """The reply, whether it began, and the number after it; of a reply without an end what surely is one."""
    _, begun, rest = stream.partition(BEGIN + b"\n")
    if not begun:
        return b"", False, None
    reply, ended, rest = rest.partition(END)
    if not ended:
        withheld = max(n for n in range(len(END)) if reply.endswith(END[:n]))
        return reply[: len(reply) - withheld], True, None
    line, newline, _ = rest.partition(b"\n")
    if not newline and len(rest) < 48:
        return reply, True, None
    return reply, True, int(line) if re.fullmatch(rb" [0-9]{1,40}", line) else 255


def read(stream: bytes, cuts: list[int]) -> tuple[bytes, bool, int | None]:
    """The same by a Reader that is fed *stream* in pieces, cut at *cuts*."""
    taken: list[bytes] = []
    reader = Reader(Bounds(BEGIN, END), taken.append)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for start, stop in pairwise(places):
        reader.feed(stream[start:stop])
    assert b"" not in taken
    return b"".join(taken), reader.begun, reader.exit_code


@given(pieces, st.lists(st.integers(0, 1000), max_size=20))
def test_any_chopping_gives_the_same(parts: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(parts)
    assert read(stream, cuts) == naive(stream)


@given(st.binary(max_size=40), st.binary(max_size=60), st.integers(0, 10**39), st.lists(st.integers(0, 1000)))
def test_a_reply_comes_whole_between_late_output_of_others(
    before: bytes, reply: bytes, number: int, cuts: list[int]
) -> None:
    stream = before + BEGIN + b"\n" + reply + END + b" %d\nlate" % number
    told = read(stream, cuts)
    assert told == naive(stream)
    if BEGIN not in before and END not in reply + END[:-1]:
        assert told == (reply, True, number)


def test_one_byte_at_a_time() -> None:
    stream = b"x" + BEGIN + b"\n" + END[:-1] + b"bb" + END + b" 3\n"
    assert read(stream, list(range(len(stream)))) == (END[:-1] + b"bb", True, 3)


def test_a_line_that_holds_no_number_is_255() -> None:
    for line in (b"\n", b" \n", b"3\n", b" -1\n", b" 1 2\n", b" x\n", b" " + b"1" * 60):
        assert read(BEGIN + b"\n" + END + line, [])[2] == 255


def test_marks_are_never_twice_the_same() -> None:
    marks = [mark for bounds in (Bounds() for _ in range(100)) for mark in (bounds.begin, bounds.end)]
    assert len(set(marks)) == 200
    assert all(re.fullmatch(rb"[0-9a-f]{32}", mark) for mark in marks)
