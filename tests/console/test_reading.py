"""What read_file, ls, glob and grep show, and where they cut."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import ErrorText, Media
from sandbox_kit.console.cutting import keep_ends
from sandbox_kit.console.listing import skipped_lines
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import GrepMatch, Skipped

from .consoles import text, tools

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def read(content: bytes | str, **arguments: object) -> str | Media:
    return tools(StateBackend({"x": content}))["read_file"](path="x", **arguments)


def test_lines_are_numbered() -> None:
    assert read("one\n\nthree") == "     1\tone\n     2\t\n     3\tthree"


def test_an_offset_and_a_limit_are_in_lines() -> None:
    assert read("1\n2\n3\n4\n", offset=3) == "     3\t3\n     4\t4"
    assert read("1\n2\n3\n", offset=2, limit=1) == "     2\t2\n... cut at 2 of 3 lines: read_file(path='x', offset=3)"


def test_a_long_file_is_read_by_following_its_marks() -> None:
    lines = [f"line {number}" for number in range(1, 12_312)]
    tool = tools(StateBackend({"x": "\n".join(lines) + "\n"}))["read_file"]
    seen: list[str] = []
    arguments: dict[str, int] = {}
    while True:
        page = text(tool(path="x", **arguments)).split("\n")
        mark = re.fullmatch(r"\.\.\. cut at [\d,]+ of 12,311 lines: read_file\(path='x', offset=(\d+)\)", page[-1])
        seen += [line.partition("\t")[2] for line in (page[:-1] if mark else page)]
        if mark is None:
            break
        arguments = {"offset": int(mark[1])}
    assert seen == lines


def test_a_page_of_long_lines_ends_early_and_goes_on() -> None:
    page = text(read(("x" * 1_900 + "\n") * 500))
    shown = page.count("\n")
    assert 20 < shown < 40
    assert page.endswith(f"... cut at {shown} of 500 lines: read_file(path='x', offset={shown + 1})")


def test_a_cut_never_splits_a_character() -> None:
    page = text(read("\N{SNOWMAN}\N{JAPANESE OGRE}" * 3_000))
    assert "\N{REPLACEMENT CHARACTER}" not in page
    assert page.endswith("... (line cut at 2,000 of 6,000 characters)")


def test_there_is_no_line_past_the_end() -> None:
    result = read("1\n2\n", offset=3)
    assert isinstance(result, ErrorText)
    assert "has 2 lines" in result


def test_an_empty_file_says_so() -> None:
    assert read("") == "(the file is empty)"


def test_line_ends_of_windows_are_told() -> None:
    assert read("a\r\nb\r\n") == "     1\ta\n     2\tb\n(lines end in \\r\\n, not \\n)"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a rest", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPrest", "image/webp"),
        (b"%PDF-1.7\nrest", "application/pdf"),
        (b"\0\1\2", "application/octet-stream"),
    ],
    ids=["png", "jpeg", "gif", "webp", "pdf", "other"],
)
def test_what_is_no_text_comes_as_it_is_with_its_type(content: bytes, kind: str) -> None:
    assert read(content) == Media(content, kind)


def test_a_name_tells_what_content_does_not() -> None:
    tool = tools(StateBackend({"a.ZIP": b"PK\3\4\0", "b.png": PNG[8:], "c.png": "text\n"}))["read_file"]
    assert tool(path="a.ZIP") == Media(b"PK\3\4\0", "application/zip")
    assert tool(path="b.png") == Media(PNG[8:], "image/png")
    assert tool(path="c.png") == "     1\ttext"


def test_text_with_other_bytes_is_text() -> None:
    assert read(b"caf\xe9\n") == "     1\tcaf\N{REPLACEMENT CHARACTER}"
    assert read(b"\xef\xbb\xbfmark\n") == "     1\tmark"


def test_an_image_that_is_too_large_is_told_of() -> None:
    result = read(PNG + bytes(10 * 2**20))
    assert isinstance(result, ErrorText)
    assert "image/png" in result


def test_a_file_over_the_limit_of_the_backend_is_read_in_parts() -> None:
    backend = StateBackend({"x": "some words\n" * 1_000, "y": b"\0\n" * 1_000})
    backend.max_read_bytes = 500
    tool = tools(backend)["read_file"]
    page = text(tool(path="x", offset=7, limit=2))
    assert page.startswith("     7\tsome words\n     8\tsome words\n... cut: read_file(path='x', offset=9)")
    assert isinstance(tool(path="x"), ErrorText)
    assert isinstance(tool(path="x", offset=1_001, limit=5), ErrorText)
    assert isinstance(tool(path="y", limit=5), ErrorText)


def test_a_directory_is_listed_with_kinds_and_sizes() -> None:
    backend = StateBackend({"b.txt": "12345", "a/deep.txt": "", ".dot": ""})
    assert tools(backend)["ls"]() == ".dot (0 B)\na/\nb.txt (5 B)"
    assert tools(backend)["ls"](path="b.txt") == "b.txt (5 B)"


def test_a_link_is_shown_without_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("somewhere")
    assert tools(LocalBackend(tmp_path))["ls"]() == "link (link)"


def test_a_name_that_no_text_can_hold_is_escaped(tmp_path: Path) -> None:
    Path(str(tmp_path), "caf\udce9\nx").write_text("")
    assert tools(LocalBackend(tmp_path))["ls"]() == "caf\\udce9\\nx (0 B)"


def test_nothing_is_told_as_such() -> None:
    empty = tools(StateBackend())
    assert empty["ls"]() == "The directory is empty."
    assert empty["glob"](pattern="*.py") == "Nothing matches."
    assert empty["grep"](pattern="x") == "No line matches."


def test_a_long_listing_is_cut_with_what_to_do() -> None:
    many = tools(StateBackend({f"f{number:03}": "" for number in range(600)}))
    for listed in (text(many["ls"]()), text(many["glob"](pattern="*"))):
        assert listed.count("\n") == 500
        assert listed.splitlines()[-1].startswith("... cut at 500 of 600: ")


def test_what_could_not_be_looked_at_is_told_for_the_first_few() -> None:
    skipped = tuple(Skipped(f"d{number}", "no permission") for number in range(8))
    lines = skipped_lines(skipped)
    assert lines[0] == "(could not look at d0: no permission)"
    assert lines[-1] == "(could not look at 3 others)"
    assert len(lines) == 6


def test_glob_finds_by_name() -> None:
    backend = StateBackend({"src/a.py": "", "src/b.txt": "", "c.py": ""})
    assert tools(backend)["glob"](pattern="**/*.py") == "c.py (0 B)\nsrc/a.py (0 B)"
    assert tools(backend)["glob"](pattern="*.py", path="src") == "src/a.py (0 B)"


def test_grep_tells_path_number_and_line() -> None:
    backend = StateBackend({"a.txt": "one\ntwo\nthree\n", "b/.c": "two\n", "n.bin": b"two\0\n"})
    grep = tools(backend)["grep"]
    assert set(text(grep(pattern="tw.")).splitlines()) == {"a.txt:2: two", "n.bin: binary file matches"}
    assert grep(pattern="TWO", ignore_case=True, glob="*.txt") == "a.txt:2: two"
    assert grep(pattern="two", path="b", hidden=True) == "b/.c:1: two"
    assert grep(pattern="two", path="a.txt", context=1) == "a.txt-1- one\na.txt:2: two\na.txt-3- three"
    assert grep(pattern="t.o", fixed=True) == "No line matches."


def test_many_matches_are_cut_with_what_to_narrow() -> None:
    grep = tools(StateBackend({"a": "x\n" * 500, "wide": ("y" * 499 + "\n") * 200}))["grep"]
    assert text(grep(pattern="x")).splitlines()[-1].startswith("... cut at 100 of more than 100 matches: narrow it")
    wide = text(grep(pattern="y", path="wide", limit=150)).splitlines()
    assert len(wide) - 1 < 60
    assert wide[-1].startswith(f"... cut at {len(wide) - 1} of more than {len(wide) - 1} matches: narrow")


def test_a_search_ends_once_its_answer_is_full() -> None:
    taken: list[int] = []

    def source() -> Generator[list[GrepMatch], None, None]:
        for number in range(1, 1_000):
            taken.append(number)
            yield [GrepMatch("x", number, "y" * 10**6)]

    class Searched(StateBackend):
        def grep(self, *given: Any, **options: Any) -> Matches:
            return Matches(source())

    lines = text(tools(Searched())["grep"](pattern="y", limit=1_000)).splitlines()
    assert len(taken) == len(lines) < 100


def test_a_pattern_that_cannot_be_used_says_why() -> None:
    both = tools(StateBackend())
    for result in (both["grep"](pattern="(x"), both["glob"](pattern="../*")):
        assert isinstance(result, ErrorText)
        assert "correct the pattern" in result


@given(st.text(max_size=300), st.integers(2, 100))
def test_kept_ends_are_a_beginning_and_an_end_with_what_is_missing_counted(whole: str, limit: int) -> None:
    kept = keep_ends(whole, limit, "ADVICE")
    if len(whole) <= limit:
        assert kept == whole
        return
    mark = re.search(rf"\n?\.\.\. ([\d,]+) of {len(whole):,} characters cut here: ADVICE \.\.\.\n", kept)
    assert mark is not None
    missing = int(mark[1].replace(",", ""))
    tail = kept[mark.end() :]
    head = whole[: len(whole) - missing - len(tail)]
    assert kept.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) <= limit
