"""What a person answers who is asked to approve, told apart from what the library says itself.

Whoever is asked may raise anything, errors of this library too. Such an error says nothing of the
path at hand, so no call may take it for news of that.
"""

from __future__ import annotations

from sandbox_kit.errors import PathNotDirectoryError

__all__ = ["is_answer", "is_final", "is_refusal", "note_answer"]

_ANSWER = "_sandbox_kit_answer"


def note_answer(error: BaseException, *, raised: bool) -> None:
    """Note that *error* is what a person answered who was asked to approve.

    Args:
        raised: the person's own program raised it, so that it passes through every call; else it is a plain no.
    """
    vars(error)[_ANSWER] = raised


def is_answer(error: BaseException) -> bool:
    """Whether whoever was asked raised *error*: it says nothing of the path at hand, of whatever kind it is."""
    return vars(error).get(_ANSWER) is True


def is_refusal(error: BaseException) -> bool:
    """Whether a person was asked, and *error* is the answer, of either kind: there is nothing more to ask."""
    return _ANSWER in vars(error)


def is_final(error: PathNotDirectoryError) -> bool:
    """Whether there is no point in a second look at what a walk says is no directory.

    So it is where *error* is an answer, or caused by another: a guard has taken that look, and found nothing.
    """
    return is_answer(error) or isinstance(error.__cause__, PathNotDirectoryError)
