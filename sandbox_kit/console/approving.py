"""What a person has said yes to before a call is made, and what is still to be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from attrs import field, frozen

from sandbox_kit.console.results import ApprovalRequest
from sandbox_kit.errors import ApprovalRequiredError, printable
from sandbox_kit.judge import Approvals
from sandbox_kit.questions import Question

__all__ = ["Answers", "UnansweredError", "Yes", "nothing"]


class UnansweredError(ApprovalRequiredError):
    """The console's own guard asks, and nobody has said yes to this.

    Args:
        question: what it asks.
    """

    _fields = ("question",)

    def __init__(self, question: Question) -> None:
        super().__init__(question.operation, question.target, question.rule)
        self.question = question


class Answers(Approvals):
    """The approvals of a guard that asks nobody: everything was answered before, or needs approval.

    Args:
        approves: tells whether a question was answered with yes; pickles where the tools are to.
    """

    def __init__(self, approves: Callable[[Question], bool]) -> None:
        super().__init__(None, "error")
        self._approves = approves

    def __reduce__(self) -> tuple[type[Answers], tuple[Callable[[Question], bool]]]:
        return Answers, (self._approves,)

    def request(self, question: Question) -> None:
        """Return where *question* was answered with yes.

        Raises:
            UnansweredError: it was not.
        """
        if not self._approves(question):
            raise UnansweredError(question)


def nothing(question: Question) -> bool:
    """Approve nothing."""
    return False


@frozen
class Yes:
    """What a person has said yes to, of one call.

    Attributes:
        tool, values: the call.
        given: True for whatever it asks, or the token of an :class:`ApprovalRequest`.
    """

    tool: str
    values: Mapping[str, Any] = field(repr=False)
    given: bool | str = False

    def __call__(self, question: Question) -> bool:
        return self.given is True or self._mark(question) in self._marks()

    def request(self, question: Question) -> ApprovalRequest:
        """Return what to ask for next; its token is good for what was answered, too."""
        token = ".".join([*self._marks(), self._mark(question)])
        return ApprovalRequest(question.operation, printable(question.target), question.reason, token)

    def _marks(self) -> list[str]:
        return self.given.split(".") if isinstance(self.given, str) and self.given else []

    def _mark(self, question: Question) -> str:
        """Return a text that is another one for another call, or another question."""
        call = repr((self.tool, sorted(self.values.items()), question.fingerprint))
        return sha256(call.encode()).hexdigest()
