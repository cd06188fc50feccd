"""What a tool returns: text, the text of a failure, or bytes with their media type."""

from __future__ import annotations

from typing import Any, Self

from attrs import field, frozen

__all__ = ["ErrorText", "Media", "Result"]


class ErrorText(str):
    """What a tool could not do, and what to do next, as text for a model. No content of a file is in it.

    Args:
        text: the text.
        needs_approval: whether a person's approval is all that is missing; nothing has happened.
    """

    needs_approval: bool

    def __new__(cls, text: str, *, needs_approval: bool = False) -> Self:
        made = super().__new__(cls, text)
        made.needs_approval = needs_approval
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (str(self),), {"needs_approval": self.needs_approval}


@frozen
class Media:
    """A file that is no text.

    Attributes:
        data: its bytes, all of them.
        media_type: such as ``"image/png"``; ``"application/octet-stream"`` where neither content nor name tells.
    """

    data: bytes = field(repr=False)
    media_type: str


Result = str | Media
"""Of a tool: an :class:`ErrorText` where it failed."""
