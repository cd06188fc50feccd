"""Engines and containers that end, stop or freeze in mid-command; handles in other processes; nothing is leaked."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import pytest
from engine.daemon import Engine
from engine.images import ensure_image

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.backends.docker import engine as docker_engine
from sandbox_kit.backends.docker.dialing import Wire
from sandbox_kit.errors import CommandTimeoutError, SandboxError, SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.types import Limits

from .channels import GUARD, MakeBox, boxes, works

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""docker-py leaves the sockets open with which it did not reach an engine."""


@pytest.fixture
def make_own_box(own_engine: Engine) -> Iterator[MakeBox]:
    """Starts sandboxes on an engine that the test may freeze or kill."""
    ensure_image(own_engine, "busybox")
    with boxes(own_engine) as make:
        yield make


def in_mid_command(box: DockerSandbox, act: Callable[[], object], **settings: object) -> float:
    """Act while a command runs, which must end with a typed error; return how many seconds later it did."""
    began: list[float] = []

    def begin(_stream: str, _text: str) -> None:
        began.append(time.monotonic())
        threading.Thread(target=act).start()

    with pytest.raises(SandboxError) as caught:
        box.execute("echo on; sleep 1000", on_output=begin, **settings)  # type: ignore[arg-type]
    assert isinstance(caught.value, SandboxUnavailableError | SandboxTimeoutError)
    return time.monotonic() - began[0]


@pytest.mark.parametrize("stdin", [None, b"x"])
def test_a_container_that_is_killed_ends_the_command(
    engine: Engine, busybox_image: str, make_box: MakeBox, stdin: bytes | None
) -> None:
    box = make_box(busybox_image)
    with closing(engine.client()) as client:
        assert in_mid_command(box, lambda: client.kill(box.name), stdin=stdin) < GUARD
    with pytest.raises(SandboxUnavailableError):
        box.execute("echo on")
    assert not box.is_alive()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("timeout", "within"), [(1.0, 20.0), (None, 40.0)])
def test_a_container_that_is_paused_ends_the_command_and_goes_on_later(
    engine: Engine, busybox_image: str, make_box: MakeBox, timeout: float | None, within: float
) -> None:
    box = make_box(busybox_image)
    with closing(engine.client()) as client:
        try:
            assert in_mid_command(box, lambda: client.pause(box.name), timeout=timeout) < within
        finally:
            client.unpause(box.name)
    assert box.execute("pgrep sleep 1000 || echo none", timeout=GUARD).stdout == "none\n"
    works(box)


def test_memory_that_runs_out_is_told(image: str, make_box: MakeBox) -> None:
    box = make_box(image, limits=Limits(mem_limit="32m"))
    line = "x=$(yes 0123456789012345678901234567890 | head -c 200000000); echo never"
    for _ in range(2):
        with suppress(SandboxUnavailableError):
            result = box.execute(line, timeout=GUARD)
            assert (result.stdout, result.exit_code in (1, 2, 137)) == ("", True)
    if box.is_alive():
        works(box)


@pytest.mark.usefixtures("impatient")
def test_an_engine_that_freezes_ends_the_command(own_engine: Engine, make_own_box: MakeBox) -> None:
    box = make_own_box("sandbox-kit-test/busybox")
    pid = own_engine.pid
    assert pid is not None
    try:
        assert in_mid_command(box, lambda: os.kill(pid, signal.SIGSTOP), timeout=1.0) < 30
    finally:
        os.kill(pid, signal.SIGCONT)
    works(box)
    try:
        assert in_mid_command(box, lambda: os.kill(pid, signal.SIGSTOP)) < 30
    finally:
        os.kill(pid, signal.SIGCONT)
    works(box)


