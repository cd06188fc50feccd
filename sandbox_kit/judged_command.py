"""A command, as rules and people judge it: what a question tells of it, and what an approval of it holds for."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256

from sandbox_kit.paths import within
from sandbox_kit.primitives import Command, Masks
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.commands import CommandLine, split_command
from sandbox_kit.types import Verdict

__all__ = ["JudgedCommand"]


class JudgedCommand:
    """One command of one guard.

    Args:
        command: as it would be run.
        unconfined: count it as "ask" where the rules allow it.
        work_dir: where it would run: absolute and normal.
        masks: what the kernel hides from it; None for nothing.

    Attributes:
        line: the command, split.
        text: what people are told; the words of an argument vector quoted as for a shell.
    """

    def __init__(
        self, command: Command, *, unconfined: bool = False, work_dir: str = "/", masks: Masks | None = None
    ) -> None:
        self.line: CommandLine = split_command(command.argv if command.line is None else command.line)
        self.text = command.text
        self._command = command
        self._unconfined = unconfined
        self._work_dir = work_dir
        self._masks = masks

    def hides(self, directory: str) -> bool:
        """Whether the command sees nothing of *directory*, by its real name, beneath the work directory."""
        masks = self._masks
        if masks is None or directory == self._work_dir or not within(directory, self._work_dir):
            return False
        return masks.hidden(directory) and not masks.opens_beneath(directory)

    def verdict(self, checker: PermissionChecker) -> Verdict:
        """Return what the rules say, before anybody is asked."""
        line = self.line
        simple = None if line.commands is None else [each.texts for each in line.commands]
        verdict = checker.command_verdict(line.line, simple, [each.texts for each in line.candidates])
        if self._unconfined and verdict.action == "allow":
            return Verdict("ask", "execute", "commands cannot be confined here", line.line)
        return verdict

    @cached_property
    def key(self) -> str:
        """What an approval holds for, but for the directory: another text for whatever may do something else."""
        command = self._command
        stdin = sha256(command.stdin).digest() if isinstance(command.stdin, bytes) else self._has_input
        parts = (self._unconfined, command.line is None, command.argv, sorted(command.env.items()), command.user, stdin)
        return sha256(repr(parts).encode()).hexdigest()

    @property
    def is_repeatable(self) -> bool:
        """Whether the same command can be known again: nobody knows what a stream will hold."""
        return isinstance(self._command.stdin, bytes) or not self._has_input

    @property
    def terms(self) -> list[str]:
        """What is given with the command, for people; of variables the names."""
        command, told = self._command, []
        if command.cwd != ".":
            told.append(f"in {command.cwd}")
        if command.env:
            told.append(f"with the variables {', '.join(sorted(command.env))}")
        if command.user is not None:
            told.append(f"as user {command.user}")
        if self._has_input:
            told.append("with standard input")
        if self._unconfined:
            told.append("not confined: the kernel hides nothing from it")
        return told

    @property
    def _has_input(self) -> bool:
        return self._command.stdin is not None and self._command.stdin != b""
