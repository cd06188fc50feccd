"""Keeping the output of commands: a bounded capture, and bounded lines."""

from __future__ import annotations

import threading
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.output import Capture, Lines

PIECES = st.lists(
    st.tuples(st.sampled_from(["stdout", "stderr"]), st.binary(max_size=8) | st.text(max_size=6).map(str.encode))
)


@given(PIECES, st.integers(0, 60))
def test_a_capture_is_the_first_bytes_of_both_streams(
    pieces: list[tuple[Literal["stdout", "stderr"], bytes]], limit: int
) -> None:
    seen: list[tuple[str, str]] = []
    capture = Capture(limit, lambda stream, text: seen.append((stream, text)))
    kept = {"stdout": b"", "stderr": b""}
    count = 0
    for stream, data in pieces:
        capture.feed(stream, data)
        for byte in data:
            kept[stream] += bytes([byte]) if count < limit else b""
            count += 1
    result = capture.result(0, 1.0)
    assert (result.stdout_bytes, result.stderr_bytes) == (kept["stdout"], kept["stderr"])
    assert result.stdout == kept["stdout"].decode("utf-8", "replace")
    assert result.stderr == kept["stderr"].decode("utf-8", "replace")
    assert result.output == "".join(text for _, text in seen)
    assert result.stdout == "".join(text for stream, text in seen if stream == "stdout")
    assert result.truncated == (count > limit)


def naive_lines(data: bytes, limit: int) -> list[bytes]:
    """What is left to read of *data* when it arrived byte by byte and nobody read."""
    kept = b""
    for byte in data:
        kept += bytes([byte])
        if len(kept) > limit:
            end = kept.find(b"\n") + 1
            kept = kept[end:] if 0 < end < len(kept) else kept[len(kept) - limit :]
    return kept.splitlines(keepends=True)


ASCII_LINES = st.text("ab\n", max_size=40).map(str.encode)


@given(st.lists(ASCII_LINES))
def test_lines_under_the_limit_are_those_of_a_file(chunks: list[bytes]) -> None:
    lines = Lines(10_000)
    for chunk in chunks:
        lines.feed(chunk)
    lines.end()
    assert "".join(chunk.decode() for chunk in chunks).splitlines(keepends=True) == list(lines)
    assert lines.dropped == 0


@given(ASCII_LINES, st.integers(1, 20))
def test_over_the_limit_the_oldest_lines_are_dropped(data: bytes, limit: int) -> None:
    lines = Lines(limit)
    for byte in data:
        lines.feed(bytes([byte]))
    lines.end()
    expected = naive_lines(data, limit)
    assert [line.encode() for line in lines] == expected
    assert lines.dropped == len(data) - sum(map(len, expected))


@given(st.lists(ASCII_LINES), st.integers(0, 20))
def test_what_is_kept_never_exceeds_the_limit(chunks: list[bytes], limit: int) -> None:
    lines = Lines(limit)
    for chunk in chunks:
        lines.feed(chunk)
    lines.end()
    assert sum(map(len, lines)) <= limit


def test_reading_between_arrivals_joins_a_line_that_came_in_parts() -> None:
    lines = Lines(100)
    lines.feed(b"one\ntw")
    assert next(lines) == "one\n"
    lines.feed(b"o\n\xff")
    assert next(lines) == "two\n"
    lines.end()
    assert list(lines) == ["\ufffd"]


def test_a_reader_waits_for_a_line() -> None:
    lines = Lines(100)
    timer = threading.Timer(0.05, lines.feed, (b"late\n",))
    timer.start()
    assert next(lines) == "late\n"
    timer.join()


def test_many_short_lines_take_linear_time() -> None:
    lines = Lines(10_000_000)
    lines.feed(b"x\n" * 500_000)
    lines.end()
    assert sum(1 for _ in lines) == 500_000
