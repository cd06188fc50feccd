"""What a tool returns: text, the text of a failure, or bytes with their media type."""

from __future__ import annotations

from typing import Any, Self

from attrs import field, frozen

__all__ = ["ApprovalRequest", "ErrorText", "Media", "Result"]


@frozen
class ApprovalRequest:
    """What a person is to be shown before a yes. It is not for the model: it tells where links lead.

    Attributes:
        operation, target: what would be done, to what, as the model named it, in printable characters.
        reason: every rule that asks, what is given with a command, and where links lead.
        token: for ``approved=`` of the same call: good for just this.
    """

    operation: str
    target: str
    reason: str
    token: str


class ErrorText(str):
    """What a tool could not do, and what to do next, as text for a model. That of a refusal holds no content.

    Args:
        text: the text.
        request: what a person's approval is needed for, where that is all that is missing.
    """

    request: ApprovalRequest | None

    def __new__(cls, text: str, *, request: ApprovalRequest | None = None) -> Self:
        made = super().__new__(cls, text)
        made.request = request
        return made

    @property
    def needs_approval(self) -> bool:
        """Whether a person's approval is all that is missing."""
        return self.request is not None

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (str(self),), {"request": self.request}


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
