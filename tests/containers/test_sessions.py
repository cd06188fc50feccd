"""Sessions in containers: what a policy sets reaches them, files outlive them, and no process leaves one behind."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from engine.daemon import Engine
from sessions.managing import eventually, in_child, kinds, states

from sandbox_kit.errors import (
    InvalidArgumentError,
    PermissionDeniedError,
    SandboxConflictError,
    SessionLimitError,
    UnsupportedError,
)
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.runtime import Runtime
from sandbox_kit.sessions.archive import WorkspaceArchive
from sandbox_kit.sessions.events import SessionEvent
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy, apply_policy_update
from sandbox_kit.sessions.values import PolicyValues, RuntimeProfile
from sandbox_kit.sweep import sweep

from .test_remote import free_port, serving

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + bytes(range(255, -1, -1))
ENOUGH = 64 * 2**20

Manage = Callable[..., SessionManager]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def manage(engine: Engine, busybox_image: str, root: Path) -> Iterator[Manage]:
    """Makes managers over one root; all sessions are purged in the end, and no container is left."""
    made: list[SessionManager] = []

    def make(
        *, ruleset: Any = None, on_event: Any = None, runtimes: dict[str, Any] | None = None, **policy: Any
    ) -> SessionManager:
        document = {
            "runtimes": runtimes or {"box": {"image": busybox_image, "sandbox_uid": 1000}},
            "default_runtime": "box",
            **policy,
        }
        made.append(
            SessionManager(
                SandboxPolicy.from_dict(document),
                workspace_root=root,
                backend="docker",
                ruleset=ruleset,
                on_event=on_event,
                reap_every=None,
            )
        )
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine.host)
        yield make
        for manager in made[::-1]:
            manager.shutdown()
        with make() as last:
            last.reap()
            for info in last.sessions():
                last.close(info.id, purge=True)
    assert found(engine, root) == []


def found(engine: Engine, root: Path) -> list[dict[str, Any]]:
    """The containers that have a workspace beneath *root* mounted, running or not, as the engine describes them."""
    client = engine.client()
    listed = client.containers(all=True, filters={"label": "sandbox-kit.session"})
    ours = [each for each in listed if any(mount["Source"].startswith(f"{root}/") for mount in each["Mounts"])]
    return [client.inspect_container(each["Id"]) for each in ours]


def ids(engine: Engine, root: Path) -> list[str]:
    return [each["Id"] for each in found(engine, root)]


def test_files_of_a_session_come_back_byte_for_byte_when_its_container_is_gone(
    engine: Engine, manage: Manage, root: Path
) -> None:
    manager = manage()
    with manager.open("a") as box:
        assert box.execute("id -u; pwd").stdout == "1000\n/workspace\n"
        box.execute("mkdir -p out && umask 077 && cat >out/chart.png", stdin=PNG, check=True)
        box.write("out/report.pdf", PDF)
    assert len(found(engine, root)) == 1
    manager.close("a")
    assert found(engine, root) == []
    archive = WorkspaceArchive(root)
    assert archive.read_bytes("a", "out/chart.png") == PNG
    assert archive.read_bytes("a", "out/report.pdf") == PDF
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o700
    with manager.open("a") as box:
        assert box.read_bytes("out/chart.png") == PNG
        box.spawn("echo more >spawned").wait(30)
        assert box.read("spawned") == "more\n"
    manager.close("a", purge=True)
    assert (archive.sessions(), manager.sessions()) == ([], [])


def test_what_the_policy_sets_reaches_the_container(
    engine: Engine, manage: Manage, root: Path, busybox_image: str
) -> None:
    own = {"image": busybox_image, "sandbox_uid": 1000, "network_mode": "none", "oci_runtime": "runc", "pids_limit": 50}
    manager = manage(
        runtimes={"box": own},
        mem_limit=ENOUGH,
        memswap_limit=2 * ENOUGH,
        cpus=0.5,
        cpu_shares=512,
        tmpfs_size="8m",
        work_dir="/data",
    )
    with manager.open("a") as box:
        assert box.execute("pwd; df -k /tmp | tail -n 1 | tr -s ' ' | cut -d' ' -f2").stdout == "/data\n8192\n"
    (told,) = found(engine, root)
    host = told["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (ENOUGH, 2 * ENOUGH, 50)
    assert (host["CpuQuota"] / host["CpuPeriod"], host["CpuShares"]) == (0.5, 512)
    assert (host["NetworkMode"], host["Runtime"]) == ("none", "runc")


def test_a_runtime_of_the_policy_is_built(manage: Manage, busybox_image: str) -> None:
    manager = manage(runtimes={"box": {"image": {"base": busybox_image, "setup": ["echo here >/made"], "uid": 1000}}})
    with manager.open("a") as box:
        assert box.execute("cat /made; id -u").stdout == "here\n1000\n"
    profile = RuntimeProfile(image=Runtime(busybox_image, setup=["echo here >/made"], uid=1000))
    assert manager.policy.snapshot() == PolicyValues(runtimes={"box": profile}, default_runtime="box")


@pytest.mark.parametrize("persist", [False, True])
def test_a_changed_ceiling_reaches_the_next_container(
    engine: Engine, manage: Manage, root: Path, persist: bool
) -> None:
    manager = manage(mem_limit=2 * ENOUGH, persist_containers=persist)
    manager.open("a").write("f", "x")
    apply_policy_update(manager.policy, {"mem_limit": ENOUGH})
    (before,) = found(engine, root)
    assert manager.open("a").read("f") == "x"
    assert ids(engine, root) == [before["Id"]]
    manager.close("a")
    assert ids(engine, root) == ([before["Id"]] if persist else [])
    assert manager.open("a").read("f") == "x"
    (after,) = found(engine, root)
    assert [each["HostConfig"]["Memory"] for each in (before, after)] == [2 * ENOUGH, ENOUGH]


def test_a_kept_container_has_what_was_done_in_it_until_it_is_too_old(
    engine: Engine, manage: Manage, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manage(persist_containers=True, container_ttl=600)
    manager.open("a").execute("echo installed >/tmp/tool; echo x >f", check=True)
    manager.close("a")
    assert [each["State"]["Running"] for each in found(engine, root)] == [False]
    assert manager.reap().cleared == ()
    assert manager.open("a").read("/tmp/tool") == "installed\n"
    manager.close("a")
    apply_policy_update(manager.policy, {"container_ttl": 1e-3})
    assert manager.reap().cleared == ("a",)
    assert (found(engine, root), states(manager)) == ([], {"a": "hibernated"})
    with manager.open("a") as box:
        assert (box.exists("/tmp/tool"), box.read("f")) == (False, "x\n")
    manager.close("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        assert manager.reap().cleared == ()
    assert "what is kept of stopped sandboxes cannot be told" in caplog.text
    assert manager.reap().cleared == ("a",)
    assert manager.reap().cleared == ()


def test_the_least_recently_used_container_makes_room_and_idle_ones_end(
    engine: Engine, manage: Manage, root: Path
) -> None:
    events: list[SessionEvent] = []
    manager = manage(max_sessions=1, on_event=events.append)
    with manager.open("a"), pytest.raises(SessionLimitError):
        manager.open("b")
    manager.open("b")
    assert states(manager) == {"a": "hibernated", "b": "live"}
    assert len(found(engine, root)) == 1
    apply_policy_update(manager.policy, {"idle_timeout": 1e-3})
    time.sleep(0.01)
    assert manager.reap().hibernated == ("b",)
    assert found(engine, root) == []
    assert kinds(events)[-2:] == [("opened", "b"), ("hibernated", "b")]


def test_a_container_that_ended_by_itself_is_made_anew(engine: Engine, manage: Manage, root: Path) -> None:
    manager = manage()
    box = manager.open("a")
    box.write("f", "x")
    engine.client().kill(ids(engine, root)[0])
    assert eventually(lambda: not box.is_alive())
    assert manager.open("a").read("f") == "x"


def test_processes_share_the_container_of_a_session_and_the_last_one_ends_it(
    engine: Engine, manage: Manage, root: Path
) -> None:
    manager = manage(max_sessions=1, mem_limit=ENOUGH)
    box = manager.open("a")
    box.write("f", "x")
    (container,) = ids(engine, root)

    def join() -> None:
        other = manage(max_sessions=1, mem_limit=2 * ENOUGH)
        with other.open("a") as same:
            assert same.read("f") == "x"
            assert same.execute("echo 1").stdout == "1\n"
            assert ids(engine, root) == [container]
            assert [len(info.pids) for info in other.sessions()] == [2]
        other.close("a")

    assert in_child(join) == 0
    assert ids(engine, root) == [container]
    assert box.execute("cat f").stdout == "x"
    assert [len(info.pids) for info in manager.sessions()] == [1]
    assert in_child(partial(leave_open, manage)) == 0
    assert box.execute("cat f").stdout == "x"
    manager.close("a")
    assert found(engine, root) == []


def test_who_made_the_container_leaves_it_to_those_who_joined(engine: Engine, manage: Manage, root: Path) -> None:
    first, second = manage(), manage()
    first.open("a").write("f", "x")
    box = second.open("a")
    (container,) = ids(engine, root)
    first.close("a")
    gc.collect()
    assert box.execute("cat f").stdout == "x"
    assert ids(engine, root) == [container]
    second.close("a")
    assert found(engine, root) == []


def leave_open(manage: Manage) -> None:
    manage().open("a")


def test_the_container_of_a_process_that_was_killed_is_ended_and_its_slot_comes_back(
    engine: Engine, manage: Manage, root: Path
) -> None:
    manager = manage(max_sessions=1)

    def die() -> None:
        manage(max_sessions=1).open("a").write("f", "x")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == -signal.SIGKILL
    assert len(found(engine, root)) == 1
    with SessionManager(SandboxPolicy(), workspace_root=root, reap_every=None) as local:
        assert local.reap().recovered == ()
        apply_policy_update(local.policy, {"max_sessions": 1})
        with pytest.raises(SessionLimitError, match=r"backend 'docker': .*'sandbox-kit sweep --backend docker'"):
            local.open("b")
    manager.open("b")
    assert states(manager) == {"a": "hibernated", "b": "live"}
    assert len(found(engine, root)) == 1
    assert manager.close("b") is None
    assert manager.open("a").read("f") == "x"


def test_sweep_gives_back_what_dead_processes_left_in_containers(engine: Engine, manage: Manage, root: Path) -> None:
    def die() -> None:
        manage().open("a")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die) == -signal.SIGKILL
    assert len(found(engine, root)) == 1
    assert sweep(root).recovered == ()
    assert sweep(root, backend="docker").recovered == ("a",)
    assert found(engine, root) == []


def test_sessions_of_two_roots_do_not_meet_on_an_engine(
    engine: Engine, manage: Manage, root: Path, tmp_path: Path, busybox_image: str
) -> None:
    first = manage()
    first.open("a").write("f", "x")
    policy = SandboxPolicy(PolicyValues(runtimes={"box": busybox_image}, default_runtime="box"))
    with SessionManager(policy, workspace_root=tmp_path / "other", backend="docker", reap_every=None) as second:
        assert not second.open("a").exists("f")
        second.close("a", purge=True)
    assert first.open("a").execute("cat f").stdout == "x"


def test_rules_of_the_manager_hold(manage: Manage) -> None:
    manager = manage(ruleset=SECRETS)
    with manager.open("a") as box:
        box.write("f", "x")
        with pytest.raises(PermissionDeniedError):
            box.read(".env")
        with pytest.raises(PermissionDeniedError):
            box.read("/etc/shadow")
        if box.capabilities.commands == "confined":
            assert box.execute("cat f").stdout == "x"


def test_what_a_container_cannot_be_made_of_is_refused_and_leaves_no_session(
    manage: Manage, root: Path, busybox_image: str
) -> None:
    with pytest.raises(UnsupportedError, match="prewarm"):
        manage(prewarm=1)
    bare = SandboxPolicy.from_dict({})
    with SessionManager(bare, workspace_root=root, backend="docker", reap_every=None) as manager:
        with pytest.raises(InvalidArgumentError, match="needs an image"):
            manager.open("a")
        assert manager.sessions() == []
    with pytest.raises((InvalidArgumentError, SandboxConflictError)):
        manage(runtimes={"box": {"image": busybox_image, "oci_runtime": "missing"}}).open("a")
    assert manage().sessions() == []


def test_the_command_line_runs_in_containers(engine: Engine, manage: Manage, root: Path, busybox_image: str) -> None:
    manage(runtimes={"box": {"image": busybox_image, "sandbox_uid": 1000}})
    (root.parent / "policy.json").write_text(json.dumps({"runtimes": {"b": busybox_image}, "default_runtime": "b"}))
    where = ("--root", str(root), "--policy", str(root.parent / "policy.json"), "--backend", "docker")

    def session(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "sandbox_kit", "session", command, *where, *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    assert session("open", "a").stdout == f"{root}/a/workspace\n"
    done = session("exec", "--shell", "--rules", "none", "a", "--", "echo hi >f; cat f; echo no >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hi\n", "no\n")
    assert session("ls").stdout.startswith("a ")
    assert found(engine, root) == []
    assert session("close", "--purge", "a").returncode == 0
    assert not (root / "a").exists()


@pytest.fixture
def over_tcp(engine: Engine, manage: Manage, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine as one on another machine is reached, and DOCKER_HOST that names it."""
    local = engine.host.removeprefix("unix://")
    if local == engine.host:
        pytest.skip("needs an engine with a local socket to put a port in front of")
    port = free_port()
    with serving(["socat", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork", f"UNIX-CONNECT:{local}"], port):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        yield


@pytest.mark.usefixtures("over_tcp")
def test_an_engine_that_has_other_files_than_this_machine_is_refused(
    engine: Engine, manage: Manage, root: Path
) -> None:
    manager = manage()
    with manager.open("a") as box:
        box.write("f", "x")
    manager.close("a")

    def elsewhere() -> None:
        mount_over(root)
        with pytest.raises(UnsupportedError, match="the engine has another directory than this machine"):
            manage().open("a")
        assert manage().sessions() == []

    assert in_child(elsewhere) == 0
    assert found(engine, root) == []
    assert manager.open("a").read("f") == "x"


def mount_over(directory: Path) -> None:
    """Let this process have an empty file system as *directory*, which no other process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    private, new_namespace = 1 << 18 | 1 << 14, 0x20000
    for code in (
        libc.unshare(new_namespace),
        libc.mount(b"none", b"/", None, private, None),
        libc.mount(b"none", os.fsencode(directory), b"tmpfs", 0, None),
    ):
        assert code == 0, os.strerror(ctypes.get_errno())


@pytest.fixture
def host_for_all(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The engine's socket, where users other than root get at it; the group that may use it."""
    socket = Path(engine.host.removeprefix("unix://"))
    if os.geteuid() != 0 or not socket.is_socket():
        pytest.skip("needs root, and an engine on this machine")
    with tempfile.TemporaryDirectory(dir=socket.parent.parent) as directory:
        os.chmod(directory, 0o711)
        os.link(socket, f"{directory}/s")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{directory}/s")
        yield socket.stat().st_gid


def test_a_user_who_is_not_root_runs_commands_as_itself_and_can_remove_all_files(
    host_for_all: int, busybox_image: str
) -> None:
    policy = SandboxPolicy(PolicyValues(runtimes={"box": busybox_image}, default_runtime="box"))

    def work() -> None:
        os.setgroups([host_for_all])
        os.setgid(host_for_all)
        os.setuid(1234)
        with tempfile.TemporaryDirectory() as root:
            with SessionManager(policy, workspace_root=root, backend="docker", reap_every=None) as manager:
                with manager.open("a") as box:
                    assert box.execute("id -u; mkdir d; echo x >d/f").stdout == "1234\n"
                    box.spawn("mkdir e; echo x >e/f").wait(30)
                assert Path(root, "a", "workspace", "d", "f").stat().st_uid == 1234
                manager.close("a", purge=True)
            assert not any(Path(root, ".sandbox_kit", "trash").iterdir())

    assert in_child(work) == 0
