"""ls, stat, exists, mkdir, remove and move; how paths are taken."""

from __future__ import annotations

import posixpath
import time
from pathlib import PurePosixPath
from typing import Any

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathError,
    PathEscapeError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxError,
)
from sandbox_kit.primitives import allow
from sandbox_kit.testing.base import Conformance, fill, paths, snapshot
from sandbox_kit.types import FileInfo, Listing

__all__ = ["ChangingConformance", "ListingConformance", "PathConformance"]

BASES = pytest.mark.parametrize("path", [".", "", "..", "d/.."])


class ListingConformance(Conformance):
    """What is said of entries."""

    def test_entries_are_sorted_and_dot_files_shown(self, backend: Backend) -> None:
        fill(backend, {"b": "", "a/inner": "", ".hidden": "", "Z": ""})
        listing = backend.ls()
        assert isinstance(listing, Listing)
        assert paths(listing) == [".hidden", "Z", "a", "b"]
        assert listing.skipped == ()

    def test_an_empty_directory_has_no_entries(self, backend: Backend) -> None:
        backend.mkdir("d")
        assert backend.ls("d") == []

    def test_listed_paths_read_back(self, backend: Backend) -> None:
        fill(backend, {"d/e/one": "1", "d/e/two": "2"})
        assert paths(backend.ls("d/e")) == ["d/e/one", "d/e/two"]
        assert [backend.read(entry.path) for entry in backend.ls("d/e")] == ["1", "2"]

    def test_a_file_is_listed_itself(self, backend: Backend) -> None:
        backend.write("d/f", "four")
        assert backend.ls("d/f") == [backend.stat("d/f")]

    @pytest.mark.parametrize("method", ["ls", "stat"])
    def test_looking_at_what_is_missing_raises(self, backend: Backend, method: str) -> None:
        backend.write("f", "")
        look = backend.ls if method == "ls" else backend.stat
        for path, error in (
            ("missing", PathNotFoundError),
            ("missing/x", PathNotFoundError),
            ("f/x", PathNotDirectoryError),
        ):
            with pytest.raises(error):
                look(path)

    def test_a_file_is_described(self, backend: Backend) -> None:
        before = time.time() - 60
        backend.write("d/f.txt", "four")
        info = backend.stat("d/f.txt")
        assert info == FileInfo("f.txt", "d/f.txt", False, 4, info.mtime, info.mode)
        assert before < info.mtime < time.time() + 60
        assert info.mode & 0o600 == 0o600

    def test_a_directory_is_described(self, backend: Backend) -> None:
        backend.mkdir("d")
        info = backend.stat("d/")
        assert info == FileInfo("d", "d", True, 0, info.mtime, info.mode)
        assert info.mode & 0o700 == 0o700

    def test_the_work_directory_is_described(self, backend: Backend) -> None:
        for path in ("", ".", "./.", backend.work_dir):
            info = backend.stat(path)
            assert (info.name, info.path, info.is_dir) == (".", ".", True)

    def test_a_listing_and_stat_say_the_same(self, backend: Backend) -> None:
        fill(backend, {"d/f": "x", "d/e/f": "x"})
        assert [backend.stat(entry.path) for entry in backend.ls("d")] == backend.ls("d")

    def test_only_a_link_holds_a_target(self, backend: Backend) -> None:
        fill(backend, {"d/f": "x"})
        for path in ("d", "d/f"):
            with pytest.raises(InvalidArgumentError):
                backend._readlink(path, operations=("read",), authorize=allow)
        with pytest.raises(PathNotFoundError):
            backend._readlink("missing", operations=("read",), authorize=allow)

    def test_exists_tells_what_is_there(self, backend: Backend) -> None:
        backend.write("d/f", "")
        assert [backend.exists(path) for path in ("d", "d/f", "d/", ".", "")] == [True] * 5
        assert [backend.exists(path) for path in ("x", "x/y", "d/f/x", "d/x", "f")] == [False] * 5


