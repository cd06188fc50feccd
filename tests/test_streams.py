"""Bytes in and out, beside the whole content handled at once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit import streams
from sandbox_kit.errors import InvalidArgumentError, ReadLimitError, SandboxTimeoutError

texts = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xff", "ü€".encode(), b"\xc3"])).map(
    b"".join
)


class Unseekable(io.BytesIO):
    """A pipe, as far as a reader can tell."""

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0) -> int:
        raise OSError("not seekable")


class Growing(io.BytesIO):
    """A file that is longer than it says."""

    def __init__(self, data: bytes, told: int) -> None:
        super().__init__(data)
        self._told = told

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._told if whence == io.SEEK_END else super().seek(offset, whence)


class Counting(io.BytesIO):
    """A file that counts what is read of it."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data

    def readline(self, size: int | None = -1) -> bytes:
        data = super().readline(size)
        self.taken += len(data)
        return data


def lines_of(data: bytes, offset: int, limit: int | None) -> bytes:
    """Cut *data* into lines and join those that are wanted."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return b"".join(lines[offset:] if limit is None else lines[offset : offset + limit])


class TestReadBounded:
    @given(st.binary(max_size=40), st.integers(0, 40), st.sampled_from([io.BytesIO, Unseekable]))
    def test_it_is_the_whole_or_an_error(self, data: bytes, limit: int, kind: type[io.BytesIO]) -> None:
        if len(data) <= limit:
            assert streams.read_bounded(kind(data), limit) == data
            return
        with pytest.raises(ReadLimitError) as caught:
            streams.read_bounded(kind(data), limit)
        assert caught.value.limit == limit

    @given(st.binary(max_size=40), st.integers(0, 60))
    def test_a_size_is_not_believed(self, data: bytes, told: int) -> None:
        assert streams.read_bounded(Growing(data, told), 100) == data

    @pytest.mark.parametrize("told", [0, 5, 10])
    def test_what_grows_past_the_limit_is_refused(self, told: int) -> None:
        with pytest.raises(ReadLimitError):
            streams.read_bounded(Growing(b"x" * 11, told), 10)

    def test_what_says_that_it_is_too_large_is_not_read(self) -> None:
        stream = Counting(bytes(1000))
        with pytest.raises(ReadLimitError):
            streams.read_bounded(stream, 999)
        assert stream.taken == 0

    def test_at_most_one_byte_over_the_limit_is_read(self) -> None:
        stream = Counting(bytes(1000))
        stream.seekable = lambda: False  # type: ignore[method-assign]
        with pytest.raises(ReadLimitError):
            streams.read_bounded(stream, 10)
        assert stream.taken <= 11


class TestReadLines:
    @given(texts, st.integers(0, 6), st.none() | st.integers(0, 6))
    def test_it_is_the_lines_of_the_whole(self, data: bytes, offset: int, limit: int | None) -> None:
        wanted = lines_of(data, offset, limit)
        if offset == 0:
            wanted = wanted.removeprefix(b"\xef\xbb\xbf")
        assert streams.read_lines(io.BytesIO(data), offset, limit, 1000) == wanted.decode("utf-8", "replace")

    @given(texts, st.integers(0, 6), st.none() | st.integers(0, 6), st.integers(0, 12))
    def test_the_limit_holds_for_what_is_wanted_and_for_each_line_before(
        self, data: bytes, offset: int, limit: int | None, max_bytes: int
    ) -> None:
        passed = max((len(lines_of(data, number, 1).removesuffix(b"\n")) for number in range(offset)), default=0)
        if max(passed, len(lines_of(data, offset, limit))) <= max_bytes:
            streams.read_lines(io.BytesIO(data), offset, limit, max_bytes)
            return
        with pytest.raises(ReadLimitError):
            streams.read_lines(io.BytesIO(data), offset, limit, max_bytes)

    def test_a_line_longer_than_a_chunk_is_one_line(self) -> None:
        long = b"x" * (2 * streams.CHUNK + 7)
        stream = io.BytesIO(long + b"\nnext\n" + long)
        assert streams.read_lines(stream, 1, 1, len(long)) == "next\n"

    @pytest.mark.parametrize("offset", [0, 1, 2])
    def test_a_line_without_an_end_is_given_up(self, offset: int) -> None:
        stream = Counting(b"line\n" + bytes(3 * streams.CHUNK))
        with pytest.raises(ReadLimitError):
            streams.read_lines(stream, offset, 5, 2 * streams.CHUNK)
        assert stream.taken <= 2 * streams.CHUNK + 6

    def test_passing_over_lines_that_never_end_is_given_up(self) -> None:
        class Endless(io.BytesIO):
            def readline(self, size: int | None = -1) -> bytes:
                return b"line\n"

        with pytest.raises(SandboxTimeoutError):
            streams.read_lines(Endless(), 10**12, None, 1000, 0.05)
        assert streams.read_lines(Endless(), 1000, 1, 1000) == "line\n"

    def test_nothing_is_read_past_the_last_line_wanted(self) -> None:
        stream = Counting(b"line\n" * 100)
        assert streams.read_lines(stream, 2, 3, 1000) == "line\n" * 3
        assert stream.taken == 25


class TestAsBytes:
    @pytest.mark.parametrize("content", ["grüße", b"x", bytearray(b"x"), memoryview(b"x")])
    def test_text_and_bytes_are_bytes(self, content: Any) -> None:
        expected = content.encode() if isinstance(content, str) else bytes(content)
        assert streams.as_bytes(content, "old") == expected
        assert type(streams.as_bytes(content, "old")) is bytes

    @pytest.mark.parametrize("content", [None, 1, ["x"], "\ud800", io.BytesIO()])
    def test_anything_else_is_refused_by_name(self, content: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=r"^old: "):
            streams.as_bytes(content, "old")


class TestAsChunks:
    @given(st.binary(max_size=50))
    def test_the_pieces_are_the_whole(self, data: bytes) -> None:
        for content in (data, io.BytesIO(data), bytearray(data)):
            assert b"".join(streams.as_chunks(cast(BinaryIO, content))) == data

    def test_a_large_file_comes_in_pieces(self) -> None:
        data = bytes(3 * streams.CHUNK + 1)
        pieces = list(streams.as_chunks(io.BytesIO(data)))
        assert len(pieces) == 4
        assert b"".join(pieces) == data

    def test_text_that_utf8_cannot_hold_is_refused_at_once(self) -> None:
        with pytest.raises(InvalidArgumentError):
            streams.as_chunks("\ud800")

    @pytest.mark.parametrize("content", [None, 1, [b"x"], iter([b"x"])])
    def test_what_cannot_be_read_is_refused_at_once(self, content: Any) -> None:
        with pytest.raises(InvalidArgumentError):
            streams.as_chunks(content)

    @pytest.mark.parametrize("content", ["", "text"])
    def test_a_file_open_for_text_is_refused(self, content: str) -> None:
        pieces: Iterator[bytes] = streams.as_chunks(cast(BinaryIO, io.StringIO(content)))
        with pytest.raises(InvalidArgumentError):
            list(pieces)
