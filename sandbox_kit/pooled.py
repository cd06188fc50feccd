"""What a pool hands out: a sandbox that is its taker's alone, and whose end makes room for another one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxClosedError
from sandbox_kit.primitives import MaskSource
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.forwarding import ForwardingSandbox
from sandbox_kit.types import Capabilities, Usage

__all__ = ["PooledSandbox"]


class PooledSandbox(ForwardingSandbox):
    """A sandbox of a pool, started already. Leaving its ``with`` discards it with its files; so does dropping it.

    Once stopped it does not start again: acquire another one. ``stop()`` keeps the files, as everywhere.

    Args:
        inner: what runs it.
        let_go: called once it is stopped or dropped.
    """

    def __init__(self, inner: Sandbox, let_go: Callable[[], object]) -> None:
        super().__init__()
        self._inner = inner
        self._stopped = False
        self._let_go = weakref.finalize(self, let_go)
        self._let_go.atexit = False
        self.default_timeout = inner.default_timeout
        self.max_read_bytes = inner.max_read_bytes

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is for one process: acquire it there, from a pool of that process")

    def __repr__(self) -> str:
        return f"<of a pool: {self._inner!r}>"

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def work_dir(self) -> str:
        return self._inner.work_dir

    @property
    def temporary(self) -> bool:
        return self._inner.temporary

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def file_timeout(self) -> float:
        return self._inner.file_timeout

    @file_timeout.setter
    def file_timeout(self, seconds: float) -> None:
        self._inner.file_timeout = seconds

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        return self._inner._confines(ruleset)

    def _up(self) -> Sandbox:
        if self._stopped:
            raise SandboxClosedError(f"{self!r} was stopped: acquire another one")
        return self._inner

    def _awake(self) -> AbstractContextManager[Sandbox]:
        return nullcontext(self._up())

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        inner = self._up()
        if masks:
            with inner._life:
                inner._start(masks)

    def _stop(self, purge: bool) -> None:
        self._stopped = True
        self._inner.stop(purge=purge)
        self._let_go()

    def _is_alive(self) -> bool:
        return not self._stopped and self._inner.is_alive()

    def _usage(self) -> Usage:
        return self._up().usage()
