"""The files of a container, and those of its workspace that its own commands see masked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from attrs import evolve, frozen

from sandbox_kit.backends.docker.plan import Identity
from sandbox_kit.backends.docker.running import Running
from sandbox_kit.backends.shell.files import ShellFiles
from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import SandboxClosedError, UnsupportedError, printable
from sandbox_kit.paths import within

__all__ = ["Aside", "DockerFiles"]


@frozen
class Aside:
    """A container over the same workspace in which nothing is masked, and no command runs.

    Attributes:
        running: the container.
        hidden: names outside the workspace that are masked from commands; this one has what the image holds there.
        fixed: device and inode of what is masked in the workspace: a mask goes with the file that it is on.
    """

    running: Running
    hidden: tuple[str, ...] = ()
    fixed: frozenset[Identity] = frozenset()

    def lease(self, drain: Callable[[], None] | None) -> AbstractContextManager[Loop]:
        """Lend a shell."""
        return self.running.shells().lease(drain)

    def has(self, name: str, work_dir: str) -> bool:
        """Whether what is called *name* is to be reached here."""
        return within(name, work_dir) or any(within(name, hidden) for hidden in self.hidden)


class DockerFiles(ShellFiles):
    """Files by the shells of one container, or of two where commands see the workspace masked.

    A subclass sets both: the container that runs commands, once it is up, and what stands aside.
    """

    _running: Running | None
    _aside: Aside | None

    def _up(self) -> Running:
        """The container that runs commands.

        Raises:
            SandboxClosedError: it is not started.
        """
        if self._running is None:
            raise SandboxClosedError(f"{self!r} is not started: use 'with sandbox:' or call start()")
        return self._running

    def _lease(self, drain: Callable[[], None] | None = None) -> AbstractContextManager[Loop]:
        return self._up().shells().lease(drain, self.file_timeout)

    def _line_to(self, name: str) -> Line:
        aside = self._aside
        if aside is None or (self._running is not None and not aside.has(name, self.work_dir)):
            return self._line
        return evolve(self._line, lease=aside.lease, fixed=aside.fixed)

    def _apart(self) -> tuple[str, ...]:
        return (self.work_dir,) if self._aside is not None and self._running is not None else ()

    def _line_to_change(self, *names: str) -> Line:
        for name in names:
            if self._aside is not None and any(within(name, hidden) for hidden in self._aside.hidden):
                raise UnsupportedError(f"{printable(name)} is hidden from commands: it can be read, and not be changed")
        lines = list(map(self._line_to, names))
        return lines[0] if lines[0] == lines[-1] else self._line
