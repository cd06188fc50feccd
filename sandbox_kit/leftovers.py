"""What dead processes left on an engine, and what became of it in a sweep."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

__all__ = ["Leftover", "Swept"]


@frozen
class Leftover:
    """Something on an engine whose owners are not known to live.

    Attributes:
        kind: a ``"helper"`` is a container that served one call of the library.
        name: of the container or the volume.
        id: the engine's of a container; of a volume its name.
        reason: why it was left alone; empty for what was removed.
    """

    kind: Literal["container", "helper", "volume"]
    name: str
    id: str
    reason: str = ""


@frozen
class Swept:
    """What a sweep of an engine did, or would do.

    Attributes:
        removed: what is gone, or would be; in that order.
        left: what was left alone though no process of this machine that lives is known to own it.
    """

    removed: tuple[Leftover, ...] = ()
    left: tuple[Leftover, ...] = ()
