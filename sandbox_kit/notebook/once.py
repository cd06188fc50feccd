"""A result that a cell has shown while it grew is not shown again as the value of that cell."""

from __future__ import annotations

import weakref

from sandbox_kit.notebook.shell import Shell, running_shell
from sandbox_kit.types import CommandResult

__all__ = ["forget", "show_once"]


class _Shown:
    """The results that the last cell which ran a command has shown."""

    def __init__(self) -> None:
        self._cell = -1
        self._results: list[weakref.ref[CommandResult]] = []

    def add(self, cell: int, result: CommandResult) -> None:
        """Take a result that the cell with the number *cell* shows."""
        if self._cell != cell:
            self._cell, self._results = cell, []
        self._results.append(weakref.ref(result))

    def display(self, result: CommandResult) -> None:
        """Show nothing of what the running cell shows already, as an ``_ipython_display_`` of the result.

        Raises:
            NotImplementedError: it is another result, to be shown like any value.
        """
        shell = running_shell()
        running = shell is not None and shell.cell == self._cell
        if not (running and any(each() is result for each in self._results)):
            raise NotImplementedError


_SHOWN = _Shown()


def show_once(shell: Shell, result: CommandResult) -> None:
    """Have *result*, which the running cell shows, not shown again as its value; in later cells it is shown."""
    _SHOWN.add(shell.cell, result)
    shell.show_with(CommandResult, _SHOWN.display)


def forget(shell: Shell) -> None:
    """Have results shown in *shell* as any value is."""
    shell.show_with(CommandResult, None)
