"""Job: some work, and all that it takes to do it for an item anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from attrs import field, frozen

from sandbox_kit.arguments import check_count, check_timeout
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.jobs import documents
from sandbox_kit.jobs.attempt import Attempt
from sandbox_kit.jobs.inputs import Files, check_files
from sandbox_kit.jobs.outputs import check_patterns
from sandbox_kit.jobs.result import JobResult
from sandbox_kit.jobs.rooms import room_of
from sandbox_kit.jobs.template import CommandTemplate
from sandbox_kit.spec import SandboxSpec
from sandbox_kit.types import parse_size

__all__ = ["Job"]

Function = Callable[[Sandbox, Any], Any]


def _spec(spec: SandboxSpec) -> SandboxSpec:
    if not isinstance(spec, SandboxSpec):
        raise InvalidArgumentError(f"spec: is a SandboxSpec, not {type(spec).__name__}")
    return spec


def _work(work: str | Sequence[str] | CommandTemplate | Function) -> CommandTemplate | Function:
    return work if isinstance(work, CommandTemplate) or callable(work) else CommandTemplate(work)


def _place(place: str | PathLike[str] | None) -> Path | None:
    return None if place is None else Path(place).absolute()


def _limit(limit: int | str) -> int:
    return parse_size(limit, "artifact_limit")


def _timeout(timeout: float | None) -> float | None:
    return check_timeout(timeout)


def _sandboxes(number: int) -> int:
    if check_count(number, "sandboxes") == 0:
        raise InvalidArgumentError("sandboxes: is at least 1")
    return number


@frozen
class Job:
    """Some work to be done for an item, wherever this is called: ``job(item)``. It pickles if *work* does.

    Each call has a sandbox of its own, which is discarded at the end, whatever happens.

    Args:
        spec: what the sandboxes are. It names neither an id nor a workspace.
        work: a command, as for :class:`CommandTemplate`; or ``work(sandbox, item)``, a function that is run
            where the job is called. It is trusted code: *it* is not in the sandbox, only what it has that do.
        files: what to put into the sandbox first: from a path there to bytes or a text, or to a path of the host
            where the job runs, whose file or tree is copied. Or a function of the item that returns that.
        artifacts: patterns of the regular files to bring back, as for :meth:`Backend.glob`. What rules refuse does not
            come back; links are left out.
        artifacts_to: a directory of the host where the job runs, in which each item has a directory named by its
            index, made anew, for its artifacts; None returns their bytes.
        artifact_limit: how many bytes the artifacts of an item may have together, or as ``"64m"``; there may be
            10,000 of them.
        timeout: how long an item may take, in seconds, the start of its sandbox and all files included; None for
            as long as it takes. The sandbox then ends; a function that goes on without it is left to itself.
        sandboxes: how many of this job's sandboxes there may be at once in one process, over all its threads.

    Raises:
        InvalidArgumentError: an argument is none of its values.
        PatternError: a pattern of *artifacts* is refused.
    """

    spec: SandboxSpec = field(converter=_spec)
    work: CommandTemplate | Function = field(converter=_work)
    files: Files = field(factory=dict, converter=check_files, kw_only=True)
    artifacts: tuple[str, ...] = field(default=(), converter=check_patterns, kw_only=True)
    artifacts_to: Path | None = field(default=None, converter=_place, kw_only=True)
    artifact_limit: int = field(default=64 * 2**20, converter=_limit, kw_only=True)
    timeout: float | None = field(default=None, converter=_timeout, kw_only=True)
    sandboxes: int = field(default=1, converter=_sandboxes, kw_only=True)
    key: str = field(factory=lambda: uuid4().hex, init=False, repr=False, eq=False)
    """Tells this job from others, in every process."""

    def __call__(self, item: Any, index: int = 0) -> JobResult:
        """Do it for *item*, once there is room for another sandbox.

        Args:
            item: fills the fields of a command: as ``{item}``, or a mapping by its keys.
            index: the item's place among the items, from 0.
        """
        attempt = Attempt(self, item, index)
        with room_of(self.key, self.sandboxes).place(attempt):
            return attempt.result()

    def to_dict(self) -> dict[str, Any]:
        """Return the job as JSON has it.

        Raises:
            InvalidArgumentError: *work* or *files* is a function, which JSON does not have.
        """
        return documents.dump(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the job that :meth:`to_dict` wrote; what is left out has its default.

        Raises:
            InvalidArgumentError: *document* is no mapping, lacks the spec or the work, has another key, or a
                value is refused.
            PolicyError: the ruleset is refused.
        """
        return cls(**documents.load(document))
