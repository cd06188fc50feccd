"""The parts of the suite, put together."""

from __future__ import annotations

from sandbox_kit.testing.cancelling import CancelConformance
from sandbox_kit.testing.commands import CommandConformance, OutputConformance
from sandbox_kit.testing.globbing import GlobConformance
from sandbox_kit.testing.grepping import GrepConformance, GrepLifeConformance, GrepLineConformance
from sandbox_kit.testing.judging import JudgingConformance
from sandbox_kit.testing.life import LifeConformance
from sandbox_kit.testing.names import NameConformance
from sandbox_kit.testing.processes import ProcessConformance, TimeLimitConformance
from sandbox_kit.testing.reading import ReadingConformance
from sandbox_kit.testing.replacing import ReplacingConformance
from sandbox_kit.testing.sharing import SharingConformance
from sandbox_kit.testing.transfers import ExportConformance, TransferConformance
from sandbox_kit.testing.trees import ChangingConformance, ListingConformance, PathConformance
from sandbox_kit.testing.writing import EditingConformance, WritingConformance

__all__ = ["BackendConformance", "SandboxConformance"]


class BackendConformance(
    ReadingConformance,
    WritingConformance,
    EditingConformance,
    ListingConformance,
    ChangingConformance,
    PathConformance,
    NameConformance,
    GlobConformance,
    GrepConformance,
    GrepLineConformance,
    GrepLifeConformance,
    TransferConformance,
    ExportConformance,
    JudgingConformance,
    ReplacingConformance,
    SharingConformance,
):
    """Files: the whole contract of :class:`~sandbox_kit.contract.Backend`."""


class SandboxConformance(
    CommandConformance,
    OutputConformance,
    TimeLimitConformance,
    ProcessConformance,
    CancelConformance,
    LifeConformance,
    BackendConformance,
):
    """Files, commands and a life: the whole contract of :class:`~sandbox_kit.contract.Sandbox`.

    ``make_backend`` returns a sandbox that is not started.
    """
