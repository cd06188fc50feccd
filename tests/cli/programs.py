"""How the tests run ``sandbox-kit``: as a program, with or without a terminal."""

from __future__ import annotations

import contextlib
import itertools
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = (sys.executable, "-m", "sandbox_kit")
PROMPT = b"[y/N] "
WITHIN = 60.0

_IN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_numbers = itertools.count()


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without what changes colour, with *variables*."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    return {**kept, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}


def kit(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run ``sandbox-kit`` to its end, without a terminal."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": WITHIN, **options}
    return subprocess.run([*PROGRAM, *arguments], env=env or environment(), check=False, **options)


@contextlib.contextmanager
def started(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``sandbox-kit`` without a terminal, with pipes; it is killed at the end of the block."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen([*PROGRAM, *arguments], env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


class Ended(NamedTuple):
    """What a session at a terminal came to."""

    code: int
    screen: bytes


def at_terminal(
    *arguments: str, answer: bytes | None = None, when: bytes = PROMPT, env: dict[str, str] | None = None
) -> Ended:
    """Run ``sandbox-kit`` at a terminal of its own; *answer* is typed when it has printed *when*."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", _IN_TERMINAL, *PROGRAM, *arguments]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env or environment(), start_new_session=True
    )
    os.close(slave)
    with process, os.fdopen(master, "rb+", buffering=0) as terminal:
        try:
            screen = _converse(terminal.fileno(), answer, when)
            return Ended(process.wait(WITHIN), screen)
        finally:
            process.kill()


def _converse(terminal: int, answer: bytes | None, when: bytes) -> bytes:
    screen = b""
    deadline = time.monotonic() + WITHIN
    with contextlib.suppress(OSError):
        while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not (data := os.read(terminal, 4096)):
                break
            screen += data
            if answer is not None and when in screen:
                os.write(terminal, answer)
                answer = None
    return screen


def without_bubblewrap(directory: Path, **variables: str) -> dict[str, str]:
    """An environment where no program can be found."""
    return environment(PATH=str(directory / "no-programs"), **variables)


def unique_seconds() -> str:
    """An argument for ``sleep`` that no other process has: a long time, and a mark to find it by."""
    return f"4{os.getpid()}.{next(_numbers):05d}"


def living(mark: str) -> list[int]:
    """The process ids of the processes that have *mark* in their command line: shells that will start one, too."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether *condition* comes true within the time that a loaded machine may take."""
    deadline = time.monotonic() + WITHIN / 2
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def default_interrupts() -> None:
    """Undo that a test runner in the background ignores Ctrl-C, for a ``preexec_fn``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def in_child(act: Callable[[], object]) -> int:
    """Return the exit code of a forked child that does *act*: 0 unless it raised."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
