"""Records show themselves: what a reader looks for is there, and their plain form is as it was."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from sandbox_kit import (
    CommandResult,
    EditResult,
    Entries,
    FileInfo,
    GrepMatch,
    Listing,
    Matches,
    Skipped,
    StateBackend,
    Verdict,
)
from sandbox_kit.html.fragments import ROWS
from sandbox_kit.notebook.changes import Changes

from .pages import Page

INFO = FileInfo("a<b>.txt", "src/a<b>.txt", False, 12345, 0.0, 0o640)
LOCKED = Skipped("locked", "refused")
IN_CONTEXT = GrepMatch("f.py", 7, "hit", ("one", "two"), ("three",))
FAILED = CommandResult(3, "out <i>\n", "err\n", "out <i>\nerr\n", True, 1.5)
SHOWN = [
    (FAILED, ["exit 3", "1.50 s", "cut off", "out <i>", "err"]),
    (CommandResult(None, "so far"), ["did not end", "so far"]),
    (INFO, ["src/a<b>.txt", "file", "12,345", "0640", "1970-01-01 00:00:00"]),
    (FileInfo("d", "d", True, 0, 1e300, 0o755), ["directory", "1e+300 s"]),
    (FileInfo("l", "l", False, 1, 0.0, 0o777, True), ["link"]),
    (Listing([INFO], [LOCKED]), ["src/a<b>.txt", "1 could not be looked at", "locked", "refused"]),
    (Listing(), ["nothing"]),
    (IN_CONTEXT, ["5one", "6two", "f.py7hit", "8three"]),
    (GrepMatch("f.bin", 1, "", binary=True), ["(binary)"]),
    (EditResult("f.py", 1), ["f.py", "1 replacement"]),
    (EditResult("f.py", 2000), ["2,000 replacements"]),
    (Verdict("deny", "read", "deny **/.env", "/.env"), ["deny", "read", "/.env", "by rule deny **/.env"]),
    (Verdict("allow", "read", None, "/a"), ["allow", "by default"]),
    (Changes((INFO,), (), (INFO,)), ["made", "src/a<b>.txt", "removed", "src/a<b>.txt"]),
    (Changes(), ["no file was made"]),
]


@pytest.mark.parametrize(("record", "told"), SHOWN, ids=range(len(SHOWN)))
def test_a_record_shows_what_it_holds_in_order(record: Changes, told: list[str]) -> None:
    page = Page(record._repr_html_())
    assert page.is_tidy
    place = 0
    for each in told:
        place = page.text.index(each, place) + len(each)


def test_the_plain_form_is_that_of_a_record_and_of_a_list() -> None:
    assert repr(EditResult("f", 1)) == "EditResult(path='f', replacements=1)"
    assert repr(Listing([INFO])) == repr([INFO])


def test_a_name_of_undecodable_bytes_shows() -> None:
    info = FileInfo("\udcff", "\udcff", False, 0, 0.0, 0o600)
    info._repr_html_().encode()


def test_a_long_listing_is_cut_and_says_so() -> None:
    page = Page(Listing([INFO] * 1000)._repr_html_())
    assert page.found.count("tr") == ROWS + 1
    assert "800 more rows" in page.text


class Search:
    """A source of *count* matches, then of an error if there is one, that records how far it went."""

    def __init__(self, count: int, error: BaseException | None = None) -> None:
        self.count, self.error, self.found = count, error, 0

    def matches(self) -> Generator[list[GrepMatch], None, None]:
        for number in range(1, self.count + 1):
            self.found = number
            yield [GrepMatch("f", number, f"line {number}")]
        if self.error is not None:
            raise self.error

    def entries(self) -> Generator[FileInfo | Skipped, None, None]:
        for number in range(1, self.count + 1):
            self.found = number
            yield FileInfo(f"{number}", f"{number}", False, number, 0.0, 0o600)
            yield Skipped(f"locked {number}", "refused")
        if self.error is not None:
            raise self.error


def test_showing_matches_takes_none_of_them() -> None:
    matches = Matches(Search(3).matches())
    assert "line 3" in matches._repr_html_()
    assert "line 3" in matches._repr_html_()
    assert [match.line_number for match in matches] == [1, 2, 3]
    assert "no match" in matches._repr_html_()


@pytest.mark.parametrize(("count", "more"), [(ROWS, False), (ROWS + 1, True), (10 * ROWS, True)])
def test_a_search_goes_no_further_than_what_is_shown(count: int, more: bool) -> None:
    search = Search(count)
    matches = Matches(search.matches())
    assert ("there are more" in matches._repr_html_()) is more
    assert search.found == min(count, ROWS + 1)
    assert len(list(matches)) == count


@pytest.mark.parametrize(("limit", "more"), [(2, True), (3, False)])
def test_showing_matches_keeps_their_limit(limit: int, more: bool) -> None:
    matches = Matches(Search(3).matches(), limit=limit)
    assert ("there are more" in matches._repr_html_()) is more
    assert (len(list(matches)), matches.truncated) == (limit, more)


@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_an_error_met_while_showing_comes_again_in_its_place(error: BaseException) -> None:
    for lazy in (Matches(Search(2, error).matches()), Entries(Search(2, error).entries())):
        with pytest.raises(type(error)):
            lazy._repr_html_()
        next(lazy)
        next(lazy)
        with pytest.raises(type(error)):
            next(lazy)
        assert list(lazy) == []


def test_what_is_closed_shows_nothing() -> None:
    matches, entries = Matches(Search(3).matches()), Entries(Search(3).entries())
    for lazy in (matches, entries):
        lazy._repr_html_()
        lazy.close()
        assert list(lazy) == []


def test_showing_a_walk_takes_nothing_of_it() -> None:
    search = Search(ROWS + 5)
    entries = Entries(search.entries())
    page = Page(entries._repr_html_())
    assert search.found == ROWS + 1
    assert "there are more" in page.text
    assert "locked 1" in page.text
    assert [info.path for info in entries] == [f"{number}" for number in range(1, ROWS + 6)]


def test_a_real_search_shows_itself() -> None:
    files = StateBackend({"a.txt": "needle\n"})
    assert "needle" in Page(files.grep("needle")._repr_html_()).text
    assert "a.txt" in Page(files.ls()._repr_html_()).text
