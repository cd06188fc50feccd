"""glob."""

from __future__ import annotations

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import PathNotDirectoryError, PathNotFoundError, PatternError, UnsupportedError
from sandbox_kit.primitives import allow
from sandbox_kit.testing.base import Conformance, fill, paths
from sandbox_kit.types import Listing

__all__ = ["GlobConformance"]

FILES: dict[str, str | bytes] = {
    "top.py": "",
    "src/app/main.py": "",
    "src/app/notes.txt": "",
    "src/top.py": "",
    ".hidden/x.py": "",
    ".dot": "",
    "[x]": "",
}
EVERYTHING = sorted([*FILES, "src", "src/app", ".hidden"])

TABLE = [
    ("*.py", ["top.py"]),
    ("**/*.py", [".hidden/x.py", "src/app/main.py", "src/top.py", "top.py"]),
    ("**/**/*.py", [".hidden/x.py", "src/app/main.py", "src/top.py", "top.py"]),
    ("src/**/*.py", ["src/app/main.py", "src/top.py"]),
    ("src/*.py", ["src/top.py"]),
    ("src/*/*.py", ["src/app/main.py"]),
    ("src/**/app/**/main.py", ["src/app/main.py"]),
    ("./*.py", ["top.py"]),
    ("**", EVERYTHING),
    ("**/*", EVERYTHING),
    ("./**/*", EVERYTHING),
    ("*", [".dot", ".hidden", "[x]", "src", "top.py"]),
    ("*/", [".hidden", "src"]),
    (".*", [".dot", ".hidden"]),
    ("src", ["src"]),
    ("src/app/main.py", ["src/app/main.py"]),
    ("**/top.py", ["src/top.py", "top.py"]),
    ("**/app", ["src/app"]),
    ("[!.s]*.py", ["top.py"]),
    ("[^.s]*.py", ["top.py"]),
    ("t?p.py", ["top.py"]),
    ("{top.py,.dot}", [".dot", "top.py"]),
    ("src/{app/*.txt,top.*}", ["src/app/notes.txt", "src/top.py"]),
    ("\\[x\\]", ["[x]"]),
    ("[[]x]", ["[x]"]),
    ("missing", []),
    ("missing/*", []),
    ("top.py/*", []),
    ("*.PY", []),
]


class GlobConformance(Conformance):
    """What a pattern matches in a walk."""

    @pytest.mark.parametrize(("pattern", "expected"), TABLE, ids=[pattern for pattern, _ in TABLE])
    def test_a_pattern_matches(self, backend: Backend, pattern: str, expected: list[str]) -> None:
        fill(backend, FILES)
        found = backend.glob(pattern)
        assert isinstance(found, Listing)
        assert paths(found) == expected

    def test_entries_are_described_as_by_stat(self, backend: Backend) -> None:
        fill(backend, FILES)
        assert [backend.stat(entry.path) for entry in backend.glob("**")] == backend.glob("**")

    @pytest.mark.parametrize("start", ["src", "src/", "./src", "{work_dir}/src"])
    def test_a_pattern_is_relative_to_its_start(self, backend: Backend, start: str) -> None:
        fill(backend, FILES)
        start = start.format(work_dir=backend.work_dir)
        assert paths(backend.glob("*.py", start)) == ["src/top.py"]
        assert paths(backend.glob("app/*.txt", start)) == ["src/app/notes.txt"]

    @pytest.mark.parametrize("pattern", ["", "../*", "src/../*", "[", "{a", "a**", "\\", "[z-a]", "\0"])
    def test_a_pattern_that_no_backend_takes_is_refused(self, backend: Backend, pattern: str) -> None:
        with pytest.raises(PatternError):
            backend.glob(pattern)

    def test_an_absolute_pattern_must_lie_beneath_its_start(self, backend: Backend) -> None:
        fill(backend, FILES)
        base = backend.work_dir.rstrip("/")
        assert paths(backend.glob(f"{base}/src/*.py", "src")) == ["src/top.py"]
        with pytest.raises(PatternError):
            backend.glob(f"{base}/*.py", "src")

    def test_a_start_that_is_no_directory_raises(self, backend: Backend) -> None:
        backend.write("f", "")
        for path, error in (
            ("missing", PathNotFoundError),
            ("f", PathNotDirectoryError),
            ("f/x", PathNotDirectoryError),
        ):
            with pytest.raises(error):
                backend.glob("*", path)

    def test_a_pattern_of_many_stars_ends(self, backend: Backend) -> None:
        deep = "/".join(["a"] * 30)
        fill(backend, {"a" * 64: "", f"{deep}/c": ""})
        assert backend.glob("*a" * 34 + "X") == []
        assert backend.glob("**/a/" * 15 + "b") == []

    def test_links_are_listed_and_not_crossed_by_wildcards(self, backend: Backend) -> None:
        fill(backend, {"d/f": ""})
        if not backend.capabilities.symlinks:
            with pytest.raises(UnsupportedError):
                backend._symlink("d", "link", operations=("write",), authorize=allow)
            return
        backend._symlink("d", "link", operations=("write",), authorize=allow)
        assert paths(backend.glob("**")) == ["d", "d/f", "link"]
        assert paths(backend.glob("*/f")) == ["d/f"]
        assert paths(backend.glob("link/*")) == ["link/f"]
