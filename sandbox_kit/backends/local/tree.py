"""What runs a command and ends its whole process tree: the shape of it.

Two kinds have this shape. On Linux a ``SupervisedTree``: a small supervisor process
adopts whatever leaves the tree, so that nothing can, neither by a double fork nor by a new
session, neither with a cleared environment nor by ignoring signals. Elsewhere a
``GroupTree``: it ends the command's process group, and what leaves that group lives on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

END_WITHIN = 10.0
"""How long, in seconds, a tree may take to end or a supervisor to start."""


class Reply(NamedTuple):
    """What a tree reports: a kind of ``supervisor``, its value, and how many processes could not be killed."""

    kind: int
    value: int
    spared: int


class Tree(Protocol):
    """One command and all that it starts."""

    @property
    def adopter(self) -> int | None:
        """The process id of the parent of all that leaves the tree; None where it leaves for good."""

    def fileno(self) -> int:
        """A descriptor that is readable when :meth:`receive` has something."""

    def start(
        self, argv: Sequence[bytes], env: Mapping[bytes, bytes], cwd: int | bytes, fds: Mapping[int, int]
    ) -> None:
        """Ask for the command to be started.

        Args:
            argv: the program and its arguments.
            env: the whole environment.
            cwd: the directory to start in, as a name or an open descriptor.
            fds: number in the command -> descriptor of this process; 1 and 2 must be among them.
        """

    def receive(self) -> Reply:
        """The next report: STARTED or FAILED, then ENDED, when the whole tree is dead.

        Raises:
            SandboxUnavailableError: the supervisor has died.
        """

    def nudge(self) -> None:
        """Wake whoever reports, should the command have stopped it."""

    def kill(self) -> None:
        """Have every process of the tree killed; ENDED follows."""

    def release(self) -> None:
        """Give up the tree after ENDED or FAILED."""

    def close(self) -> None:
        """End the tree, now, whatever its state; it is dead when this returns."""
