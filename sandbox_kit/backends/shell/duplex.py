"""The standard streams of a program that runs elsewhere, without blocking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sandbox_kit.output import Stream

__all__ = ["Duplex", "Piece"]

Piece = tuple[Stream, bytes]
"""What arrived, and on which of the two streams."""


class Duplex(ABC):
    """Standard input, output and error of one program. Only one thread uses it at a time.

    Every method raises SandboxUnavailableError when the connection is lost.
    """

    @abstractmethod
    def wait(self, timeout: float | None, *, to_send: bool = False) -> None:
        """Wait until something has arrived, or *to_send* something can be sent, or *timeout* seconds are over."""

    @abstractmethod
    def receive(self) -> Sequence[Piece] | None:
        """Return what has arrived, maybe nothing, in order; None after the end of both streams."""

    @abstractmethod
    def send(self, data: memoryview) -> int:
        """Send the beginning of *data*; return how many bytes went, 0 where none can go yet."""

    @abstractmethod
    def end_input(self) -> None:
        """Let the program read the end of its standard input, once what was sent is read."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection; twice is fine. The program may live on."""

    @abstractmethod
    def abandon(self) -> None:
        """Close this process's copy, in a forked child, so that the parent's goes on undisturbed."""
