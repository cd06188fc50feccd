"""write and edit."""

from __future__ import annotations

import io
from typing import Any

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    EditError,
    InvalidArgumentError,
    LimitExceededError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    ReadLimitError,
    SandboxConflictError,
)
from sandbox_kit.primitives import allow
from sandbox_kit.testing.base import Conformance, snapshot
from sandbox_kit.types import EditResult, Identity

__all__ = ["EditingConformance", "WritingConformance"]

AWKWARD = [
    b"",
    b"\0",
    b"\r\n\r\n",
    b"no end",
    b"10%\r50%\r\n",
    bytes(range(256)),
    b"\xef\xbb\xbfbom",
    b"$(id) `id` '\"\\",
]


class BrokenFile(io.BytesIO):
    """A file that cannot be read to its end."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError("the source broke")
        return super().read(2)


class WritingConformance(Conformance):
    """What write makes, and what it leaves alone."""

    @pytest.mark.parametrize("data", AWKWARD, ids=repr)
    def test_bytes_come_back_as_they_were(self, backend: Backend, data: bytes) -> None:
        backend.write("f", data)
        assert backend.read_bytes("f") == data

    @pytest.mark.parametrize("size", [97 * 2**10, 200 * 2**10, 5 * 2**20])
    def test_large_files_come_back_as_they_were(self, backend: Backend, size: int) -> None:
        data = (bytes(range(256)) * (size // 256 + 1))[:size]
        backend.write("big", data)
        with backend.open_read("big") as stream:
            assert stream.read() == data
        assert backend.stat("big").size == size

    def test_text_is_written_as_utf8(self, backend: Backend) -> None:
        backend.write("f", "a\r\nß€😀")
        assert backend.read_bytes("f") == "a\r\nß€😀".encode()

    def test_a_binary_file_is_written_to_its_end(self, backend: Backend) -> None:
        data = bytes(range(256)) * 2000
        backend.write("f", io.BytesIO(data))
        assert backend.read_bytes("f") == data

    def test_parents_are_made(self, backend: Backend) -> None:
        backend.write("a/b/c.txt", "x")
        assert backend.read("a/b/c.txt") == "x"
        assert backend.stat("a/b").is_dir

    def test_a_file_is_replaced_whole(self, backend: Backend) -> None:
        backend.write("f", "a long text")
        backend.write("f", "b")
        assert backend.read_bytes("f") == b"b"

    def test_what_was_opened_before_still_reads_the_old_bytes(self, backend: Backend) -> None:
        backend.write("f", "old")
        with backend.open_read("f") as stream:
            backend.write("f", "new")
            assert stream.read() in {b"old", b"new"}
        assert backend.read("f") == "new"

    def test_a_new_file_is_not_executable(self, backend: Backend) -> None:
        backend.write("f", "x")
        assert backend.stat("f").mode & 0o111 == 0

    @pytest.mark.parametrize("mode", [0o755, 0o600, 0o640])
    def test_the_mode_of_a_file_stays(self, backend: Backend, mode: int) -> None:
        with backend._open_write("f", operations=("write",), authorize=allow, mode=mode) as out:
            out.write(b"old")
        backend.write("f", "new")
        backend.edit("f", "new", "newer")
        assert (backend.stat("f").mode, backend.read("f")) == (mode, "newer")

    @pytest.mark.parametrize("path", ["d", ".", ""])
    def test_writing_over_a_directory_raises(self, backend: Backend, path: str) -> None:
        backend.mkdir("d")
        with pytest.raises(PathIsDirectoryError):
            backend.write(path, "x")

    @pytest.mark.parametrize("path", ["f/x", "f/x/y"])
    def test_writing_beneath_a_file_raises(self, backend: Backend, path: str) -> None:
        backend.write("f", "kept")
        with pytest.raises(PathNotDirectoryError):
            backend.write(path, "x")
        assert snapshot(backend).keys() == {"f"}

    def test_a_missing_directory_cannot_be_left_by_two_dots(self, backend: Backend) -> None:
        with pytest.raises(PathNotFoundError):
            backend.write("missing/../f", "x")
        assert snapshot(backend) == {}

    @pytest.mark.parametrize(
        "content", [None, 1, ["x"], io.StringIO("text"), "\ud800"], ids=["None", "1", "list", "text file", "surrogate"]
    )
    def test_other_content_is_refused_and_nothing_changes(self, backend: Backend, content: Any) -> None:
        backend.write("f", "kept")
        for path in ("f", "new/file"):
            with pytest.raises(InvalidArgumentError):
                backend.write(path, content)
        assert backend.read("f") == "kept"
        assert not backend.exists("new/file")

    def test_a_source_that_breaks_leaves_the_old_file(self, backend: Backend) -> None:
        backend.write("f", "kept")
        with pytest.raises(OSError, match="the source broke"):
            backend.write("f", BrokenFile(b"abcdef"))
        assert snapshot(backend).keys() == {"f"}
        assert backend.read("f") == "kept"

    def test_another_file_under_the_name_is_a_conflict(self, backend: Backend) -> None:
        backend.write("f", "first")
        backend.write("other", "second")
        (expect,) = backend._resolve(("f",), operations=("write",), authorize=allow)
        backend.remove("f")
        backend.move("other", "f")
        with pytest.raises(SandboxConflictError):
            backend._open_read("f", operations=("read",), authorize=allow, expect=expect)
        with (
            pytest.raises(SandboxConflictError),
            backend._open_write("f", operations=("write",), authorize=allow, expect=expect) as out,
        ):
            out.write(b"lost")
        assert backend.read("f") == "second"

    def test_a_file_where_none_was_is_a_conflict(self, backend: Backend) -> None:
        (expect,) = backend._resolve(("f",), operations=("write",), authorize=allow)
        assert (expect.device, expect.inode) == (0, 0)
        backend.write("f", "first")
        with (
            pytest.raises(SandboxConflictError),
            backend._open_write("f", operations=("write",), authorize=allow, expect=expect) as out,
        ):
            out.write(b"lost")
        assert backend.read("f") == "first"

    def test_the_expected_file_is_no_conflict(self, backend: Backend) -> None:
        backend.write("f", "first")
        (expect,) = backend._resolve(("f",), operations=("write",), authorize=allow)
        assert expect == Identity(expect.name, expect.device, expect.inode)
        with backend._open_read("f", operations=("read",), authorize=allow, expect=expect) as stream:
            assert stream.read() == b"first"
        with backend._open_write("f", operations=("write",), authorize=allow, expect=expect) as out:
            out.write(b"second")
        assert backend.read("f") == "second"


class EditingConformance(Conformance):
    """What edit replaces, and what it leaves alone."""

    @pytest.mark.parametrize(
        ("before", "old", "new", "after"),
        [
            (b"alpha\nbeta\r\ngamma\r\n", "alpha", "ALPHA", b"ALPHA\nbeta\r\ngamma\r\n"),
            (b"\xef\xbb\xbfhello\nworld\n", "world", "there", b"\xef\xbb\xbfhello\nthere\n"),
            (b"10%\r50%\r\n", "50%", "60%", b"10%\r60%\r\n"),
            (b"a\xffb\0c\n", b"b\0c", b"\xfe", b"a\xff\xfe\n"),
            (b"a.c abc", "a.c", "\\1$0", b"\\1$0 abc"),
            ("naïve".encode(), "ï", "i", b"naive"),
            (b"x\ny\n", "\ny", "", b"x\n"),
            (b"whole", "whole", "", b""),
        ],
        ids=repr,
    )
    def test_other_bytes_stay(
        self, backend: Backend, before: bytes, old: str | bytes, new: str | bytes, after: bytes
    ) -> None:
        backend.write("f", before)
        assert backend.edit("f", old, new) == EditResult("f", 1)
        assert backend.read_bytes("f") == after

    def test_line_ends_are_matched_as_they_are(self, backend: Backend) -> None:
        backend.write("f", b"a\r\nb\r\n")
        with pytest.raises(EditError) as caught:
            backend.edit("f", "a\nb", "x")
        assert caught.value.count == 0
        assert backend.read_bytes("f") == b"a\r\nb\r\n"

    @pytest.mark.parametrize(("text", "count"), [("other", 0), ("ab ab ab", 3)])
    def test_a_text_that_is_not_there_once_is_refused(self, backend: Backend, text: str, count: int) -> None:
        backend.write("f", text)
        with pytest.raises(EditError) as caught:
            backend.edit("f", "ab", "x")
        assert caught.value.count == count
        assert backend.read("f") == text

    def test_every_occurrence_is_replaced_without_overlap(self, backend: Backend) -> None:
        backend.write("f", "aaaaa")
        assert backend.edit("f", "aa", "b", replace_all=True) == EditResult("f", 2)
        assert backend.read("f") == "bba"

    def test_replacing_all_of_nothing_is_refused(self, backend: Backend) -> None:
        backend.write("f", "x")
        with pytest.raises(EditError):
            backend.edit("f", "y", "z", replace_all=True)

    @pytest.mark.parametrize(("old", "new"), [("", "x"), (b"", b"x"), ("\ud800", "x"), ("x", "\ud800"), (1, "x")])
    def test_a_bad_text_is_refused(self, backend: Backend, old: Any, new: Any) -> None:
        backend.write("f", "x")
        with pytest.raises(InvalidArgumentError):
            backend.edit("f", old, new)
        assert backend.read("f") == "x"

    def test_editing_something_else_than_a_file_raises(self, backend: Backend) -> None:
        backend.write("d/f", "x")
        for path, error in (
            ("missing", PathNotFoundError),
            ("d", PathIsDirectoryError),
            ("d/f/x", PathNotDirectoryError),
        ):
            with pytest.raises(error):
                backend.edit(path, "x", "y")
        assert backend.read("d/f") == "x"

    def test_an_edit_that_would_make_a_file_larger_than_is_read_is_refused(self, backend: Backend) -> None:
        data = b"\n" * (self.max_read_bytes // 2)
        backend.write("f", data)
        with pytest.raises(LimitExceededError) as refused:
            backend.edit("f", "\n", "xyz", replace_all=True)
        assert refused.value.limit == self.max_read_bytes
        assert backend.read_bytes("f") == data
        assert backend.edit("f", "\n", "xy", replace_all=True).replacements == len(data)

    def test_a_file_over_the_read_limit_is_refused(self, backend: Backend) -> None:
        data = b"x" + b"y" * self.max_read_bytes
        backend.write("f", data)
        with pytest.raises(ReadLimitError):
            backend.edit("f", "x", "z")
        with backend.open_read("f") as stream:
            assert stream.read(2) == b"xy"
