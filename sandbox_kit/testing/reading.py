"""read, read_bytes and open_read."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    LimitExceededError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    ReadLimitError,
)
from sandbox_kit.testing.base import Conformance

__all__ = ["ReadingConformance"]

READERS = pytest.mark.parametrize("method", ["read", "read_bytes", "open_read"])
TEN_LINES = "".join(f"line {number}\n" for number in range(10))


def read_by(backend: Backend, method: str, path: str) -> str | bytes:
    """Read *path* whole by one of the three ways."""
    if method == "read":
        return backend.read(path)
    if method == "read_bytes":
        return backend.read_bytes(path)
    with backend.open_read(path) as stream:
        return stream.read()


class ReadingConformance(Conformance):
    """What a reader gets."""

    @READERS
    def test_reading_gives_back_what_was_written(self, backend: Backend, method: str) -> None:
        backend.write("f", "grüße\n")
        assert read_by(backend, method, "f") == ("grüße\n" if method == "read" else "grüße\n".encode())

    @READERS
    def test_an_empty_file_is_there_and_empty(self, backend: Backend, method: str) -> None:
        backend.write("empty", "")
        assert read_by(backend, method, "empty") == ("" if method == "read" else b"")

    @READERS
    def test_reading_what_is_missing_raises(self, backend: Backend, method: str) -> None:
        with pytest.raises(PathNotFoundError) as caught:
            read_by(backend, method, "missing")
        assert isinstance(caught.value, FileNotFoundError)

    @READERS
    def test_reading_in_a_missing_directory_raises(self, backend: Backend, method: str) -> None:
        with pytest.raises(PathNotFoundError):
            read_by(backend, method, "missing/f")

    @READERS
    @pytest.mark.parametrize("path", ["d", "d/", ".", ""])
    def test_reading_a_directory_raises(self, backend: Backend, method: str, path: str) -> None:
        backend.mkdir("d")
        with pytest.raises(PathIsDirectoryError) as caught:
            read_by(backend, method, path)
        assert isinstance(caught.value, IsADirectoryError)

    @READERS
    @pytest.mark.parametrize("path", ["f/x", "f/x/y", "f/.."])
    def test_reading_beneath_a_file_raises(self, backend: Backend, method: str, path: str) -> None:
        backend.write("f", "x")
        with pytest.raises(PathNotDirectoryError) as caught:
            read_by(backend, method, path)
        assert isinstance(caught.value, NotADirectoryError)

    @pytest.mark.parametrize("text", ["[Error: x]", "Error: no such file", "None", "False"])
    def test_text_that_looks_like_an_error_is_content(self, backend: Backend, text: str) -> None:
        backend.write("f", text)
        assert backend.read("f") == text

    def test_a_byte_order_mark_is_dropped_from_text_only(self, backend: Backend) -> None:
        backend.write("bom", b"\xef\xbb\xbfhello\nworld\n")
        assert backend.read("bom") == "hello\nworld\n"
        assert backend.read("bom", limit=1) == "hello\n"
        assert backend.read("bom", offset=1) == "world\n"
        assert backend.read_bytes("bom") == b"\xef\xbb\xbfhello\nworld\n"

    def test_undecodable_bytes_become_replacement_characters(self, backend: Backend) -> None:
        backend.write("f", b"a\xff\xfeb\n\xc3")
        assert backend.read("f") == "a��b\n�"

    def test_line_ends_are_kept(self, backend: Backend) -> None:
        backend.write("f", b"one\r\ntwo\rtwo\nthree")
        assert backend.read("f") == "one\r\ntwo\rtwo\nthree"

    @pytest.mark.parametrize(
        ("offset", "limit", "expected"),
        [
            (0, None, TEN_LINES),
            (5, 2, "line 5\nline 6\n"),
            (8, None, "line 8\nline 9\n"),
            (9, 100, "line 9\n"),
            (0, 0, ""),
            (3, 0, ""),
            (10, None, ""),
            (99, 5, ""),
        ],
    )
    def test_lines_are_counted_from_zero(self, backend: Backend, offset: int, limit: int | None, expected: str) -> None:
        backend.write("f", TEN_LINES)
        assert backend.read("f", offset=offset, limit=limit) == expected

    def test_only_a_newline_ends_a_line(self, backend: Backend) -> None:
        backend.write("f", "a\u2028b\x0bc\x85d\re\nsecond\r\nthird")
        assert backend.read("f", limit=1) == "a\u2028b\x0bc\x85d\re\n"
        assert backend.read("f", offset=1, limit=1) == "second\r\n"
        assert backend.read("f", offset=2) == "third"

    @pytest.mark.parametrize("arguments", [{"offset": -1}, {"limit": -1}, {"offset": 1.5}, {"limit": True}])
    def test_a_bad_offset_or_limit_is_refused(self, backend: Backend, arguments: dict[str, Any]) -> None:
        backend.write("f", TEN_LINES)
        with pytest.raises(InvalidArgumentError):
            backend.read("f", **arguments)

    def test_a_file_of_the_most_bytes_is_read(self, backend: Backend) -> None:
        assert backend.max_read_bytes == self.max_read_bytes
        backend.write("f", b"x" * self.max_read_bytes)
        assert len(backend.read_bytes("f")) == len(backend.read("f")) == self.max_read_bytes

    def test_a_larger_file_is_refused(self, backend: Backend) -> None:
        backend.write("f", b"x" * (self.max_read_bytes + 1))
        for call in (backend.read, backend.read_bytes):
            with pytest.raises(ReadLimitError) as caught:
                call("f")
            assert isinstance(caught.value, LimitExceededError)
            assert caught.value.limit == self.max_read_bytes

    def test_a_stream_reads_a_larger_file(self, backend: Backend) -> None:
        data = bytes(range(256)) * (self.max_read_bytes // 128)
        backend.write("f", data)
        with backend.open_read("f") as stream:
            assert stream.read(3) == data[:3]
            assert stream.read() == data[3:]
        assert stream.closed

    def test_lines_of_a_larger_file_are_read(self, backend: Backend) -> None:
        backend.write("f", b"first\nsecond\n" + b"x" * self.max_read_bytes + b"\nlast\n")
        assert backend.read("f", offset=1, limit=1) == "second\n"
        assert backend.read("f", offset=3) == "last\n"
        with pytest.raises(ReadLimitError):
            backend.read("f", offset=1, limit=2)
