"""All that is asked of IPython."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from sandbox_kit.errors import printable

__all__ = ["Shell", "running_shell", "usage_error"]


class Shell:
    """The shell that runs the cells of this process.

    Args:
        ipython: an ``InteractiveShell``, of which little is typed.
    """

    def __init__(self, ipython: Any) -> None:
        self._ipython = ipython

    @property
    def cell(self) -> int:
        """The number of the cell that runs now."""
        return int(self._ipython.execution_count)

    @property
    def variables(self) -> dict[str, object]:
        """Those of the notebook, by name."""
        return dict(self._ipython.user_ns)

    @property
    def prints_only(self) -> bool:
        """Whether it is one in a terminal, which shows nothing in the place of what it printed."""
        from IPython.core.displaypub import DisplayPublisher

        return type(self._ipython.display_pub) is DisplayPublisher

    def publish(self, words: str, html: str, place: str, *, update: bool) -> None:
        """Show *html*, or *words* where HTML cannot be shown.

        Args:
            words: plain text.
            html: the same, tidy.
            place: the name of an output.
            update: whether to replace what that output shows; else it is a new one of the running cell.
        """
        data = {"text/plain": words, "text/html": html}
        self._ipython.display_pub.publish(data, {}, transient={"display_id": place}, update=update)

    def show_with(self, kind: type[Any], show: Callable[[Any], None] | None) -> None:
        """Have *show* show each value of *kind*, unless it raises NotImplementedError; with None all show as usual."""
        _register(self._ipython.display_formatter.ipython_display_formatter, kind, show)

    def html_with(self, kind: type[Any], html: Callable[[Any], str] | None) -> None:
        """Have *html* give the HTML of each value of *kind*; with None as usual."""
        _register(self._ipython.display_formatter.formatters["text/html"], kind, html)

    def add_magic(self, name: str, function: Callable[[str, str | None], object]) -> None:
        """Have *function* called for ``%name`` and ``%%name``, with the line as it was typed: no variable is put in."""
        from IPython.core.magic import no_var_expand

        self._ipython.register_magic_function(no_var_expand(partial(function)), "line_cell", name)

    def remove_magic(self, name: str) -> None:
        """Undo :meth:`add_magic`; twice is fine."""
        for magics in self._ipython.magics_manager.magics.values():
            magics.pop(name, None)


def _register(formatter: Any, kind: type[Any], function: Callable[[Any], object] | None) -> None:
    if function is None:
        formatter.pop(kind, None)
    else:
        formatter.for_type(kind, function)


def running_shell() -> Shell | None:
    """Return the shell of the notebook, or of IPython in a terminal; None elsewhere."""
    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython

    ipython = get_ipython()
    return None if ipython is None else Shell(ipython)


def usage_error(message: str) -> Exception:
    """Return an error of a line that a person typed: a cell shows its message alone, without a traceback."""
    from IPython.core.error import UsageError

    return UsageError("\n".join(map(printable, message.split("\n"))))