class ChangingConformance(Conformance):
    """What mkdir, remove and move change, and what they refuse."""

    def test_mkdir_makes_parents_and_leaves_what_is_there(self, backend: Backend) -> None:
        backend.write("a/kept", "x")
        backend.mkdir("a/b/c")
        backend.mkdir("a/b/c")
        backend.mkdir(".")
        assert snapshot(backend).keys() == {"a", "a/kept", "a/b", "a/b/c"}

    @pytest.mark.parametrize(
        ("path", "error"),
        [
            ("f", PathExistsError),
            ("f/", PathExistsError),
            ("f/x", PathNotDirectoryError),
            ("x/../y", PathNotFoundError),
        ],
    )
    def test_mkdir_refuses(self, backend: Backend, path: str, error: type[PathError]) -> None:
        backend.write("f", "kept")
        before = snapshot(backend)
        with pytest.raises(error):
            backend.mkdir(path)
        assert snapshot(backend) == before

    def test_a_file_or_an_empty_directory_is_removed(self, backend: Backend) -> None:
        backend.write("d/f", "")
        backend.remove("d/f")
        assert paths(backend.ls()) == ["d"]
        backend.remove("d")
        assert backend.ls() == []

    def test_a_tree_is_removed_with_recursive_only(self, backend: Backend) -> None:
        fill(backend, {"d/e/f": "", "d/g": "", "kept": ""})
        before = snapshot(backend)
        with pytest.raises(PathIsDirectoryError):
            backend.remove("d")
        assert snapshot(backend) == before
        backend.remove("d", recursive=True)
        assert paths(backend.ls()) == ["kept"]

    def test_recursive_removes_a_file_too(self, backend: Backend) -> None:
        backend.write("f", "")
        backend.remove("f", recursive=True)
        assert backend.ls() == []

    @pytest.mark.parametrize(("path", "error"), [("x", PathNotFoundError), ("f/x", PathNotDirectoryError)])
    def test_removing_what_is_missing_raises(self, backend: Backend, path: str, error: type[PathError]) -> None:
        backend.write("f", "")
        for recursive in (False, True):
            with pytest.raises(error):
                backend.remove(path, recursive=recursive)

    @BASES
    def test_the_work_directory_is_never_removed(self, backend: Backend, path: str) -> None:
        backend.write("d/f", "kept")
        for recursive in (False, True):
            with pytest.raises((InvalidArgumentError, PathEscapeError)):
                backend.remove(path, recursive=recursive)
        with pytest.raises(InvalidArgumentError):
            backend.remove(backend.work_dir, recursive=True)
        assert backend.read("d/f") == "kept"

    @BASES
    def test_the_work_directory_is_never_moved(self, backend: Backend, path: str) -> None:
        backend.write("d/f", "kept")
        with pytest.raises((InvalidArgumentError, PathEscapeError)):
            backend.move(path, "elsewhere")
        assert snapshot(backend).keys() == {"d", "d/f"}

    def test_a_file_is_moved_with_bytes_and_mode(self, backend: Backend) -> None:
        backend.write("a", b"\0\xff")
        backend.mkdir("d")
        before = backend.stat("a")
        backend.move("a", "d/b")
        after = backend.stat("d/b")
        assert (after.size, after.mode, after.mtime) == (before.size, before.mode, before.mtime)
        assert snapshot(backend).keys() == {"d", "d/b"}

    def test_a_directory_is_moved_with_all_beneath(self, backend: Backend) -> None:
        fill(backend, {"a/f": "1", "a/b/f": "2"})
        backend.move("a/", "c/")
        assert snapshot(backend).keys() == {"c", "c/f", "c/b", "c/b/f"}
        assert backend.read("c/b/f") == "2"

    @pytest.mark.parametrize(
        ("source", "target", "error"),
        [
            ("f", "g", PathExistsError),
            ("f", "d", PathExistsError),
            ("d", "f", PathExistsError),
            ("d", "empty", PathExistsError),
            ("f", "f", PathExistsError),
            ("d", "d", PathExistsError),
            ("f", ".", PathExistsError),
            ("d", "d/e", InvalidArgumentError),
            ("x", "y", PathNotFoundError),
            ("f", "x/y", PathNotFoundError),
            ("d", "d/x/y", InvalidArgumentError),
            ("f", "g/y", PathNotDirectoryError),
            ("f", "f/y", PathNotDirectoryError),
            ("g/x", "y", PathNotDirectoryError),
        ],
    )
    def test_move_refuses(self, backend: Backend, source: str, target: str, error: type[SandboxError]) -> None:
        fill(backend, {"f": "f", "g": "g", "d/inner": "d"})
        backend.mkdir("empty")
        before = snapshot(backend)
        with pytest.raises(error):
            backend.move(source, target)
        assert snapshot(backend) == before


