"""A command in a session: to its end or its time limit, and the end of whatever it started."""

from __future__ import annotations

import posixpath
import secrets
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from typing import BinaryIO

from attrs import evolve

from sandbox_kit.backends.remote.courier import Courier, Trip
from sandbox_kit.backends.remote.opening import Opened
from sandbox_kit.backends.shell.commands import script
from sandbox_kit.backends.shell.duplex import Piece
from sandbox_kit.backends.shell.ending import abort, label, timed
from sandbox_kit.backends.shell.oneshot import one_shot
from sandbox_kit.errors import CommandTimeoutError, LimitExceededError, SandboxError
from sandbox_kit.host.unfinished import new_name
from sandbox_kit.output import Capture
from sandbox_kit.primitives import Command
from sandbox_kit.streams import CHUNK
from sandbox_kit.types import CommandResult

__all__ = ["limit_of", "run"]

_GRACE = 5.0
"""Seconds before its own ceiling at which the service need not end a command: what it printed is still to be sent."""

_MOST_OF = 0.9
_ENDED_WITHIN = 10.0
"""Seconds that the end of what a command started may take."""

_ABORTED_WITHIN = 10.0


def limit_of(command: Command, ceiling: float) -> float:
    """Return the time limit of *command*, in seconds: its own, or a little less than the service's ceiling.

    Raises:
        LimitExceededError: it is over that.
    """
    most = max(ceiling - _GRACE, ceiling * _MOST_OF)
    if command.timeout is None:
        return most
    if command.timeout > most:
        raise LimitExceededError(
            f"timeout: {command.timeout} s is over the {most:g} s that the service allows a command", most
        )
    return command.timeout


def run(opened: Opened, command: Command, cwd: str) -> CommandResult:
    """Run *command* in the directory *cwd*; its output is handed over when it has ended.

    Raises:
        CommandTimeoutError: it ran over its limit, and is dead with its whole tree.
        LimitExceededError: its limit is over the service's ceiling.
        SandboxUnavailableError: the service was lost; whether it ran, and to which end, is not known.
    """
    began, limit = time.monotonic(), limit_of(command, opened.ceiling)
    capture = Capture(command.max_output, command.on_output)
    code, late = _to_end(opened, command, cwd, limit, capture)
    duration = time.monotonic() - began
    if late:
        raise CommandTimeoutError(capture.result(None, duration), limit)
    return capture.result(code, duration)


def _to_end(opened: Opened, command: Command, cwd: str, limit: float, capture: Capture) -> tuple[int, bool]:
    """Return the exit code, and whether the limit came first."""
    token, tombstone = secrets.token_hex(16), posixpath.join(opened.courier.directory, new_name())
    body = timed(script(_with_env(command, opened.work_dir), cwd, "<&5 5<&-"), token, limit, tombstone)

    def shoot(text: bytes, _stdin: object, _timeout: float | None) -> Generator[Piece, None, None]:
        trip = Trip(
            text,
            _read(command.stdin),
            limit + _ENDED_WITHIN,
            limit=command.max_output + 1,
            pause=command.cancellation.pause,
            label=label(token),
        )
        return _or_abort(opened.courier, trip, abort(token, tombstone))

    with one_shot(shoot) as loop:
        call = loop.call(body, capture.feed)
        return call.finish(), bool(call.told)


def _or_abort(courier: Courier, trip: Trip, ending: str) -> Generator[Piece, None, None]:
    """Run *trip*; where the caller gives it up, end what it started by the command line *ending*."""
    running = courier.run(trip)
    try:
        yield next(running)
    except (SandboxError, GeneratorExit):
        raise
    except BaseException:
        with suppress(SandboxError):
            courier.session.run(ending, _ABORTED_WITHIN)
        raise
    yield from running


def _with_env(command: Command, home: str) -> Command:
    return evolve(command, env={"LANG": "C.UTF-8", "TERM": "dumb", "HOME": home, **command.env})


def _read(stdin: bytes | BinaryIO | int | None) -> Iterable[bytes]:
    """Return what a command reads, in pieces."""
    if stdin is None or isinstance(stdin, int):
        return ()
    return (stdin,) if isinstance(stdin, bytes) else iter(lambda: stdin.read(CHUNK) or b"", b"")
