"""Matches: the lazy result of grep."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from inspect import GEN_CLOSED, getgeneratorstate
from itertools import islice
from types import TracebackType
from typing import Never, NoReturn, Self

from sandbox_kit.types import GrepMatch, Skipped

__all__ = ["Matches", "SearchReport", "failing"]


def failing(error: BaseException) -> Generator[Never, None, None]:
    """A source that raises *error* when it is asked: the place of one that an early look has ended."""
    yield from ()
    raise error


class SearchReport:
    """What a running search has to say besides its matches; the search writes it, Matches shows it.

    Attributes:
        skipped: what could not be searched so far.
    """

    def __init__(self) -> None:
        self.skipped: list[Skipped] = []


class Matches(Iterator[GrepMatch]):
    """The matches of a search, found while they are asked for.

    It is an iterator and a context manager; ending it, by :meth:`close`, ``with`` or exhaustion,
    ends the search. Several threads may take matches from it, one at a time.

    Args:
        source: yields the matches, as they are found: one, or more at a time; closing it ends the search.
        report: what *source* writes besides; None if nothing.
        limit: how many matches to give at most; None sets no limit.
    """

    def __init__(
        self,
        source: Generator[Sequence[GrepMatch], None, None],
        report: SearchReport | None = None,
        *,
        limit: int | None = None,
    ) -> None:
        self._source = source
        self._report = report or SearchReport()
        self._left = limit
        self._ready: deque[GrepMatch] = deque()
        self._over = False
        self._truncated = False
        self._lock = threading.RLock()

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What could not be searched; whole once the iteration has ended."""
        return tuple(self._report.skipped)

    @property
    def truncated(self) -> bool:
        """Whether there is at least one more match than the limit; known once the iteration has ended."""
        return self._truncated

    @property
    def closed(self) -> bool:
        """Whether the search has ended, and every match was taken."""
        return getgeneratorstate(self._source) == GEN_CLOSED and not self._ready

    def __repr__(self) -> str:
        return f"<Matches, found while they are asked for; skipped {len(self.skipped)}>"

    def _repr_html_(self) -> str:
        """The first matches that are still to be taken; they stay so."""
        from sandbox_kit.html import records
        from sandbox_kit.html.fragments import ROWS

        found, more = self._peek(ROWS)
        return records.matches(found, self.skipped, more=more)

    def _peek(self, count: int) -> tuple[list[GrepMatch], bool]:
        """Search on until *count* matches are ready, and return them, and whether there is another one.

        An error of the search passes through, now and when its turn comes.
        """
        with self._lock:
            try:
                while len(self._ready) <= count and not self._over:
                    self._take(next(self._source))
            except StopIteration:
                pass
            except BaseException as error:
                self._source = failing(error)
                raise
            return list(islice(self._ready, count)), self._over or len(self._ready) > count

    def __bool__(self) -> NoReturn:
        raise TypeError("a search has no truth value: take its matches, as next(matches, None) does")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> GrepMatch:
        try:
            return self._ready.popleft()
        except IndexError:
            return self._search()

    def _search(self) -> GrepMatch:
        """Return the next match, from those that are found together with it."""
        with self._lock:
            while not self._ready:
                if self._over:
                    self._truncated = True
                    self._source.close()
                    raise StopIteration
                self._take(next(self._source))
            return self._ready.popleft()

    def _take(self, found: Sequence[GrepMatch]) -> None:
        """Make *found* ready, up to the limit."""
        if self._left is not None:
            self._over = len(found) > self._left
            found = found[: self._left]
            self._left -= len(found)
        self._ready.extend(found)

    def close(self) -> None:
        """End the search; there are no further matches. Twice is fine."""
        with self._lock:
            self._source.close()
            self._ready.clear()
            self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
