"""How far up the refusal of an entry hangs on names: those that must stay for it to stay refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from sandbox_kit.rules.compiled import Place
from sandbox_kit.rules.globs import Positions, Steps, moved_steps, path_names
from sandbox_kit.rules.ruleset import PermissionRule
from sandbox_kit.rules.segments import Gap, Segment

__all__ = ["Reach"]

Row = tuple[Segment, ...]
"""Names in a row that a pattern matches wherever they are."""


class Reach:
    """How many names above an entry must stay for one rule to go on refusing it.

    Those further up may become anything: the rule still matches, and no earlier one allows.

    Args:
        place: where the rules are applied.
        rules: of one operation, in the order in which they are tried.
        stands_for_all: whether a directory that is refused is looked at alone, and stands for what others refuse in it.
    """

    def __init__(self, place: Place, rules: Sequence[PermissionRule], *, stands_for_all: bool) -> None:
        self._place = place
        self._rules = rules
        self._stands_for_all = stands_for_all
        self._top = len(path_names(place.work_dir))
        self._numbers = {str(rule): number for number, rule in reversed([*enumerate(rules)])}
        allows = (number if rule.action == "allow" else 0 for number, rule in enumerate(rules, 1))
        self._ends = [*accumulate(allows, max, initial=0)]
        self._rows: dict[int, list[Row]] = {}
        self._exceptions: dict[int, _Exceptions] = {}

    def names_above(self, rule: str | None, path: str) -> int:
        """Return how many of the names above the last one of *path*, counted from it, must stay.

        Args:
            rule: the one that refuses, as text; None for the default.
            path: of the entry that is refused, beneath the work directory; absolute and normal.
        """
        names = path_names(path)
        inside = names[self._top :]
        number = None if rule is None else self._numbers[rule]
        counts = [] if number is None else [_matched_above(row, inside) for row in self._rows_of(number)]
        matched = [count for count in counts if count is not None]
        least = self._exceptions_before(number).names_above(names) if number is not None and matched else None
        return len(inside) - 1 if least is None else min(max(least, min(matched)), len(inside) - 1)

    def _rows_of(self, number: int) -> list[Row]:
        if number not in self._rows:
            place = self._place
            found = [_row(steps, place.work_dir, covers=True) for steps in place.resolved(self._rules[number])]
            self._rows[number] = [row for row in found if row is not None]
        return self._rows[number]

    def _exceptions_before(self, number: int) -> _Exceptions:
        """Return what may allow before rule *number*: the same for all rules between two allows."""
        end = self._ends[number]
        if end not in self._exceptions:
            self._exceptions[end] = _Exceptions(self._place, self._rules[:end], self._stands_for_all)
        return self._exceptions[end]


class _Exceptions:
    """What rules allow, and on which names above an entry that hangs.

    Args:
        place: where they are applied.
        rules: the last of them is an allow.
        with_blocks: whether what keeps an allow from deciding counts, too.
    """

    def __init__(self, place: Place, rules: Sequence[PermissionRule], with_blocks: bool) -> None:
        allows = _steps((rule for rule in rules if rule.action == "allow"), place)
        blocks = list(_steps((rule for rule in rules if rule.action != "allow" and with_blocks), place))
        floating = (steps for steps in blocks if not _starts_somewhere(steps, place))
        rows = [_row(steps, place.work_dir, covers=False) for steps in allows]
        self._least = _most_above([*rows, *(_row(steps, place.work_dir, covers=True) for steps in floating)])
        self._fixed = Positions.lay_out((steps, True) for steps in blocks if _starts_somewhere(steps, place))

    def names_above(self, names: Sequence[str]) -> int | None:
        """Return how many names above the last of *names* must stay; None for all of them."""
        *_, on_the_way = self._fixed.run(names)
        return None if on_the_way else self._least


def _steps(rules: Iterable[PermissionRule], place: Place) -> Iterator[Steps]:
    return (steps for rule in rules for steps in place.resolved(rule))


def _starts_somewhere(steps: Steps, place: Place) -> bool:
    """Whether a pattern matches beneath one directory alone, whatever the case of names."""
    return place.case_sensitive and _inside(steps, place.work_dir)[0] is not Gap.GLOBSTAR


def _most_above(rows: Iterable[Row | None]) -> int | None:
    """Return how many names above an entry are looked at; None for all of them."""
    counts = [0]
    for row in rows:
        if row is None:
            return None
        counts.append(len(row) - 1)
    return max(counts)


def _inside(steps: Steps, work_dir: str) -> Steps:
    """*steps* from the work directory, where they lead through it."""
    return moved_steps(steps, work_dir, "/") or steps


def _row(steps: Steps, work_dir: str, *, covers: bool) -> Row | None:
    """The names that a pattern matches anywhere; None for one that depends on a place, or on any name above."""
    first, *names = _inside(steps, work_dir)
    if first is not Gap.GLOBSTAR:
        return None
    if covers and names[-1:] == [Gap.GLOBSTAR]:
        names = names[:-1]
    row = tuple(step for step in names if not isinstance(step, Gap))
    return row if len(row) == len(names) else None


def _matched_above(row: Row, names: Sequence[str]) -> int | None:
    """Return how many names above the last one the lowest match of *row* looks at; None where it matches none."""
    for end in range(len(names), len(row) - 1, -1):
        if all(map(_fits, row, names[end - len(row) : end])):
            return max(len(names) - end + len(row) - 1, 0)
    return None


def _fits(segment: Segment, name: str) -> bool:
    return segment == name if isinstance(segment, str) else segment.matches(name)