def test_a_command_that_ends_right_after_its_time_limit_costs_nothing(
    image: str, make_box: MakeBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_late(*arguments: Any, **options: Any) -> tuple[str, Wire]:
        opened = exec_stream(*arguments, **options)
        time.sleep(0.5)  # the shell that was given up sweeps meanwhile
        monkeypatch.setattr(docker_engine.Engine, "exec_stream", exec_stream)
        return opened

    box = make_box(image)
    works(box)
    exec_stream = docker_engine.Engine.exec_stream
    monkeypatch.setattr(docker_engine.Engine, "exec_stream", open_late)
    with pytest.raises(CommandTimeoutError):
        box.execute("sleep 0.5", timeout=0.2)
    assert box.is_alive()
    works(box)


@pytest.mark.parametrize("stdin", [None, b"x"], ids=["shell", "engine"])
def test_a_frozen_engine_does_not_keep_a_command_from_its_time_limit(
    own_engine: Engine, make_own_box: MakeBox, stdin: bytes | None
) -> None:
    box = make_own_box("sandbox-kit-test/busybox")
    pid = own_engine.pid
    assert pid is not None
    try:
        assert in_mid_command(box, lambda: os.kill(pid, signal.SIGSTOP), timeout=1.0, stdin=stdin) < 20
    finally:
        os.kill(pid, signal.SIGCONT)
    works(box)


def test_an_engine_that_is_gone_ends_the_command(own_engine: Engine, busybox_image: str) -> None:
    ensure_image(own_engine, "busybox")
    pid = own_engine.pid
    assert pid is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", own_engine.host)
        box = DockerSandbox(busybox_image).start()
        assert in_mid_command(box, lambda: os.kill(pid, signal.SIGKILL)) < 30
        with pytest.raises(SandboxUnavailableError):
            box.execute("echo on")
        with pytest.raises(SandboxUnavailableError):
            box.stop()


def held() -> tuple[int, int]:
    """How many descriptors and threads this process has."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def settled(before: tuple[int, int]) -> tuple[int, int]:
    """What is held, when it is as *before* or some time has passed."""
    until = time.monotonic() + 10
    while held() != before and time.monotonic() < until:
        time.sleep(0.1)
    return held()


def test_nothing_is_leaked_by_commands_and_sandboxes(busybox_image: str, make_box: MakeBox) -> None:
    box = make_box(busybox_image)

    def use(commands: int) -> None:
        for _ in range(commands):
            box.execute("sleep 100 & true", timeout=GUARD)
        for _ in range(4):
            box.execute("cat", stdin=b"x")
            with box.spawn("echo on", stdin=subprocess.PIPE) as process:
                process.wait(GUARD)
            with pytest.raises(SandboxUnavailableError):
                box.execute("kill -9 $PPID")
            with DockerSandbox(busybox_image) as other:
                other.write("file", "x")

    for _ in range(3):  # docker-py keeps up to 25 idle connections, one for each address that it has asked for
        use(1)
    before = held()
    use(300)
    assert settled(before) == before


MANY = 40


def test_many_sandboxes_leave_nothing(tidy_engine: dict[str, str], busybox_image: str) -> None:
    def use(_: int) -> None:
        with DockerSandbox(busybox_image, labels=tidy_engine) as box:
            for _ in range(6):
                box.execute("sleep 100 & true", timeout=GUARD)

    def use_all(count: int) -> None:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(use, range(count)))

    use_all(10)  # docker-py's idle connections; see above
    before = held()
    use_all(MANY)
    after = settled(before)
    assert all(now - then < MANY - 10 for then, now in zip(before, after, strict=True)), (before, after)


def test_a_forked_child_leaves_the_sandbox_to_its_parent(busybox_image: str, make_box: MakeBox) -> None:
    box = make_box(busybox_image)
    works(box)
    begun, over = threading.Event(), threading.Event()

    def run() -> None:
        result = box.execute("echo on; sleep 1; echo off", on_output=lambda *_: begun.set(), timeout=GUARD)
        assert result.stdout == "on\noff\n"
        over.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(GUARD)
    child = os.fork()
    if child == 0:
        os._exit(_in_child(box))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    thread.join(GUARD)
    assert over.is_set()
    works(box)


def _in_child(box: DockerSandbox) -> int:
    """Try everything there is; return how much of it was not refused."""
    calls: list[Callable[[], object]] = [
        lambda: box.execute("echo on"),
        lambda: box.execute("echo on", stdin=b"x"),
        lambda: box.execute("echo on", user="root"),
        lambda: box.spawn("echo on"),
        lambda: box.read("file"),
        lambda: box.usage(),
    ]
    allowed = int(box.is_alive())
    for call in calls:
        try:
            call()
        except SandboxUnavailableError:
            continue
        except BaseException:
            allowed += 10
        allowed += 1
    return allowed


REATTACH = """
import pickle, sys
with pickle.load(sys.stdin.buffer) as box:
    print(box.execute("cat file; echo $PPID").stdout)
"""


def test_a_pickled_handle_finds_the_sandbox_from_another_process(busybox_image: str, make_box: MakeBox) -> None:
    box = make_box(busybox_image, sandbox_id=f"pickled-{os.getpid()}", persist=True)
    box.write("file", "mine")
    command = [sys.executable, "-c", REATTACH]
    done = subprocess.run(command, input=pickle.dumps(box), capture_output=True, check=True, timeout=GUARD)
    assert done.stdout.startswith(b"mine")
