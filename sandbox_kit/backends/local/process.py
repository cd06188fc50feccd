"""Running a local command, to its end or beside the caller.

A command runs in a session of its own, with the environment that it is given, default
signals and no terminal. When its own process ends, what it left running is ended too; how
far that reaches is told in ``tree.py``. What is passed in has been checked by
``sandbox_kit.arguments``.
"""

from __future__ import annotations

import io
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from sandbox_kit.arguments import MAX_OUTPUT
from sandbox_kit.backends.local.environment import encode_environment
from sandbox_kit.backends.local.handle import LocalProcess, Service
from sandbox_kit.backends.local.job import Job
from sandbox_kit.backends.local.running import Running
from sandbox_kit.backends.local.tree import END_WITHIN
from sandbox_kit.cancelling import NEVER, Cancellation
from sandbox_kit.errors import (
    CommandTimeoutError,
    InvalidArgumentError,
    SandboxUnavailableError,
)
from sandbox_kit.output import Capture, OnOutput
from sandbox_kit.types import CommandResult

__all__ = ["LocalProcess", "run", "spawn"]

Stdin = bytes | BinaryIO | None

logger = logging.getLogger("sandbox_kit")


def run(
    argv: Sequence[str | bytes],
    *,
    cwd: int | str,
    env: Mapping[str, str],
    stdin: Stdin = None,
    timeout: float | None = None,
    max_output: int = MAX_OUTPUT,
    on_output: OnOutput | None = None,
    pass_fds: Sequence[int] = (),
    began: float | None = None,
    running: Running | None = None,
    cancellation: Cancellation = NEVER,
) -> CommandResult:
    """Run a command to its end; its whole tree is dead when this returns or raises.

    A program that cannot be started is a result, as in a shell: exit code 127 when it is
    not found, else 126, and the reason on stderr.

    Args:
        argv: the program, looked up in the PATH of *env*, and its arguments.
        cwd: the directory to start in: a name, or the descriptor of an open directory.
        env: the whole environment.
        stdin: what the command reads; None is an empty input. A binary file is read from where it
            stands, somewhat beyond what the command takes.
        timeout: in seconds; None for no limit.
        max_output: in bytes of both streams together. What arrives later is dropped, and the command goes on.
        on_output: called in this thread with ``"stdout"`` or ``"stderr"`` and each piece of text that is kept.
            If it raises, the tree is killed and the exception passes through.
        pass_fds: descriptors that the command inherits, under the same numbers.
        began: since when the time counts, by the monotonic clock; None for now.
        running: what the command belongs to, which may end it.
        cancellation: ends the command by an exception, as *on_output* does.

    Raises:
        CommandTimeoutError: the command ran over *timeout*; the error holds what it had printed.
        InvalidArgumentError: *stdin* is not in binary mode.
        PathError: *cwd* cannot be entered.
        SandboxUnavailableError: no process can be started here.
        SandboxClosedError: *running* was ended before the command.
    """
    capture = Capture(max_output, on_output)
    running = running or Running()
    job = Job(capture.feed)
    began = time.monotonic() if began is None else began
    try:
        running.admit(job)
        job.start(_encoded(argv), cwd, encode_environment(env), _binary(stdin), pass_fds=pass_fds)
        in_time = _finish(job, began + (math.inf if timeout is None else timeout), cancellation)
    except SandboxUnavailableError:
        running.check()
        raise
    finally:
        job.close()
        running.leave(job)
    running.check()
    result = capture.result(job.exit_code if in_time else None, time.monotonic() - began)
    if not in_time:
        raise CommandTimeoutError(result, timeout)
    return result


def _finish(job: Job, deadline: float, cancellation: Cancellation) -> bool:
    """Serve *job* until its end, and kill it at *deadline*; whether it ended in time."""
    while job.exit_code is None and (left := deadline - time.monotonic()) > 0:
        job.step(cancellation.pause(left if left < math.inf else None))
    if job.exit_code is not None:
        return True
    job.kill()
    give_up = time.monotonic() + END_WITHIN
    while job.exit_code is None and (left := give_up - time.monotonic()) > 0:
        job.step(left)
    if job.exit_code is None:
        logger.warning("a command that ran over its time limit could not be ended in %s s", END_WITHIN)
    return False


def spawn(
    argv: Sequence[str | bytes],
    *,
    cwd: int | str,
    env: Mapping[str, str],
    stdin: Stdin | int = None,
    max_output: int = MAX_OUTPUT,
    pass_fds: Sequence[int] = (),
    running: Running | None = None,
    owner: object = None,
    on_end: Callable[[], None] | None = None,
    check_started: Callable[[int, str], None] | None = None,
) -> LocalProcess:
    """Start a command beside the caller.

    Args:
        argv, cwd, env, pass_fds, running: as for :func:`run`.
        stdin: as for :func:`run`, or ``subprocess.PIPE`` to write it bit by bit.
        max_output: how many unread bytes of each stream are kept; over it the oldest lines are dropped.
        owner: kept alive by the handle.
        on_end: called once when the tree is dead, in any thread, also where the start was broken off;
            never in a forked child.
        check_started: as for :class:`Service`, before *on_end*; None takes every command for started.

    Raises:
        InvalidArgumentError, PathError, SandboxUnavailableError, SandboxClosedError: as for :func:`run`.
    """
    piped = isinstance(stdin, int)
    source = None if isinstance(stdin, int) else _binary(stdin)
    running = running or Running()
    service = Service(max_output) if check_started is None else Service(max_output, check_started)
    service.at_end.callback(running.leave, service.job)
    if on_end is not None:
        service.at_end.callback(on_end)
    try:
        running.admit(service.job)
        service.job.start(_encoded(argv), cwd, encode_environment(env), source, pipe_stdin=piped, pass_fds=pass_fds)
        _await_start(service.job)
        process = LocalProcess(service, with_stdin=piped, owner=owner)
        service.begin()
    except BaseException as error:
        service.give_up()
        if isinstance(error, SandboxUnavailableError):
            running.check()
        raise
    return process


def _await_start(job: Job) -> None:
    deadline = time.monotonic() + END_WITHIN
    while job.pid is None:
        if (left := deadline - time.monotonic()) <= 0:
            raise SandboxUnavailableError(f"the command did not start within {END_WITHIN} s")
        job.step(left)


def _encoded(argv: Sequence[str | bytes]) -> list[bytes]:
    return [word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape") for word in argv]


def _binary(stdin: Stdin) -> Stdin:
    if isinstance(stdin, io.TextIOBase):
        raise InvalidArgumentError("stdin: a file must be open in binary mode")
    return stdin
