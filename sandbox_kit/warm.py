"""Sandboxes before anybody uses them: started, so that all is in place, or removed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.host.aside import Latch, begin
from sandbox_kit.spec import SandboxSpec

__all__ = ["discard", "discard_all", "started"]

_FIRST_WITHIN = 120.0
"""Seconds that the first command may take."""

_log = logging.getLogger("sandbox_kit")


def started(spec: SandboxSpec) -> Sandbox:
    """A sandbox that is up, and has found out what it needs for its first calls, as far as its rules let it."""
    made = spec.open()
    assert isinstance(made, Sandbox)
    made.start()
    try:
        with suppress(PermissionDeniedError):
            made.exists(".")
            made.execute("true", timeout=_FIRST_WITHIN)
    except BaseException:
        discard(made)
        raise
    return made


def discard(sandbox: Sandbox) -> None:
    """Stop a sandbox and remove its files; what fails is logged."""
    try:
        sandbox.stop(purge=True)
    except Exception as error:
        _log.warning("a sandbox of the pool could not be removed: %s", error)


def discard_all(sandboxes: Sequence[Sandbox], at_once: int) -> None:
    """Discard several, *at_once* at a time as far as there can be threads; return when all is done."""
    shares = [sandboxes[first::at_once] for first in range(min(at_once, len(sandboxes)))]
    for ended in [_begin_to_discard(share) for share in shares]:
        ended.wait()


def _begin_to_discard(sandboxes: Iterable[Sandbox]) -> Latch:
    """Discard each in turn, aside; what is returned is set at the end."""
    ended = Latch()
    work = partial(_discard_each, sandboxes, ended)
    try:
        begin(work)
    except RuntimeError:
        work()
    return ended


def _discard_each(sandboxes: Iterable[Sandbox], ended: Latch) -> None:
    try:
        for each in sandboxes:
            discard(each)
    finally:
        ended.set()
