"""What came of one item, in terms that travel between processes."""

from __future__ import annotations

import pickle
from pathlib import Path
from traceback import format_exception
from typing import Any, NoReturn, Self

from attrs import field, frozen

from sandbox_kit.errors import JobError
from sandbox_kit.types import CommandResult, Skipped

__all__ = ["JobResult", "failed"]


@frozen
class JobResult:
    """What came of one item.

    Attributes:
        index: the item's place among the items, from 0.
        value: the :class:`CommandResult` of a command, or what the function returned; None where it failed.
        error: what went wrong, as pickle brings it; None if nothing did. A command's non-zero exit is in *value*.
        artifacts: the files that came back, by their path in the sandbox; empty where they went into *folder*.
        folder: the directory of the host that the files went into; None where none was asked for.
        skipped: files that were found, and could not be read or were another by then, with the reason.
        seconds: how long it took, from the start of its sandbox on.
        traceback: of *error*, as text, from where it was raised.
    """

    index: int
    value: Any = None
    error: BaseException | None = None
    artifacts: dict[str, bytes] = field(factory=dict, repr=False)
    folder: Path | None = None
    skipped: tuple[Skipped, ...] = ()
    seconds: float = 0.0
    traceback: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong; a command must have exited with 0."""
        return self.error is None and not (isinstance(self.value, CommandResult) and not self.value.ok)

    def check(self) -> Self:
        """Return the result itself.

        Raises:
            CommandFailedError: the command's exit code is not 0.
            BaseException: *error*, where there is one.
        """
        if self.error is not None:
            raise self.error
        if isinstance(self.value, CommandResult):
            self.value.check()
        return self

    def __bool__(self) -> NoReturn:
        raise TypeError("a JobResult has no truth value: use .ok")


def failed(index: int, error: BaseException, *, value: Any = None, seconds: float = 0.0) -> JobResult:
    """The result of an item for which *error* was raised, without the frames that it was raised in."""
    told = "".join(format_exception(error))
    return JobResult(index, value, _as_pickled(error, told), seconds=seconds, traceback=told)


def _as_pickled(error: BaseException, told: str) -> BaseException:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        again = None
    if isinstance(again, BaseException) and type(again) is type(error):
        return again
    return JobError(type(error).__name__, str(error), told)
