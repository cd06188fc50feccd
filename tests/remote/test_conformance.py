"""Those parts of the conformance suite over the real service that one-shot shells of this machine cannot stand for.

All tests of one runtime share a session, and find its workspace empty.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox_kit.backends.remote import RemoteSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.testing.cancelling import CancelConformance
from sandbox_kit.testing.commands import CommandConformance, OutputConformance, SandboxTests
from sandbox_kit.testing.life import LifeConformance
from sandbox_kit.testing.processes import BEAT, ProcessConformance, TimeLimitConformance, beats
from sandbox_kit.testing.reading import ReadingConformance
from sandbox_kit.testing.writing import WritingConformance

from .service import Service

EMPTY = "find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +"


def wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)


class RemoteConformance(SandboxTests):
    """A session that lasts, and whose workspace each test finds empty."""

    runtime = "busybox"
    hang_guard = 10.0

    @pytest.fixture(autouse=True)
    def _at(self, service: Service) -> Iterator[None]:
        self.service = service
        self.made: list[RemoteSandbox] = []
        yield
        for each in self.made:
            each.stop(purge=True)

    @pytest.fixture
    def backend(self, make_box: Callable[[str], RemoteSandbox]) -> Sandbox:
        session = make_box(self.runtime)
        session.max_read_bytes = self.max_read_bytes
        session.execute(EMPTY, check=True)
        return self.wrap(session)

    def make_backend(self, tmp_path: Path) -> Sandbox:
        self.made.append(RemoteSandbox(self.service.url, token=self.service.token, runtime=self.runtime))
        return self.wrap(self.made[-1])

    def wrap(self, made: Sandbox) -> Sandbox:
        return made


class TestCommands(
    CommandConformance,
    OutputConformance,
    TimeLimitConformance,
    ProcessConformance,
    CancelConformance,
    LifeConformance,
    RemoteConformance,
):
    """Commands and a life, on busybox; who listens hears of a command when it has ended."""

    def test_what_a_listener_raises_passes_through(self, sandbox: Sandbox) -> None:
        def stop(stream: str, text: str) -> None:
            raise KeyError(text)

        with pytest.raises(KeyError):
            sandbox.execute("echo x", on_output=stop)
        assert sandbox.execute("echo again").stdout == "again\n"

    def test_an_interrupt_ends_the_command_and_leaves_the_sandbox(self, sandbox: Sandbox) -> None:
        def interrupt() -> None:
            wait_for(lambda: sandbox.exists("beat"))
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            sandbox.execute(f"(setsid sh -c '{BEAT}' &); sleep 60", timeout=self.hang_guard)
        thread.join()
        assert not beats(sandbox)


class TestGuardedFiles(ReadingConformance, WritingConformance, RemoteConformance):
    """Files, on Debian, under rules that allow everything."""

    runtime = "debian"

    def wrap(self, made: Sandbox) -> Sandbox:
        return guarding(made, PermissionRuleset("allow"))
