"""A command that another thread cancels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from sandbox_kit.cancelling import Cancellation, Cancelled, cancellable
from sandbox_kit.contract import Sandbox
from sandbox_kit.testing.commands import SandboxTests
from sandbox_kit.testing.processes import BEAT, EVERY_ESCAPE, beats

__all__ = ["CancelConformance"]


class CancelConformance(SandboxTests):
    """What ``Command.cancellation`` asks of a sandbox."""

    def _await(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + self.hang_guard
        while not holds() and time.monotonic() < until:
            time.sleep(0.02)

    def _cancelled(
        self, sandbox: Sandbox, command: str, *, stdin: str | None = None, once: Callable[[], bool]
    ) -> list[BaseException]:
        """Execute *command* in another thread, cancel it *once* that holds; return what came of it."""
        outcome: list[BaseException] = []
        begun: list[Cancellation] = []

        def execute() -> None:
            with cancellable() as cancellation:
                begun.append(cancellation)
                try:
                    sandbox.execute(command, stdin=stdin)
                except BaseException as error:
                    outcome.append(error)

        thread = threading.Thread(target=execute)
        thread.start()
        self._await(lambda: bool(begun) and once())
        begun[0].cancel()
        thread.join(self.hang_guard)
        assert not thread.is_alive()
        return outcome

    @EVERY_ESCAPE
    def test_a_cancelled_command_is_dead_with_its_whole_tree(self, sandbox: Sandbox, escape: str) -> None:
        (error,) = self._cancelled(sandbox, f"{escape} {BEAT}", once=lambda: sandbox.exists("beat"))
        assert isinstance(error, Cancelled)
        assert not beats(sandbox)

    def test_so_is_one_that_reads(self, sandbox: Sandbox) -> None:
        (error,) = self._cancelled(sandbox, f"cat; {BEAT}", stdin="text", once=lambda: sandbox.exists("beat"))
        assert isinstance(error, Cancelled)
        assert not beats(sandbox)

    def test_after_it_the_sandbox_is_as_before(self, sandbox: Sandbox) -> None:
        sandbox.write("kept", "text")
        self._cancelled(sandbox, "touch begun; sleep 60", once=lambda: sandbox.exists("begun"))
        assert sandbox.execute("cat kept", timeout=self.hang_guard).stdout == "text"

    def test_what_was_cancelled_before_does_not_go_on(self, sandbox: Sandbox) -> None:
        with cancellable() as cancellation:
            cancellation.cancel()
            with pytest.raises(Cancelled):
                sandbox.execute("sleep 60; touch ran")
        assert not sandbox.exists("ran")

    def test_one_that_others_hold_up_is_cancelled_as_well(self, sandbox: Sandbox) -> None:
        first = threading.Thread(target=sandbox.execute, args=("touch first; while [ -e first ]; do sleep 0.05; done",))
        first.start()
        self._await(lambda: sandbox.exists("first"))
        (error,) = self._cancelled(sandbox, "sleep 60", once=lambda: True)
        sandbox.remove("first")
        first.join(self.hang_guard)
        assert isinstance(error, Cancelled)
        assert not first.is_alive()
