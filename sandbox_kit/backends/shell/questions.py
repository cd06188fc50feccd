"""The questions of one call about places in the sandbox, in the order that primitives keep."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from sandbox_kit.backends.shell.spots import Spot
from sandbox_kit.calls import is_free
from sandbox_kit.errors import PathNotFoundError
from sandbox_kit.paths import join, normalise
from sandbox_kit.primitives import Authorize, Operations, settle
from sandbox_kit.types import Identity

__all__ = ["Questions", "names_of"]


def names_of(*names: str) -> tuple[str, ...]:
    """Return *names*, each once."""
    return tuple(dict.fromkeys(names))


@frozen
class Questions:
    """Who answers, and for what.

    Attributes:
        operations, authorize: as in a primitive.
    """

    operations: Operations
    authorize: Authorize

    @property
    def free(self) -> bool:
        """Whether nobody has to be asked."""
        return is_free(self.authorize)

    def ask(self, *names: str) -> None:
        """Ask for one target, for each operation."""
        for operation in self.operations:
            self.authorize(operation, names_of(*names))

    def entry(self, names: tuple[str, ...], identity: Identity) -> None:
        """Ask for an entry beneath the target, as the one that it is."""
        for operation in self.operations:
            self.authorize(operation, names_of(*names), identity=identity)

    def pass_by(self, hops: Iterable[str]) -> None:
        """Ask for what is on the way."""
        for hop in hops:
            for operation in self.operations:
                self.authorize(operation, (hop,), hop=True)

    def arrive(self, path: str, spot: Spot) -> Spot:
        """Ask for the way to a place; what ends there is told where the names may be asked for.

        Raises:
            SandboxError: the way leads nowhere.
        """
        self.pass_by(spot.hops)
        if spot.fault:
            self.ask(spot.real)
            raise spot.error(path)
        return spot

    def present(self, path: str, spot: Spot) -> Spot:
        """The same, of something that must be there.

        Raises:
            PathNotFoundError: nothing is.
        """
        if self.arrive(path, spot).stat is None:
            self.ask(spot.real)
            raise PathNotFoundError(path)
        return spot

    def parents(self, spot: Spot) -> None:
        """Ask for a place, and to write each directory that has to be made above it."""
        if "write" in self.operations and not self.free and len(spot.rest) > 1:
            self.ask(spot.real)
            for depth in range(1, len(spot.rest)):
                self.authorize("write", (normalise(join(spot.parent, "/".join(spot.rest[:depth]))),))

    def settle(self, spot: Spot, typed: str, *others: str) -> None:
        """Ask for the last time about a place, with its identity."""
        settle(self.operations, self.authorize, names_of(typed, spot.real, *others), spot.identity)

    def may(self, names: tuple[str, ...], spot: Spot, hops: Iterable[str] = ()) -> bool:
        """Whether what a walk met may be seen."""
        for operation in self.operations:
            if not all(self.authorize(operation, (hop,), found=True, hop=True) for hop in hops):
                return False
            if not self.authorize(operation, names, identity=spot.identity, found=True):
                return False
        return True
