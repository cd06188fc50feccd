"""Starting, finding again, stopping: nothing is lost, and nothing is left."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from engine.daemon import Engine

from sandbox_kit import SECRETS, Runtime, guarding
from sandbox_kit.backends.docker import DockerSandbox, container, leases, ownership
from sandbox_kit.backends.docker.terms import Terms, Workspace, digest_rules
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathAccessError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.types import Limits

QUICK = 1.0
"""Seconds that a stop may take."""

LEASE_ENDS_WITHIN = 60.0
HANGS_AFTER = 30.0


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


def leave(sandbox: DockerSandbox) -> None:
    with sandbox:
        pass


@pytest.mark.parametrize(
    "end", [lambda _: None, lambda sandbox: sandbox.stop(purge=True), leave], ids=["exit", "stop", "with"]
)
def test_a_forked_child_stops_nothing(made: Callable[..., DockerSandbox], end: Callable[[DockerSandbox], None]) -> None:
    sandbox = made().start()
    child = os.fork()
    if not child:
        code = 1
        try:
            end(sandbox)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert sandbox.execute("echo alive").stdout == "alive\n"


def test_a_copy_of_a_temporary_sandbox_discards_no_files(made: Callable[..., DockerSandbox]) -> None:
    sandbox = made().start()
    sandbox.execute("echo kept >file", check=True)
    with pickle.loads(pickle.dumps(sandbox)) as copy:
        assert copy.execute("cat file").stdout == "kept\n"
    sandbox.stop()
    assert sandbox.start().execute("cat file").stdout == "kept\n"


def test_a_stop_asks_the_engine_that_runs_the_sandbox(
    engine: Engine, made: Callable[..., DockerSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = made().start()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
        sandbox.stop(purge=True)
    assert containers(engine, sandbox.name) == []
    assert volumes(engine, sandbox.name) == []


def test_a_stop_that_failed_can_be_repeated_or_left_to_the_end(
    engine: Engine, busybox_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SandboxUnavailableError("no engine")

    first, second = DockerSandbox(busybox_image).start(), DockerSandbox(busybox_image).start()
    names = first.name, second.name
    with monkeypatch.context() as broken:
        broken.setattr(container, "end", fail)
        for sandbox in (first, second):
            with pytest.raises(SandboxUnavailableError, match="no engine"):
                sandbox.stop(purge=True)
            with pytest.raises(SandboxClosedError):
                sandbox.execute("true")
    first.stop(purge=True)
    del second, sandbox
    assert [containers(engine, name) + volumes(engine, name) for name in names] == [[], []]


def test_handles_that_start_at_once_share_one_sandbox(made: Callable[..., DockerSandbox], identity: str) -> None:
    handles = [made(sandbox_id=identity) for _ in range(4)]
    with ThreadPoolExecutor(len(handles)) as pool:
        started = list(pool.map(DockerSandbox.start, handles))
    started[0].execute("echo x >/tmp/beside", check=True)
    assert [each.execute("cat /tmp/beside").stdout for each in started] == ["x\n"] * len(handles)


def test_a_start_that_fails_leaves_a_kept_container_stopped(
    engine: Engine, made: Callable[..., DockerSandbox], tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    sandbox = made(workspace=tmp_path, user="1000", persist=True)
    with sandbox:
        pass
    tmp_path.chmod(0o755)
    with pytest.raises(PathAccessError):
        sandbox.start()
    assert not engine.client().inspect_container(sandbox.name)["State"]["Running"]


def test_a_container_ends_when_its_process_was_killed(
    engine: Engine, made: Callable[..., DockerSandbox], busybox_image: str, identity: str
) -> None:
    script = (
        "import os\n"
        "from sandbox_kit.backends.docker import DockerSandbox\n"
        f"sandbox = DockerSandbox({busybox_image!r}, sandbox_id={identity!r}, lease=10).start()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    sandbox = made(sandbox_id=identity)
    assert containers(engine, sandbox.name) == [sandbox.name]
    until = time.monotonic() + LEASE_ENDS_WITHIN
    while containers(engine, sandbox.name) and time.monotonic() < until:
        time.sleep(0.5)
    assert containers(engine, sandbox.name) == []
    assert volumes(engine, sandbox.name) == [sandbox.name]


class Renewed:
    """Something with a lease, of which each renewal does as it is told."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.times = 0
        self.enough = threading.Event()

    def renew(self) -> None:
        self.times += 1
        if self.times == 3:
            self.enough.set()
        self.act()


