"""Several lines to one file system: which of them reaches a place, and calls that begin on the wrong one.

What stands at a name may be seen truly by one line alone, as where something is mounted over it
for the others. Only the real name tells which that is, and only a line can tell the real name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import evolve, frozen

from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.spots import Spot
from sandbox_kit.errors import SandboxConflictError, printable

__all__ = ["Side", "across"]

_T = TypeVar("_T")
_CROSSINGS = 40
"""As many as there may be links on one way."""


class _Elsewhere(Exception):
    """A place is reached by another line."""

    def __init__(self, spot: Spot) -> None:
        super().__init__(spot.real)
        self.spot = spot


@frozen
class Side:
    """The line that a call uses, and what it has passed on the way here.

    Attributes:
        line: reaches the sandbox.
        passed: links that led here.
        line_to: the line that reaches an absolute name.
    """

    line: Line
    passed: tuple[str, ...]
    line_to: Callable[[str], Line]

    def here(self, spot: Spot) -> Spot:
        """Return the place, with all that was passed; where it is not here, :func:`across` begins anew."""
        if self.line_to(spot.real) != self.line:
            raise _Elsewhere(spot)
        return evolve(spot, hops=(*self.passed, *spot.hops)) if self.passed else spot


def across(way: str, line_to: Callable[[str], Line], call: Callable[[Side, str], _T]) -> _T:
    """Make a call where *way* leads, by the line that reaches what is there.

    Args:
        way: absolute.
        line_to: the line that reaches an absolute name.
        call: given the side that it begins on and the way from there; passes every place to :meth:`Side.here`.

    Raises:
        SandboxConflictError: the way leads from one side to the other without end.
    """
    passed: tuple[str, ...] = ()
    start = way
    for _ in range(_CROSSINGS):
        try:
            return call(Side(line_to(way), passed, line_to), way)
        except _Elsewhere as error:
            way, passed = error.spot.real, (*passed, *error.spot.hops)
    raise SandboxConflictError(f"{printable(start)}: replaced while it was looked up")
