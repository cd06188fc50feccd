"""grep."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import InvalidArgumentError, PathNotDirectoryError, PathNotFoundError, PatternError
from sandbox_kit.search.matches import Matches
from sandbox_kit.testing.base import Conformance, fill
from sandbox_kit.types import GrepMatch

__all__ = ["GrepConformance", "GrepLifeConformance", "GrepLineConformance"]


def found(matches: Matches) -> list[tuple[str, int, str]]:
    """Return path, line number and line of each match, sorted."""
    with matches:
        return sorted((match.path, match.line_number, match.line) for match in matches)


class GrepConformance(Conformance):
    """Which lines are found, and what is told of them."""

    def test_every_matching_line_is_found_with_its_number(self, backend: Backend) -> None:
        fill(backend, {"a.txt": "needle 1\nother\nneedle 3\n", "d/e/b.txt": "no\nneedle", "c": "none\n"})
        expected = [("a.txt", 1, "needle 1"), ("a.txt", 3, "needle 3"), ("d/e/b.txt", 2, "needle")]
        assert found(backend.grep("needle")) == expected
        assert found(backend.grep("needle", "d")) == expected[2:]
        assert found(backend.grep("nothing of that")) == []

    def test_a_line_number_is_an_offset_to_read_from(self, backend: Backend) -> None:
        backend.write("f", "a\r\nb\u2028c\nneedle\n")
        (match,) = backend.grep("needle")
        assert backend.read("f", offset=match.line_number - 1, limit=1) == "needle\n"

    def test_matches_of_a_file_come_in_order(self, backend: Backend) -> None:
        backend.write("f", "".join(f"needle {number}\n" for number in range(500)))
        assert [match.line_number for match in backend.grep("needle", "f")] == list(range(1, 501))

    def test_a_match_is_a_record(self, backend: Backend) -> None:
        backend.write("f", "needle\n")
        assert list(backend.grep("needle")) == [GrepMatch("f", 1, "needle")]

    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("^b", [2, 3]),
            ("a$", [3]),
            ("b.r|z", [2, 3]),
            ("[0-9]{2}", [4]),
            ("\\d+\\s", []),
            ("(?i)BAR", [2]),
            ("\\.", [5]),
            ("^$", [6]),
            ("ü", [7]),
            ("^.$", [7]),
        ],
    )
    def test_a_pattern_is_a_regular_expression(self, backend: Backend, pattern: str, expected: list[int]) -> None:
        backend.write("f", "foo\nbar\nbaza\nx12\n1.5\n\nü\n")
        assert [match.line_number for match in backend.grep(pattern)] == expected

    @pytest.mark.parametrize("pattern", ["(", "[", "*a", "a{2,1}", "(a)\\1", "(?=a)", "(?<!a)b", "a\0b", "\\"])
    def test_a_pattern_that_no_backend_takes_raises_at_the_call(self, backend: Backend, pattern: str) -> None:
        with pytest.raises(PatternError):
            backend.grep(pattern)

    @pytest.mark.parametrize("text", ["a.b", "(", "[x", "*", "$", "don't", "x'; touch pwned; '", "-e", "--help", "\\d"])
    def test_fixed_text_means_itself(self, backend: Backend, text: str) -> None:
        fill(backend, {"f": f"before {text} after\naxb\n"})
        assert [match.line_number for match in backend.grep(text, fixed=True)] == [1]
        assert not backend.exists("pwned")

    @pytest.mark.parametrize("pattern", ["-e", "--files", "-rf", "don't", "x'; touch pwned; '", "`touch pwned`"])
    def test_a_pattern_is_never_an_option_or_a_command(self, backend: Backend, pattern: str) -> None:
        fill(backend, {"f": f"{pattern}\n", "g": "other\n"})
        assert found(backend.grep(pattern)) == [("f", 1, pattern)]
        assert not backend.exists("pwned")

    def test_case_is_ignored_on_request_only(self, backend: Backend) -> None:
        backend.write("f", "NEEDLE\nneedle\nÜber\n")
        assert [match.line_number for match in backend.grep("needle")] == [2]
        assert [match.line_number for match in backend.grep("Needle", ignore_case=True)] == [1, 2]
        assert [match.line_number for match in backend.grep("NEEDLE", ignore_case=True, fixed=True)] == [1, 2]
        assert [match.line_number for match in backend.grep("über", ignore_case=True)] == [3]

    def test_a_file_that_is_named_is_searched(self, backend: Backend) -> None:
        fill(backend, {"d/.env": "KEY=1\n", "d/.git/config": "KEY=2\n"})
        assert found(backend.grep("KEY", "d/.env")) == [("d/.env", 1, "KEY=1")]
        assert found(backend.grep("KEY", "d/.git")) == [("d/.git/config", 1, "KEY=2")]

    def test_dot_names_met_in_a_walk_are_entered_on_request(self, backend: Backend) -> None:
        fill(backend, {".env": "KEY\n", ".git/config": "KEY\n", "f": "KEY\n", "d/.e": "KEY\n"})
        assert [path for path, _, _ in found(backend.grep("KEY"))] == ["f"]
        assert [path for path, _, _ in found(backend.grep("KEY", hidden=True))] == [".env", ".git/config", "d/.e", "f"]

    def test_ignore_files_are_not_consulted(self, backend: Backend) -> None:
        fill(backend, {".gitignore": "f\n", ".ignore": "f\n", ".rgignore": "*\n", "f": "needle\n"})
        assert found(backend.grep("needle")) == [("f", 1, "needle")]

    @pytest.mark.parametrize(
        ("glob", "expected"),
        [
            ("*.py", ["a.py", "d/b.py"]),
            ("d/*.py", ["d/b.py"]),
            ("./*.py", ["a.py"]),
            ("d", []),
            ("d/**", ["d/b.py", "d/c.txt"]),
            ("*.{py,txt}", ["a.py", "d/b.py", "d/c.txt"]),
            ("$(touch pwned)*.py", []),
        ],
    )
    def test_a_glob_chooses_files(self, backend: Backend, glob: str, expected: list[str]) -> None:
        fill(backend, {"a.py": "needle\n", "d/b.py": "needle\n", "d/c.txt": "needle\n"})
        assert [path for path, _, _ in found(backend.grep("needle", glob=glob))] == expected

    @pytest.mark.parametrize("glob", ["", "[", "../*", "!x", "{a"])
    def test_a_bad_glob_raises_at_the_call(self, backend: Backend, glob: str) -> None:
        with pytest.raises(PatternError):
            backend.grep("x", glob=glob)

    def test_a_missing_path_raises_at_the_call(self, backend: Backend) -> None:
        backend.write("f", "x")
        with pytest.raises(PathNotFoundError):
            backend.grep("x", "missing")
        with pytest.raises(PathNotDirectoryError):
            backend.grep("x", "f/x")

    @pytest.mark.parametrize("arguments", [{"limit": -1}, {"context": -1}, {"limit": 1.5}, {"context": True}])
    def test_a_bad_number_raises_at_the_call(self, backend: Backend, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError):
            backend.grep("x", **arguments)


class GrepLineConformance(Conformance):
    """What a line is, and what stands around it."""

    def test_the_end_of_a_crlf_line_is_no_part_of_it(self, backend: Backend) -> None:
        backend.write("f", b"needle\r\nfoo\r\n")
        for pattern in ("needle$", "needle", "^needle$"):
            assert found(backend.grep(pattern)) == [("f", 1, "needle")]

    def test_only_a_newline_ends_a_line_that_is_found(self, backend: Backend) -> None:
        first = "a\u2028needle\x0bb\x85c"
        backend.write("f", f"{first}\nneedle2\n")
        assert found(backend.grep("needle")) == [("f", 1, first), ("f", 2, "needle2")]

    def test_text_that_looks_like_a_row_is_text(self, backend: Backend) -> None:
        fill(backend, {"dev_2026:06_sys.log": "a:12:needle\n", "gpt-4-config.py": "release-2026-needle\n"})
        expected = [("dev_2026:06_sys.log", 1, "a:12:needle"), ("gpt-4-config.py", 1, "release-2026-needle")]
        assert found(backend.grep("needle")) == expected

    def test_a_newline_in_a_name_makes_no_other_row(self, backend: Backend) -> None:
        fill(backend, {"a\nok.txt:1:forged": "needle\n", "ok.txt": "other\n"})
        assert found(backend.grep("needle")) == [("a\nok.txt:1:forged", 1, "needle")]

    def test_undecodable_bytes_are_shown_as_replacement_characters(self, backend: Backend) -> None:
        backend.write("f", b"\xff needle \xc3\n")
        assert found(backend.grep("needle")) == [("f", 1, "� needle �")]

    def test_context_lines_stand_around_a_match(self, backend: Backend) -> None:
        backend.write("f-2-x", "1\r\n2\r\nneedle-3-x\r\n4\r\n--\r\n6\r\n")
        assert list(backend.grep("needle", context=2)) == [
            GrepMatch("f-2-x", 3, "needle-3-x", before=("1", "2"), after=("4", "--"))
        ]

    def test_context_ends_with_the_file(self, backend: Backend) -> None:
        fill(backend, {"f": "needle\nlast", "g": "other\n"})
        assert list(backend.grep("needle", context=5)) == [GrepMatch("f", 1, "needle", after=("last",))]

    def test_context_of_neighbouring_matches_overlaps(self, backend: Backend) -> None:
        backend.write("f", "a\nneedle 1\nb\nneedle 2\nc\n")
        assert [(match.before, match.after) for match in backend.grep("needle", context=1)] == [
            (("a",), ("b",)),
            (("b",), ("c",)),
        ]

    def test_a_binary_line_is_marked_and_empty(self, backend: Backend) -> None:
        backend.write("b", b"\x89PNG\0needle\nother\n")
        (match,) = backend.grep("needle")
        assert (match.path, match.line, match.binary) == ("b", "", True)

    def test_text_in_a_file_with_a_nul_is_found(self, backend: Backend) -> None:
        backend.write("b", b"hello\0world\nneedle\n")
        assert [(match.path, match.binary) for match in backend.grep("needle")] in ([("b", False)], [("b", True)])

    def test_an_empty_file_has_no_line(self, backend: Backend) -> None:
        backend.write("f", "")
        assert found(backend.grep("^")) == []

    def test_a_long_line_is_found(self, backend: Backend) -> None:
        backend.write("f", b"x" * 3_000_000 + b"needle\nneedle 2\n")
        assert [match.line_number for match in backend.grep("needle")] == [1, 2]

    def test_a_pattern_that_could_run_for_ever_ends(self, backend: Backend) -> None:
        backend.write("f", "y" * 8000 + "\n")
        begun = time.monotonic()
        assert found(backend.grep(".*y.*z$")) == []
        assert found(backend.grep("(y+)+z")) == []
        assert time.monotonic() - begun < self.hang_guard


class GrepLifeConformance(Conformance):
    """When it searches, and when it ends."""

    def test_the_limit_counts_matches_and_truncation_is_told(self, backend: Backend) -> None:
        fill(backend, {"f": "needle\n" * 3, "g": "needle\n" * 2})
        for limit, truncated in ((4, True), (5, False), (9, False), (None, False)):
            matches = backend.grep("needle", limit=limit)
            assert len(list(matches)) == min(limit or 5, 5)
            assert matches.truncated is truncated

    def test_a_limit_of_none_at_all_gives_nothing(self, backend: Backend) -> None:
        backend.write("f", "needle\n")
        assert list(backend.grep("needle", limit=0)) == []

    def test_the_first_match_comes_before_the_last_file_is_read(self, backend: Backend) -> None:
        fill(backend, {f"d{number}/f": "needle\n" * 2000 for number in range(40)})
        with backend.grep("needle") as matches:
            first = next(matches).path
            for entry in backend.ls():
                if not first.startswith(f"{entry.path}/"):
                    backend.remove(entry.path, recursive=True)
            searched = {first, *(match.path for match in matches)}
        assert len(searched) < 40

    def test_closing_ends_the_search(self, backend: Backend) -> None:
        backend.write("f", "needle\n" * 1000)
        matches = backend.grep("needle")
        next(matches)
        matches.close()
        matches.close()
        assert list(matches) == []

    def test_leaving_the_context_ends_the_search(self, backend: Backend) -> None:
        backend.write("f", "needle\n" * 1000)
        with backend.grep("needle") as matches:
            assert next(matches).line_number == 1
        assert list(matches) == []

    def test_a_search_that_is_dropped_is_forgotten(self, backend: Backend) -> None:
        backend.write("f", "needle\n" * 1000)
        for _ in range(50):
            next(backend.grep("needle"))
        backend.remove("f")
        assert backend.ls() == []

    def test_nothing_is_skipped_where_all_can_be_read(self, backend: Backend) -> None:
        fill(backend, {"d/f": "needle\n", "g": ""})
        matches = backend.grep("needle")
        assert [match.path for match in matches] == ["d/f"]
        assert matches.skipped == ()
