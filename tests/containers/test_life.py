"""Starting, finding again, stopping: nothing is lost, and nothing is left."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathAccessError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.types import Limits

QUICK = 1.0
"""Seconds that a stop may take."""


@pytest.fixture
def identity() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def made(engine: Engine, busybox_image: str) -> Iterator[Callable[..., DockerSandbox]]:
    """Makes sandboxes that are purged in the end, each with its container and volume."""
    sandboxes: list[DockerSandbox] = []

    def make(image: str = busybox_image, **options: object) -> DockerSandbox:
        sandboxes.append(DockerSandbox(image, **options))  # type: ignore[arg-type]
        return sandboxes[-1]

    yield make
    for sandbox in sandboxes:
        sandbox.stop(purge=True)


def containers(engine: Engine, name: str) -> list[str]:
    """The names of all containers, running or not, that begin with *name*."""
    found = engine.client().containers(all=True)
    return sorted(each["Names"][0][1:] for each in found if each["Names"][0][1:].startswith(name))


def volumes(engine: Engine, name: str) -> list[str]:
    found = engine.client().volumes()["Volumes"] or []
    return sorted(each["Name"] for each in found if each["Name"].startswith(name))


def test_a_stop_keeps_the_files_and_leaves_no_container(
    engine: Engine, made: Callable[..., DockerSandbox], identity: str
) -> None:
    sandbox = made(sandbox_id=identity)
    with sandbox:
        sandbox.execute("echo kept >file", check=True)
    assert containers(engine, sandbox.name) == []
    with sandbox:
        assert sandbox.execute("cat file").stdout == "kept\n"
    sandbox.stop(purge=True)
    assert volumes(engine, sandbox.name) == []


def test_one_given_neither_id_nor_workspace_leaves_nothing(engine: Engine, busybox_image: str) -> None:
    with DockerSandbox(busybox_image) as sandbox:
        sandbox.execute("echo x >file", check=True)
        assert containers(engine, sandbox.name)
        assert volumes(engine, sandbox.name)
    assert containers(engine, sandbox.name) == []
    assert volumes(engine, sandbox.name) == []


def test_one_that_is_dropped_leaves_nothing(engine: Engine, busybox_image: str) -> None:
    sandbox = DockerSandbox(busybox_image).start()
    name = sandbox.name
    del sandbox
    assert containers(engine, name) == []
    assert volumes(engine, name) == []


def test_a_process_that_exits_leaves_nothing(engine: Engine, busybox_image: str) -> None:
    script = (
        "from sandbox_kit.backends.docker import DockerSandbox\n"
        f"sandbox = DockerSandbox({busybox_image!r}).start()\n"
        "print(sandbox.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert containers(engine, done.stdout.strip()) == []


def test_a_forked_child_stops_nothing(made: Callable[..., DockerSandbox]) -> None:
    import os

    sandbox = made().start()
    child = os.fork()
    if not child:
        os._exit(0 if sandbox is not None else 1)
    os.waitpid(child, 0)
    assert sandbox.execute("echo alive").stdout == "alive\n"


def test_stopping_is_quick_though_commands_run(made: Callable[..., DockerSandbox]) -> None:
    sandbox = made().start()
    sandbox.spawn("trap '' TERM; sleep 1000")
    began = time.monotonic()
    sandbox.stop()
    assert time.monotonic() - began < 10 * QUICK


def test_stopping_what_another_removed_is_fine(engine: Engine, made: Callable[..., DockerSandbox]) -> None:
    sandbox = made().start()
    engine.client().remove_container(sandbox.name, force=True)
    assert not sandbox.is_alive()
    with pytest.raises(SandboxUnavailableError):
        sandbox.execute("true")
    sandbox.stop(purge=True)
    sandbox.stop()


def test_a_sibling_whose_name_begins_alike_is_left_alone(made: Callable[..., DockerSandbox], identity: str) -> None:
    sibling = made(sandbox_id=identity + "2").start()
    sandbox = made(sandbox_id=identity)
    with sandbox:
        pass
    sandbox.stop(purge=True)
    assert sibling.execute("echo here").stdout == "here\n"


def test_another_handle_finds_what_runs(made: Callable[..., DockerSandbox], identity: str) -> None:
    first = made(sandbox_id=identity).start()
    first.execute("echo x >file; echo y >/tmp/beside", check=True)
    second = pickle.loads(pickle.dumps(first)).start()
    assert second.execute("cat file /tmp/beside").stdout == "x\ny\n"


def test_another_process_finds_what_runs(made: Callable[..., DockerSandbox], identity: str) -> None:
    first = made(sandbox_id=identity).start()
    first.execute("echo x >/tmp/beside", check=True)
    script = (
        "import pickle, sys\n"
        "sandbox = pickle.loads(sys.stdin.buffer.read()).start()\n"
        "print(sandbox.execute('cat /tmp/beside').stdout)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(first), capture_output=True, timeout=60, check=True
    )
    assert done.stdout.split() == [b"x"]
    assert first.is_alive()


def test_another_configuration_is_a_conflict(made: Callable[..., DockerSandbox], identity: str) -> None:
    made(sandbox_id=identity).start()
    for other in ({"network": "bridge"}, {"user": "1000"}, {"read_only": True}, {"limits": Limits(pids_limit=10)}):
        with pytest.raises(SandboxConflictError, match=identity):
            made(sandbox_id=identity, **other).start()


def test_a_strangers_container_is_neither_used_nor_removed(
    engine: Engine, made: Callable[..., DockerSandbox], busybox_image: str, identity: str
) -> None:
    sandbox = made(sandbox_id=identity)
    stranger = engine.client().create_container(busybox_image, ["sleep", "60"], name=sandbox.name)
    try:
        with pytest.raises(SandboxConflictError, match=sandbox.name):
            sandbox.start()
        sandbox.stop(purge=True)
        assert containers(engine, sandbox.name) == [sandbox.name]
    finally:
        engine.client().remove_container(stranger, force=True)


def test_persist_keeps_what_was_installed_until_a_purge(
    engine: Engine, made: Callable[..., DockerSandbox], identity: str
) -> None:
    sandbox = made(sandbox_id=identity, persist=True)
    with sandbox:
        sandbox.execute("echo installed >/usr-local-thing", check=True)
    assert containers(engine, sandbox.name) == [sandbox.name]
    with sandbox:
        assert sandbox.execute("cat /usr-local-thing").stdout == "installed\n"
    sandbox.stop(purge=True)
    assert containers(engine, sandbox.name) == []


def test_remove_is_taken_for_purge_with_a_warning(
    engine: Engine, made: Callable[..., DockerSandbox], identity: str
) -> None:
    sandbox = made(sandbox_id=identity).start()
    with pytest.warns(DeprecationWarning, match="purge"):
        sandbox.stop(remove=True)
    assert volumes(engine, sandbox.name) == []


def test_a_directory_that_the_caller_named_survives_a_purge(made: Callable[..., DockerSandbox], tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    sandbox = made(workspace=tmp_path)
    with sandbox:
        sandbox.execute("echo x >file", check=True)
    sandbox.stop(purge=True)
    assert (tmp_path / "file").read_text() == "x\n"


def test_a_volume_that_the_caller_named_survives_a_purge(
    engine: Engine, made: Callable[..., DockerSandbox], identity: str
) -> None:
    sandbox = made(workspace=identity)
    with sandbox:
        sandbox.execute("echo x >file", check=True)
    sandbox.stop(purge=True)
    assert volumes(engine, identity) == [identity]
    engine.client().remove_volume(identity)


def test_use_after_a_stop_says_how_to_start(made: Callable[..., DockerSandbox]) -> None:
    sandbox = made().start()
    sandbox.stop()
    with pytest.raises(SandboxClosedError, match="start"):
        sandbox.execute("true")


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"network": "no-such-network"}, SandboxUnavailableError, "no-such-network"),
        ({"oci_runtime": "no-such-runtime"}, InvalidArgumentError, "no-such-runtime"),
        ({"user": "nobody-here"}, InvalidArgumentError, "nobody-here"),
        ({"limits": Limits(mem_limit=1000)}, InvalidArgumentError, "emory"),
        ({"image": "sandbox-kit-test/no-such-image"}, SandboxUnavailableError, "docker pull"),
    ],
    ids=["network", "runtime", "user", "memory", "image"],
)
def test_what_the_engine_refuses_is_told_and_nothing_is_left(
    engine: Engine,
    made: Callable[..., DockerSandbox],
    identity: str,
    options: dict[str, object],
    error: type[Exception],
    told: str,
) -> None:
    sandbox = made(sandbox_id=identity, **options)
    with pytest.raises(error, match=told):
        sandbox.start()
    assert containers(engine, sandbox.name) == []
    assert volumes(engine, sandbox.name) == []


def test_an_image_without_a_shell_is_refused(
    engine: Engine, made: Callable[..., DockerSandbox], shellless_image: str, identity: str
) -> None:
    sandbox = made(image=shellless_image, sandbox_id=identity)
    with pytest.raises(UnsupportedError, match="/bin/sh"):
        sandbox.start()
    assert containers(engine, sandbox.name) == []


def test_a_workspace_that_commands_cannot_write_to_is_told_at_the_start(
    engine: Engine, made: Callable[..., DockerSandbox], tmp_path: Path, identity: str
) -> None:
    tmp_path.chmod(0o755)
    sandbox = made(workspace=tmp_path, sandbox_id=identity, user="1000")
    with pytest.raises(PathAccessError, match="1000"):
        sandbox.start()
    assert containers(engine, sandbox.name) == []


def test_without_an_engine_the_error_says_where_one_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
    with pytest.raises(SandboxUnavailableError, match="engine"):
        DockerSandbox("busybox").start()


@pytest.mark.parametrize("identity", ["", ".x", "a b", "a/b", "x" * 65, "é"])
def test_an_id_that_no_container_could_have_is_refused(identity: str) -> None:
    with pytest.raises(InvalidArgumentError, match="sandbox_id"):
        DockerSandbox("busybox", sandbox_id=identity)


@pytest.mark.parametrize("work_dir", ["relative", "/", "/proc", "/a/../b", "/dev"])
def test_a_work_directory_that_cannot_be_mounted_is_refused(work_dir: str) -> None:
    with pytest.raises(InvalidArgumentError, match="work_dir"):
        DockerSandbox("busybox", work_dir=work_dir)
