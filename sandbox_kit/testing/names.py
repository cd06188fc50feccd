"""Names that are hard to carry: blanks, quotes, line ends, dashes, colons, other alphabets."""

from __future__ import annotations

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import PathError
from sandbox_kit.testing.base import Conformance, fill, paths, snapshot

__all__ = ["NameConformance"]

NAMES = [
    "two words",
    " leading and trailing ",
    "it's",
    'say "hi"',
    "a\nb",
    "a\nb:1:c",
    "tab\there",
    "-rf",
    "--help",
    "a:12:b",
    "C:\\x",
    "a-1-b",
    "back\\slash",
    "$(touch x)",
    "`id`",
    "${HOME}",
    "*",
    "a?[b]{c,d}",
    "!x",
    "#x",
    "~",
    "a;b&c|d",
    "x=y",
    "...",
    "nu\u0308",
    "nü",
    "日本",
    "😀",
    "a\u2028b",
    "a\x1b[0m",
    "a\rb",
]
ODD = pytest.mark.parametrize("name", NAMES, ids=ascii)


class NameConformance(Conformance):
    """A name is any bytes but NUL and slash, and none of them means anything."""

    @ODD
    def test_a_file_of_that_name_is_like_any_other(self, backend: Backend, name: str) -> None:
        self.check_name(backend, name)

    def test_a_name_that_is_no_utf8_is_like_any_other(self, backend: Backend) -> None:
        if not self.undecodable_names:
            with pytest.raises(PathError):
                backend.write("caf\udce9", "")
            return
        backend.write("caf\udce9", "")
        assert backend.ls()[0].path.encode("utf-8", "surrogateescape") == b"caf\xe9"
        self.check_name(backend, "caf\udce9")

    def check_name(self, backend: Backend, name: str) -> None:
        """Use *name* with every method."""
        folder = f"{name}-d"
        fill(backend, {name: "needle\n", f"{folder}/{name}": "other\n"})
        assert paths(backend.ls()) == sorted([name, folder])
        assert (backend.stat(name).name, backend.stat(name).path) == (name, name)
        assert backend.read(name) == "needle\n"
        assert paths(backend.glob("**")) == sorted([name, folder, f"{folder}/{name}"])
        assert [match.path for match in backend.grep("needle", hidden=True)] == [name]
        assert [match.path for match in backend.grep("other", folder, hidden=True)] == [f"{folder}/{name}"]
        backend.edit(name, "needle", "thread")
        backend.move(name, f"{folder}/moved {name}")
        assert backend.read(f"{folder}/moved {name}") == "thread\n"
        backend.remove(f"{folder}/{name}")
        backend.remove(folder, recursive=True)
        assert snapshot(backend) == {}

    def test_composed_and_decomposed_names_differ_where_case_does(self, backend: Backend) -> None:
        fill(backend, {"nu\u0308": "decomposed", "n\u00fc": "composed"})
        if backend.capabilities.case_sensitive:
            assert (backend.read("nu\u0308"), backend.read("n\u00fc")) == ("decomposed", "composed")
        else:
            assert len(backend.ls()) in {1, 2}

    def test_case_differs_where_the_capabilities_say_so(self, backend: Backend) -> None:
        backend.write("Readme", "upper")
        assert backend.exists("README") is not backend.capabilities.case_sensitive
        backend.write("readme", "lower")
        expected = ["Readme", "readme"] if backend.capabilities.case_sensitive else ["Readme"]
        assert paths(backend.ls()) == expected
        assert backend.read("readme") == "lower"

    @pytest.mark.parametrize("spelling", ["n\udcc3\udcbc"])
    def test_escaped_bytes_that_are_utf8_are_that_character(self, backend: Backend, spelling: str) -> None:
        backend.write("n\u00fc", "x")
        assert backend.read(spelling) == "x"
        assert backend.stat(spelling).path == "n\u00fc"
