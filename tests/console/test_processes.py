"""Background processes whose sandbox goes away, and what a console forgets of a great many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.console.background import KILL_PROCESS, READ_OUTPUT
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.processes import Processes
from sandbox_kit.console.seen import Seen
from sandbox_kit.contract import Process
from sandbox_kit.errors import LimitExceededError, SandboxTimeoutError, SandboxUnavailableError


class Staged(Process):
    """A process that does as a test says.

    Args:
        code: what poll() gives; an error is raised.
        lines: what it prints; an error that ends it is raised.
    """

    stdin = None

    def __init__(self, code: int | SandboxUnavailableError | None, *lines: str | SandboxUnavailableError) -> None:
        self._code = code
        self.stdout, self.stderr = _given(lines), iter(())

    @property
    def pid(self) -> int:
        return 1

    def poll(self) -> int | None:
        if isinstance(self._code, SandboxUnavailableError):
            raise self._code
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        raise SandboxTimeoutError("it goes on", timeout)

    def kill(self) -> None:
        pass


def _given(lines: Iterable[str | SandboxUnavailableError]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, SandboxUnavailableError):
            raise line
        yield line


def desk_with(process: Process) -> Desk:
    desk = Desk(LocalSandbox())
    desk.processes.start("command", lambda: process)
    return desk


def test_output_that_breaks_off_says_why() -> None:
    gone = SandboxUnavailableError("the engine is gone")
    read = READ_OUTPUT.run(desk_with(Staged(gone, "one\n", gone)), process_id=1, wait=1)
    assert read == "process 1: ended, its exit code is not known\none\n(no more output: the engine is gone)"


def test_a_process_that_does_not_end_was_told_to() -> None:
    assert KILL_PROCESS.run(desk_with(Staged(None)), process_id=1) == "Process 1 was told to end."


def test_what_is_being_started_takes_room_until_it_fails() -> None:
    processes = Processes()

    def start(others: int) -> Process:
        if others:
            processes.start("command", lambda: start(others - 1))
        return Staged(None)

    with pytest.raises(LimitExceededError):
        processes.start("command", lambda: start(16))
    assert processes.start("command", lambda: start(15)).number == 16


def test_the_oldest_that_have_ended_are_forgotten() -> None:
    processes = Processes()
    processes.start("first", lambda: Staged(None))
    for _ in range(100):
        processes.start("other", lambda: Staged(0))
    numbers = [each.number for each in processes.all()]
    assert numbers == [1, *range(39, 102)]


def test_the_oldest_contents_are_forgotten() -> None:
    seen = Seen()
    for number in range(10_001):
        seen.note(f"/{number}", b"")
    assert not seen.knows("/0")
    assert seen.is_current("/10000", b"")
