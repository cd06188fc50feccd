"""The engine and the images that other tests stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .daemon import Engine
from .images import ensure_image
from .leftovers import PRODUCT_LABEL, belongings, leftovers, remove, tidy
from .supervisor import answering

HOLD = """
import sys
from pathlib import Path
from engine.daemon import private_engine
with private_engine(Path(sys.argv[1])) as engine:
    print(engine.host, engine.pid, flush=True)
    sys.stdin.read()
"""
END_SECONDS = 30


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A directory of which nobody holds an engine."""
    directory = tmp_path / "empty"
    directory.mkdir()
    return directory


def output_of(engine: Engine, image: str, *command: str, user: str = "") -> str:
    """Run *command* in a container of *image*; return all that it wrote."""
    client = engine.client()
    container = client.create_container(image, list(command), user=user, network_disabled=True)
    try:
        client.start(container)
        client.wait(container)
        return str(client.logs(container), "utf-8")
    finally:
        client.remove_container(container, force=True)


def create(engine: Engine, image: str, name: str, labels: dict[str, str]) -> None:
    engine.client().create_container(image, ["true"], name=name, labels=labels)
    engine.client().create_volume(name, labels=labels)


def holder(directory: Path) -> subprocess.Popen[str]:
    """Start a process that holds the engine of *directory* until its input ends."""
    command = [sys.executable, "-c", HOLD, str(directory)]
    tests = str(Path(__file__).parents[1])
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=tests, stdin=pipe, stdout=pipe, text=True)


def said(process: subprocess.Popen[str]) -> Engine:
    """Return the engine that *process* holds."""
    assert process.stdout is not None
    host, pid = process.stdout.readline().split()
    return Engine(host, int(pid))


def socket_of(engine: Engine) -> Path:
    return Path(engine.host.removeprefix("unix://"))


def answers(engine: Engine) -> bool:
    return answering(socket_of(engine), timeout=10) == engine.pid


def running(engine: Engine) -> bool:
    return os.path.exists(f"/proc/{engine.pid}")


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + END_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_each_image_runs_a_command(engine: Engine, image: str) -> None:
    assert output_of(engine, image, "sh", "-c", "echo $((1 + 1)); id -u", user="1000") == "2\n1000\n"


def test_busybox_has_its_applets_and_a_user(engine: Engine, busybox_image: str) -> None:
    script = "id -un; stat -c %a /tmp; grep -c . /etc/group"
    assert output_of(engine, busybox_image, "sh", "-c", script, user="1000") == "user\n1777\n2\n"


def test_debian_has_gnu_tools_dash_and_python(engine: Engine, debian_image: str) -> None:
    script = "readlink /bin/sh; grep --version | head -n 1; ps --version; python3 -c 'print(1 + 1)'"
    shell, grep, ps, python = output_of(engine, debian_image, "sh", "-c", script).splitlines()
    assert (shell, python) == ("dash", "2")
    assert "GNU grep" in grep
    assert "procps" in ps


def test_scratchless_has_a_program_and_no_shell(engine: Engine, shellless_image: str) -> None:
    assert output_of(engine, shellless_image, "/bin/echo", "hi") == "hi\n"
    with pytest.raises(Exception, match="executable file not found"):
        output_of(engine, shellless_image, "sh", "-c", "echo hi")


def test_an_image_is_imported_once(engine: Engine, busybox_image: str) -> None:
    before = engine.client().images(busybox_image, quiet=True)
    assert ensure_image(engine, "busybox") == busybox_image
    assert engine.client().images(busybox_image, quiet=True) == before != []


def test_leftovers_are_the_new_ones_with_the_label(engine: Engine, busybox_image: str) -> None:
    label = f"{PRODUCT_LABEL}-leftovers-{os.getpid()}"
    create(engine, busybox_image, f"{label}-old", {f"{label}.id": "1"})
    before = belongings(engine, label)
    create(engine, busybox_image, f"{label}-new", {label: "2"})
    create(engine, busybox_image, f"{label}-other", {f"{label}s": "3"})
    try:
        assert len(before) == 2
        assert leftovers(engine, before, label) == [("container", f"{label}-new"), ("volume", f"{label}-new")]
    finally:
        names = [f"{label}-{each}" for each in ("old", "new", "other")]
        remove(engine, [(kind, name) for kind in ("container", "volume") for name in names])
    assert belongings(engine, label) == frozenset()


def test_a_test_that_leaves_something_fails_and_it_is_removed(engine: Engine, busybox_image: str) -> None:
    given: dict[str, str] = {}
    with pytest.raises(AssertionError, match="left behind"), tidy(engine) as labels:  # noqa: PT012
        given.update(labels)
        create(engine, busybox_image, f"left-{os.getpid()}", labels)
    assert belongings(engine, *given.popitem()) == frozenset()


def test_a_test_that_leaves_nothing_is_tidy(engine: Engine, busybox_image: str, tidy_engine: dict[str, str]) -> None:
    create(engine, busybox_image, f"tidy-{os.getpid()}", tidy_engine)
    (label,) = tidy_engine.items()
    remove(engine, belongings(engine, *label))


def test_processes_that_name_one_directory_share_its_engine(own_engine: Engine, tmp_path: Path) -> None:
    with holder(tmp_path) as first, holder(tmp_path) as second:
        assert said(first) == said(second) == own_engine


@pytest.mark.usefixtures("own_engine")
def test_an_engine_serves_until_its_last_holder_is_killed_and_leaves_nothing(empty: Path) -> None:
    with holder(empty) as first, holder(empty) as second:
        engine = said(first)
        assert said(second) == engine
        first.kill()
        first.wait()
        assert answers(engine)
        second.kill()
    assert eventually(lambda: not running(engine) and not socket_of(engine).parent.exists())


@pytest.mark.usefixtures("own_engine")
def test_a_frozen_engine_ends_with_its_holder(empty: Path) -> None:
    with holder(empty) as process:
        engine = said(process)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGSTOP)
    assert eventually(lambda: not running(engine) and not socket_of(engine).parent.exists())
