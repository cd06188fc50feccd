"""A service that is killed or frozen in the middle of something."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from engine.daemon import Engine, Unavailable

from sandbox_kit.backends.remote import RemoteSandbox, commands, session
from sandbox_kit.errors import SandboxError, SandboxTimeoutError, SandboxUnavailableError

from .service import Service, running

SOON = 60.0


@pytest.fixture
def own(engine: Engine, busybox_image: str, tmp_path: Path, lacking: Callable[[str], NoReturn]) -> Iterator[Service]:
    """A service for this test alone."""
    try:
        with running(engine, tmp_path, {"busybox": busybox_image}) as started:
            yield started
    except Unavailable as reason:
        lacking(str(reason))


@pytest.fixture
def box(own: Service) -> RemoteSandbox:
    """A sandbox that waits but shortly for the service."""
    return RemoteSandbox(own.url, token=own.token, session_id="one", answer_timeout=2, file_timeout=2).start()


class Beside:
    """A call in another thread, and what came of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error

    def end(self) -> BaseException | None:
        self._thread.join(SOON)
        assert not self._thread.is_alive()
        return self.error


def wait_for(path: Path) -> None:
    until = time.monotonic() + SOON
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


class Slow:
    """A file whose second half does not come before somebody lets it."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.goes_on = threading.Event()
        self._left = [b"1" * 2**24, b"2" * 2**24, b"3" * 2**24]

    def read(self, _size: int = -1) -> bytes:
        if len(self._left) == 1:
            self.asked.set()
            assert self.goes_on.wait(SOON)
        return self._left.pop(0) if self._left else b""


def test_a_command_whose_service_is_killed_is_lost_and_not_repeated(own: Service, box: RemoteSandbox) -> None:
    begun = own.workspaces / "one/workspace/begun"
    command = Beside(lambda: box.execute("echo x >> begun; sleep 20; echo y >> begun"))
    wait_for(begun)
    own.signal(signal.SIGKILL)
    assert isinstance(command.end(), SandboxUnavailableError)
    assert begun.read_text() == "x\n"
    assert not box.is_alive()
    with pytest.raises(SandboxUnavailableError):
        box.read("begun")
    with pytest.raises(SandboxUnavailableError):
        box.stop()


def test_a_command_whose_service_is_frozen_ends_at_its_limit_and_the_next_one_runs(
    own: Service, box: RemoteSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_ENDED_WITHIN", 1)
    command = Beside(lambda: box.execute("touch begun; sleep 60", timeout=1))
    wait_for(own.workspaces / "one/workspace/begun")
    own.signal(signal.SIGSTOP)
    try:
        with pytest.raises(SandboxTimeoutError):
            box.read("begun")
        assert not box.is_alive()
        assert isinstance(command.end(), SandboxTimeoutError)
    finally:
        own.signal(signal.SIGCONT)
    assert box.execute("echo again").stdout == "again\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_an_upload_that_is_cut_short_leaves_the_file_as_it_was(
    own: Service, box: RemoteSandbox, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_SLOWEST", 2**22)
    box.write("f", "old")
    box.file_timeout, slow = 10, Slow()
    upload = Beside(lambda: box.write("f", slow))  # type: ignore[arg-type]
    assert slow.asked.wait(SOON)
    own.signal(number)
    slow.goes_on.set()
    assert isinstance(upload.end(), SandboxError)
    assert (own.workspaces / "one/workspace/f").read_text() == "old"
