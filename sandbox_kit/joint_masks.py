"""Several masks as one, for whatever has to hide names from commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sandbox_kit.primitives import Masks

__all__ = ["JointMasks"]


class JointMasks:
    """Several masks as one: hidden or read-only for one of them is so for all."""

    def __init__(self, masks: Sequence[Masks]) -> None:
        self.masks = tuple(masks)
        self.hidden: Callable[[str], bool] = self._any_hidden
        self.read_only: Callable[[str], bool] = self._any_read_only
        if len(self.masks) == 1:
            self.hidden, self.read_only = self.masks[0].hidden, self.masks[0].read_only

    def _any_hidden(self, name: str) -> bool:
        return any(masks.hidden(name) for masks in self.masks)

    def _any_read_only(self, name: str) -> bool:
        return any(masks.read_only(name) for masks in self.masks)

    def hidden_whole(self, directory: str) -> bool:
        """Whether nothing beneath a hidden *directory* may be visible."""
        return any(masks.hidden(directory) and not masks.opens_beneath(directory) for masks in self.masks)

    def set_apart(self, name: str, directory: str) -> bool:
        """Whether one of several keeps *name*, and not the *directory* that it is in: another one keeps that."""
        return len(self.masks) > 1 and any(
            masks.read_only(name) and not masks.read_only(directory) for masks in self.masks
        )

    def pins(self, name: str) -> set[str]:
        """Directories that must keep their names for the mask of *name* to hold."""
        return {pin for masks in self.masks for pin in masks.pins(name)}

    def outside(self) -> list[str]:
        """Names to hide outside the workspace."""
        return sorted({name for masks in self.masks for name in masks.outside()})