def test_a_renewal_that_fails_or_hangs_stops_no_other() -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    def hang() -> None:
        let_go.wait()

    let_go = threading.Event()
    hanging, failing = Renewed(hang), Renewed(fail)
    try:
        for each in (hanging, failing):
            leases.keep(each.renew, 0.3)
        assert failing.enough.wait(HANGS_AFTER)
        assert hanging.times == 1
    finally:
        let_go.set()


def test_what_has_no_lease_is_renewed_for_its_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_UNLEASED", 0.3)
    each = Renewed(lambda: None)
    leases.keep(each.renew, None)
    assert each.enough.wait(HANGS_AFTER)


@pytest.mark.parametrize("user", [0, 1000])
def test_the_lease_is_renewed_however_many_commands_end(
    made: Callable[..., DockerSandbox], monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    renewals: list[Callable[[], None]] = []
    monkeypatch.setattr(leases, "keep", lambda renew, _lease: renewals.append(renew))
    sandbox = made(user=user).start()
    enough = threading.Event()

    def execute() -> None:
        while not enough.is_set():
            sandbox.execute("true").check()

    with ThreadPoolExecutor(1) as beside:
        commands = beside.submit(execute)
        try:
            for _ in range(8):
                renewals[0]()
        finally:
            enough.set()
        commands.result(60)


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
    for call in (lambda: sandbox.execute("true"), lambda: sandbox.read("file"), lambda: sandbox.spawn("true")):
        with pytest.raises(SandboxUnavailableError, match=r"gone: stop\(\) and start\(\)"):
            call()
    sandbox.stop()
    assert sandbox.start().execute("echo on").stdout == "on\n"
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


@pytest.mark.parametrize("masked", ["garbage:x", "1", "1:" + "9" * 5000, "1:2,"])
def test_a_strangers_container_is_no_sandbox_whatever_its_labels_say(
    engine: Engine, made: Callable[..., DockerSandbox], busybox_image: str, identity: str, masked: str
) -> None:
    guarded = guarding(made(sandbox_id=identity), SECRETS, commands="confined")
    for told in ({}, {"sandbox-kit.id": identity}):
        labels = {"sandbox-kit.masked": masked, "sandbox-kit.rules": digest_rules([SECRETS]), **told}
        name = f"sandbox-kit-{identity}"
        stranger = engine.client().create_container(busybox_image, ["sleep", "60"], name=name, labels=labels)
        try:
            with pytest.raises(SandboxConflictError, match=identity):
                guarded.start()
        finally:
            engine.client().remove_container(stranger, force=True)


def test_a_strangers_volume_is_neither_used_nor_removed(
    engine: Engine, made: Callable[..., DockerSandbox], identity: str
) -> None:
    sandbox = made(sandbox_id=identity)
    engine.client().create_volume(sandbox.name)
    try:
        with pytest.raises(SandboxConflictError, match=sandbox.name):
            sandbox.start()
        sandbox.stop(purge=True)
        assert volumes(engine, sandbox.name) == [sandbox.name]
    finally:
        engine.client().remove_volume(sandbox.name)


def test_a_stop_leaves_what_has_another_name_whatever_its_labels_say(
    engine: Engine, made: Callable[..., DockerSandbox], busybox_image: str, identity: str
) -> None:
    labels = {"sandbox-kit.id": identity, "sandbox-kit.beside": "yes"}
    stranger = engine.client().create_container(busybox_image, ["true"], name=f"{identity}-other", labels=labels)
    try:
        made(sandbox_id=identity).start().stop(purge=True)
        assert containers(engine, identity) == [f"{identity}-other"]
    finally:
        engine.client().remove_container(stranger, force=True)


def test_one_configuration_told_in_two_ways_is_no_conflict(made: Callable[..., DockerSandbox], identity: str) -> None:
    made(sandbox_id=identity, limits=Limits(cpus=1), env={"A": "1", "B": "2"}).start()
    again = made(sandbox_id=identity, limits=Limits(cpus=1.0), env={"B": "2", "A": "1"})
    assert again.start().execute('echo "$A$B"').stdout == "12\n"


def test_the_order_of_a_runtimes_variables_is_no_other_configuration() -> None:
    workspace = Workspace("volume")
    one, other = (
        Terms(Runtime("base", env=env), "/w", workspace) for env in ({"A": "1", "B": "2"}, {"B": "2", "A": "1"})
    )
    assert one.digest() == other.digest()
    assert one.digest() != Terms(Runtime("base"), "/w", workspace).digest()


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


def test_labels_of_an_image_say_nothing_of_a_container(
    engine: Engine, made: Callable[..., DockerSandbox], identity: str, forged_image: str
) -> None:
    sandbox = made(forged_image, sandbox_id=identity, persist=True)
    with sandbox:
        sandbox.execute("echo installed >/usr-local-thing", check=True)
    assert containers(engine, sandbox.name) == [sandbox.name]
    assert "forged" not in engine.client().inspect_container(sandbox.name)["Config"]["Labels"].values()
    with sandbox:
        assert sandbox.execute("cat /usr-local-thing").stdout == "installed\n"


def test_what_is_not_so_of_a_container_is_said_too() -> None:
    told = ownership.container_labels("x", Terms("image", "/w", Workspace("volume")))
    assert {told[name] for name in (ownership.KEPT, ownership.BESIDE)} == {"no"}
    assert {told[name] for name in (ownership.HELPER, ownership.ROOT, ownership.SESSION, ownership.LIMITS)} == {""}


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
        ({"network": "no-such-network"}, SandboxUnavailableError, "'no-such-network': see 'docker network ls'"),
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


def test_root_without_capabilities_is_told_of_a_workspace_that_is_anothers(
    made: Callable[..., DockerSandbox], image: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 1000, 1000)
    with pytest.raises(PathAccessError, match="0:0"):
        made(image, workspace=tmp_path, user=0).start()


@pytest.mark.parametrize("stdin", [None, b""], ids=["shell", "engine"])
@pytest.mark.parametrize("error", [SandboxUnavailableError("mine"), SandboxTimeoutError("mine")], ids=type)
def test_what_taking_output_raises_passes_unchanged(
    made: Callable[..., DockerSandbox], error: SandboxError, stdin: bytes | None
) -> None:
    def take(_stream: str, _text: str) -> None:
        time.sleep(0.6)
        raise error

    sandbox = made().start()
    with pytest.raises(type(error)) as raised:
        sandbox.execute("echo x; sleep 100", on_output=take, stdin=stdin, timeout=0.5)
    assert raised.value is error


def test_without_an_engine_the_error_says_where_one_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
    with pytest.raises(SandboxUnavailableError, match="engine"):
        DockerSandbox("busybox").start()


@pytest.mark.parametrize("identity", ["", ".x", "a b", "a/b", "x" * 65, "é"])
def test_an_id_that_no_container_could_have_is_refused(identity: str) -> None:
    with pytest.raises(InvalidArgumentError, match="sandbox_id"):
        DockerSandbox("busybox", sandbox_id=identity)


@pytest.mark.parametrize(
    "work_dir",
    ["", "relative", "/", "/proc", "/a/../b", "/dev", "/.sandbox-kit", "//.sandbox-kit/lib", "/.sandbox-kit-lease/x"],
)
def test_a_work_directory_that_cannot_be_mounted_is_refused(work_dir: str) -> None:
    with pytest.raises(InvalidArgumentError, match="work_dir"):
        DockerSandbox("busybox", work_dir=work_dir)


@pytest.mark.parametrize(
    "options",
    [
        {"limits": {"cpus": 1}},
        {"env": {"A": 1}},
        {"env": {"A=B": "x"}},
        {"env": ["A"]},
        {"labels": {"a": 5}},
        {"labels": "a"},
        {"labels": {"sandbox-kit.temporary": "yes"}},
        {"labels": {"team": "a", "sandbox-kit.": ""}},
        {"oci_runtime": 5},
        {"oci_runtime": ""},
        {"read_only": "yes"},
        {"persist": 1},
        {"network": ""},
        {"network": None},
        {"user": -1},
        {"workspace": 5},
        {"workspace": b"/x"},
        {"lease": 0},
        {"image": ""},
    ],
    ids=str,
)
def test_what_no_container_could_have_is_refused_at_once(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        DockerSandbox(**{"image": "busybox", **options})  # type: ignore[arg-type]
