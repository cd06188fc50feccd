"""The output of a cell, which grows in its place while a command runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from secrets import token_hex
from typing import Protocol

from sandbox_kit.html.excerpt import Excerpt
from sandbox_kit.html.fragments import Markup, line, output, span, text
from sandbox_kit.html.terminal import plain, terminal
from sandbox_kit.notebook.shell import Shell

__all__ = ["Cell", "opened"]

_EVERY = 0.1
"""How often an output that grows is shown anew, in seconds."""


class Cell(Protocol):
    """Where a command shows itself."""

    def add(self, stream: str, text: str) -> None:
        """Show a piece of output, soon."""

    def tell(self, head: Markup, *more: Markup) -> None:
        """Show, from now on, *head* above the output and *more* below it."""


class Printed:
    """Plain text on the standard streams, where there is no notebook: what is below the output is left out."""

    def add(self, stream: str, text: str) -> None:
        file = sys.stderr if stream == "stderr" else sys.stdout
        encoding = file.encoding or "utf-8"
        print(plain(text).encode(encoding, "replace").decode(encoding), end="", file=file, flush=True)

    def tell(self, head: Markup, *more: Markup) -> None:
        """Show nothing: the value of the cell says it."""


class Live:
    """HTML in the output of a cell, replaced by more of it.

    Args:
        show: publishes plain text and HTML in the place of what it published before.
    """

    def __init__(self, show: Callable[[str, Markup], None]) -> None:
        self._show = show
        self._excerpt = Excerpt()
        self._lock = threading.Lock()
        self._news = False
        self._head = line()
        self._more: tuple[Markup, ...] = ()

    def add(self, stream: str, text: str) -> None:
        with self._lock:
            self._excerpt.add(stream, text)
            self._news = True

    def tell(self, head: Markup, *more: Markup) -> None:
        with self._lock:
            self._head, self._more = head, more
            self._publish()

    def refresh(self) -> None:
        """Show what arrived since the last time."""
        with self._lock:
            if self._news:
                self._publish()

    def _publish(self) -> None:
        self._news = False
        pieces = self._excerpt.pieces
        blocks = [terminal(pieces)] if pieces else []
        self._show(plain("".join(value for _, value in pieces)), output(self._head, *blocks, *self._more))


@contextmanager
def opened(shell: Shell | None) -> Iterator[Cell]:
    """Open a place in the output of the cell that runs now.

    Args:
        shell: where the cell runs; None outside IPython.
    """
    if shell is None or shell.prints_only:
        yield Printed()
        return
    live = Live(_Place(shell).show)
    over = threading.Event()
    refreshing = threading.Thread(target=copy_context().run, args=(_refresh, live, over), daemon=True)
    try:
        live.tell(line(span(text("running"), "sbk-wait")))
        refreshing.start()
        yield live
    finally:
        over.set()


def _refresh(live: Live, over: threading.Event) -> None:
    while not over.wait(_EVERY):
        live.refresh()


class _Place:
    """An output of the cell that runs now: a new one, then replaced again and again."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._name = token_hex(16)
        self._there = False

    def show(self, words: str, html: Markup) -> None:
        self._shell.publish(words, html, self._name, update=self._there)
        self._there = True
