"""Matches: lazy, closable, and clear about what is missing."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from sandbox_kit.search.matches import Matches, SearchReport
from sandbox_kit.types import GrepMatch, Skipped


class Search:
    """A search of *total* matches that records how far it went, and that it was ended."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.found = 0
        self.ended = False
        self.report = SearchReport()

    def run(self) -> Generator[list[GrepMatch], None, None]:
        try:
            for number in range(1, self.total + 1):
                self.found = number
                self.report.skipped.append(Skipped(f"locked{number}", "permission denied by the file system"))
                yield [GrepMatch("f", number, "line")]
        finally:
            self.ended = True


def test_nothing_is_searched_before_it_is_asked_for() -> None:
    search = Search(3)
    matches = Matches(search.run(), search.report)
    assert search.found == 0
    assert next(matches).line_number == 1
    assert (search.found, search.ended) == (1, False)


def test_closing_ends_the_search_and_the_matches() -> None:
    search = Search(3)
    matches = Matches(search.run())
    next(matches)
    matches.close()
    matches.close()
    assert search.ended
    assert list(matches) == []
    assert not matches.truncated


def test_leaving_with_ends_the_search() -> None:
    search = Search(3)
    with Matches(search.run()) as matches:
        next(matches)
        assert not search.ended
    assert search.ended


def test_an_error_of_the_search_passes_through_once() -> None:
    def broken() -> Generator[list[GrepMatch], None, None]:
        yield [GrepMatch("f", 1, "line")]
        raise OSError("gone")

    matches = Matches(broken())
    next(matches)
    with pytest.raises(OSError, match="gone"):
        next(matches)
    assert list(matches) == []


@pytest.mark.parametrize(
    ("total", "limit", "given", "truncated"), [(3, 2, 2, True), (2, 2, 2, False), (1, 2, 1, False), (1, 0, 0, True)]
)
def test_truncated_says_that_there_is_one_more(total: int, limit: int, given: int, truncated: bool) -> None:
    search = Search(total)
    matches = Matches(search.run(), search.report, limit=limit)
    assert len(list(matches)) == given
    assert (matches.truncated, search.ended) == (truncated, True)
    assert search.found == min(total, limit + 1)
    assert list(matches) == []


def several(*sizes: int) -> Generator[list[GrepMatch], None, None]:
    """A search that finds that many matches at a time."""
    number = 0
    for size in sizes:
        yield [GrepMatch("f", number + index, "line") for index in range(size)]
        number += size


@pytest.mark.parametrize("limit", [None, 0, 1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("sizes", [(5,), (1, 4), (0, 2, 0, 0, 3, 0), (2, 2, 1)])
def test_matches_that_are_found_together_are_given_one_by_one(sizes: tuple[int, ...], limit: int | None) -> None:
    matches = Matches(several(*sizes), limit=limit)
    total = 5 if limit is None else min(limit, 5)
    assert [match.line_number for match in matches] == list(range(total))
    assert matches.truncated == (limit is not None and limit < 5)
    assert list(matches) == []


def test_closing_drops_what_was_found_together_with_the_last_match() -> None:
    matches = Matches(several(3, 3), limit=2)
    assert next(matches).line_number == 0
    matches.close()
    assert list(matches) == []
    assert not matches.truncated


def test_skipped_grows_with_the_search() -> None:
    search = Search(2)
    matches = Matches(search.run(), search.report)
    assert list(matches.skipped) == []
    next(matches)
    assert list(matches.skipped) == [Skipped("locked1", "permission denied by the file system")]
    assert Matches(Search(0).run()).skipped == ()


def test_it_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="no truth value"):
        bool(Matches(Search(1).run()))


def test_it_shows_itself_without_searching() -> None:
    search = Search(3)
    matches = Matches(search.run(), search.report)
    assert repr(matches) == "<Matches, found while they are asked for; skipped 0>"
    assert search.found == 0
