"""Path rules, each beside a slow and obvious one."""

from __future__ import annotations

import os
import posixpath
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit import paths
from sandbox_kit.errors import InvalidArgumentError

components = st.sampled_from(["a", "b", "..", ".", "", "...", ".a", "a.", "ü", "a b", "-"])
typed = st.builds(lambda lead, parts: lead + "/".join(parts), st.sampled_from(["", "/", "//"]), st.lists(components))
clean = st.lists(st.sampled_from(["a", "b", "ab", ".c"]), max_size=4).map(lambda parts: "/" + "/".join(parts))


def walked(path: str, base: str) -> str:
    """Take one step after the other, from the root."""
    at: list[str] = []
    for part in (path if path.startswith("/") else f"{base}/{path}").split("/"):
        if part == "..":
            at = at[:-1]
        elif part not in {"", "."}:
            at = [*at, part]
    return "/" + "/".join(at)


class TestNormalise:
    @given(typed, clean)
    def test_it_is_a_walk_from_the_root(self, path: str, base: str) -> None:
        assert paths.normalise(path, base) == walked(path, base)

    @given(typed, clean)
    def test_it_is_absolute_clean_and_stable(self, path: str, base: str) -> None:
        once = paths.normalise(path, base)
        assert once.startswith("/")
        assert not {"", ".", ".."} & set(once.split("/")[1:]) or once == "/"
        assert paths.normalise(once, base) == once

    @given(typed)
    def test_it_is_what_the_standard_library_says(self, path: str) -> None:
        expected = posixpath.normpath("/" + path)
        assert paths.normalise(path) == (expected[1:] if expected.startswith("//") else expected)

    @pytest.mark.parametrize(
        ("path", "base", "expected"),
        [
            ("", "/", "/"),
            ("", "/w", "/w"),
            (".", "/w", "/w"),
            ("/", "/w", "/"),
            ("a", "/", "/a"),
            ("a/", "/w", "/w/a"),
            ("a//b", "/w", "/w/a/b"),
            ("../../..", "/w", "/"),
            ("/..a/.b", "/w", "/..a/.b"),
            ("a/..", "/w", "/w"),
        ],
    )
    def test_examples(self, path: str, base: str, expected: str) -> None:
        assert paths.normalise(path, base) == expected


class TestClimbs:
    @given(st.lists(st.sampled_from(["a", "b", ".."])))
    def test_it_tells_whether_a_walk_is_ever_above_its_start(self, parts: list[str]) -> None:
        floor = [f"floor{number}" for number in range(len(parts))]
        at = list(floor)
        left = False
        for part in parts:
            at = at[:-1] if part == ".." else [*at, part]
            left = left or at[: len(floor)] != floor
        assert paths.climbs(parts) is left


class TestWithinAndRelative:
    @given(clean, clean)
    def test_within_is_being_the_root_or_having_it_as_a_parent(self, path: str, root: str) -> None:
        assert paths.within(path, root) is (
            PurePosixPath(path) == PurePosixPath(root) or PurePosixPath(root) in PurePosixPath(path).parents
        )

    @given(clean, clean)
    def test_the_rest_beneath_a_root_joins_to_the_whole(self, root: str, rest: str) -> None:
        whole = paths.normalise(rest.lstrip("/"), root)
        assert paths.relative(whole, root) == rest.lstrip("/")
        if rest != "/":
            assert paths.join(root, paths.relative(whole, root)) == whole

    @given(clean, clean)
    def test_a_shown_path_reads_back(self, path: str, work_dir: str) -> None:
        shown = paths.display(path, work_dir)
        assert paths.normalise(shown, work_dir) == path
        assert shown.startswith("/") is not paths.within(path, work_dir)

    @pytest.mark.parametrize(("path", "root"), [("/ab", "/a"), ("/a", "/ab"), ("/", "/a")])
    def test_a_common_beginning_is_no_parent(self, path: str, root: str) -> None:
        assert not paths.within(path, root)


class TestCheckPath:
    @given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
    def test_any_text_is_a_path(self, path: str) -> None:
        assert paths.check_path(path) == path

    @given(st.binary().filter(lambda raw: b"\0" not in raw))
    def test_any_bytes_are_a_path_that_names_them(self, raw: bytes) -> None:
        path = raw.decode("utf-8", "surrogateescape")
        assert paths.check_path(path) == path
        assert os.fsencode(paths.check_path(path)) == raw

    @given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
    def test_escaped_bytes_have_one_spelling(self, path: str) -> None:
        escaped = "".join(chr(0xDC00 + byte) if byte > 127 else chr(byte) for byte in path.encode())
        assert paths.check_path(escaped) == path

    def test_a_pure_path_is_taken(self) -> None:
        assert paths.check_path(PurePosixPath("a//b/./c")) == "a/b/c"

    @pytest.mark.parametrize("path", ["\0", "a\0", "a/\0/b", "\ud800", "a\udfff", b"a", None, 1, ["a"]], ids=repr)
    def test_what_names_no_file_is_refused(self, path: Any) -> None:
        with pytest.raises(InvalidArgumentError):
            paths.check_path(path)

    def test_a_path_of_another_system_is_refused(self) -> None:
        windows: Any = PureWindowsPath("a\\b")
        with pytest.raises(InvalidArgumentError):
            paths.check_path(windows)

    def test_a_path_longer_than_any_name_is_refused(self) -> None:
        with pytest.raises(InvalidArgumentError, match="too long"):
            paths.check_path("a/" * 40_000)


@pytest.mark.parametrize(
    ("path", "base", "left"),
    [
        ("a/b", "/w", []),
        ("a/../b", "/w", ["/w/a"]),
        ("private/deep/../../ok", "/w", ["/w/private/deep", "/w/private"]),
        ("/x/../../y", "/w", ["/x"]),
        ("../b", "/w", ["/w"]),
        ("./a//../.", "/", ["/a"]),
    ],
)
def test_what_each_step_up_leaves_behind(path: str, base: str, left: list[str]) -> None:
    assert paths.left_behind(path, base) == left


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/g/l", "/r"),
        ("/g//l/./a/", "/r/a"),
        ("/g/l/a/../b", "/r/b"),
        ("/g/x/../l/a", "/r/a"),
        ("/g/l/..", "/g"),
        ("/g/lx", "/g/lx"),
        ("/r/a", "/r/a"),
        ("g/l/a", "/r/g/l/a"),
        ("", "/r"),
    ],
)
def test_another_name_of_the_root_is_replaced(path: str, expected: str) -> None:
    assert paths.named(path, "/r", "/g/l") == expected


def test_a_relative_path_is_beneath_the_root_whatever_its_other_name() -> None:
    assert paths.named("self/a", "/r", "/r/self") == "/r/self/a"
    assert paths.named("/r//a/", "/r", "/r") == "/r/a"