class PathConformance(Conformance):
    """How a path is taken, whatever the method."""

    @pytest.mark.parametrize(
        "path",
        ["d/f", "./d/f", "d//f", "d/./f", "d/f/", "d/e/../f", "d/../d/f", PurePosixPath("d/f"), "{work_dir}/d/f"],
        ids=str,
    )
    def test_spellings_of_one_path_are_one_file(self, backend: Backend, path: str | PurePosixPath) -> None:
        backend.mkdir("d/e")
        backend.write("d/f", "x")
        typed = path.format(work_dir=backend.work_dir) if isinstance(path, str) else path
        assert backend.read(typed) == "x"
        assert backend.stat(typed).path == "d/f"
        backend.write(typed, "y")
        assert backend.edit(typed, "y", "z").path == "d/f"
        assert snapshot(backend).keys() == {"d", "d/e", "d/f"}

    def test_the_work_directory_is_absolute_and_normalised(self, backend: Backend) -> None:
        assert backend.work_dir.startswith("/")
        assert posixpath.normpath(backend.work_dir) == backend.work_dir
        assert backend.stat(backend.work_dir).is_dir

    @pytest.mark.parametrize("path", ["../" * 40 + "nothing-of-that-name/x", "d/../../nothing-of-that-name/x"])
    def test_climbing_finds_nothing(self, backend: Backend, path: str) -> None:
        backend.mkdir("d")
        with pytest.raises((PathEscapeError, PathNotFoundError)):
            backend.read(path)

    def test_a_sibling_with_the_same_beginning_is_another_place(self, backend: Backend) -> None:
        backend.write("f", "x")
        with pytest.raises((PathEscapeError, PathNotFoundError)):
            backend.read(backend.work_dir + "-secret/f")

    @pytest.mark.parametrize("path", ["a\0b", "\0", "f\0", "\ud800", b"f", None, 1], ids=repr)
    def test_what_is_no_path_is_refused_by_every_method(self, backend: Backend, path: Any) -> None:
        backend.write("f", "x")
        for call in (
            lambda: backend.read(path),
            lambda: backend.read_bytes(path),
            lambda: backend.open_read(path),
            lambda: backend.write(path, "y"),
            lambda: backend.edit(path, "x", "y"),
            lambda: backend.ls(path),
            lambda: backend.glob("*", path),
            lambda: backend.stat(path),
            lambda: backend.exists(path),
            lambda: backend.grep("x", path),
            lambda: backend.mkdir(path),
            lambda: backend.remove(path),
            lambda: backend.move(path, "g"),
            lambda: backend.move("f", path),
            lambda: backend.upload("/", path),
            lambda: backend.download(path, "/"),
            lambda: backend.export(path),
        ):
            with pytest.raises(InvalidArgumentError):
                call()
        assert snapshot(backend).keys() == {"f"}

    def test_a_name_of_255_bytes_is_the_longest(self, backend: Backend) -> None:
        backend.write("é" * 127 + "x", "long")
        assert paths(backend.ls()) == ["é" * 127 + "x"]
        with pytest.raises(PathError):
            backend.write("é" * 128, "")
        with pytest.raises(PathError):
            backend.mkdir("x" * 256)

    def test_a_path_that_is_too_long_is_refused(self, backend: Backend) -> None:
        with pytest.raises(PathError):
            backend.read("/".join(["directory"] * 500))
