"""What several processes use under one name, as a container, is stopped by the last of them alone."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxClosedError, SandboxConflictError
from sandbox_kit.primitives import MaskSource
from sandbox_kit.sessions.forwarding import ForwardingSandbox
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.schema import Ceilings
from sandbox_kit.sessions.values import RuntimeProfile
from sandbox_kit.types import Capabilities, Limits, Usage

from .managing import in_child, managed, states

ROUNDS = 20


class Machine:
    """Runs a thing for each session, and makes sandboxes that use it.

    Attributes:
        log: the acts on things, in order, with their sessions.
        broken: whether sandboxes fail once they have started.
    """

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.broken = False

    def __call__(self, session_id: str, profile: RuntimeProfile, limits: Limits, workspace: Path) -> Sandbox:
        return Contained(self, session_id, workspace)

    def runs(self, session: str) -> bool:
        acts = [act for act, each in self.log if each == session and act != "attach"]
        return acts[-1:] == ["start"]


class Contained(ForwardingSandbox):
    """A sandbox over the thing of its session."""

    def __init__(self, machine: Machine, session: str, workspace: Path) -> None:
        super().__init__()
        self.machine = machine
        self.session = session
        self.files = LocalSandbox(workspace)

    @property
    def id(self) -> str:
        return self.session

    @property
    def work_dir(self) -> str:
        return self.files.work_dir

    @property
    def capabilities(self) -> Capabilities:
        return self.files.capabilities

    @contextmanager
    def _awake(self) -> Generator[Sandbox, None, None]:
        assert self.machine.runs(self.session), "the thing was stopped under its user"
        yield self.files

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        self.machine.log.append(("attach" if self.machine.runs(self.session) else "start", self.session))
        self.files.start()
        if self.machine.broken:
            raise OSError("broken")

    def _stop(self, purge: bool) -> None:
        self.machine.log.append(("stop", self.session))
        self.files.stop()

    def _is_alive(self) -> bool:
        return self.machine.runs(self.session)

    def _usage(self) -> Usage:
        return self.files.usage()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def acts(machine: Machine) -> list[str]:
    return [act for act, _ in machine.log]


def test_the_last_one_stops_it(root: Path) -> None:
    machine = Machine()
    with managed(root, backend=machine) as first, managed(root, backend=machine) as second:
        box, other = first.open("a"), second.open("a")
        first.close("a")
        assert acts(machine) == ["start", "attach"]
        assert states(second) == {"a": "live"}
        other.write("f", "x")
        second.close("a")
        assert acts(machine) == ["start", "attach", "stop"]
        assert states(second) == {"a": "hibernated"}
        assert box.start().read("f") == "x"


def test_an_idle_one_is_left_to_those_who_use_it(root: Path) -> None:
    machine = Machine()
    with managed(root, backend=machine, idle_timeout=1e-6) as first, managed(root, backend=machine) as second:
        box, other = first.open("a"), second.open("a")
        first.reap()
        assert acts(machine) == ["start", "attach"]
        assert other.execute("echo x").stdout == "x\n"
        assert box.execute("echo y").stdout == "y\n"
    assert acts(machine) == ["start", "attach", "attach", "stop"]


def test_of_two_that_leave_at_once_one_stops_it(root: Path) -> None:
    machine = Machine()
    with managed(root, backend=machine) as first, managed(root, backend=machine) as second:
        with ThreadPoolExecutor(2) as pool:
            for number in range(ROUNDS):
                id = f"s{number}"
                handles = [each.open(id) for each in (first, second)]
                list(pool.map(lambda manager, id=id: manager.close(id), (first, second)))
                assert [act for act, session in machine.log if session == id] == ["start", "attach", "stop"]
                assert len(handles) == 2
        assert set(states(first).values()) == {"hibernated"}


def test_one_that_cannot_join_takes_nothing_from_those_who_use_it(root: Path) -> None:
    machine = Machine()
    with managed(root, backend=machine) as first, managed(root, backend=machine) as second:
        box = first.open("a")
        machine.broken = True
        with pytest.raises(OSError, match="broken"):
            second.open("a")
        assert acts(machine) == ["start", "attach"]
        assert box.execute("echo x").stdout == "x\n"
        assert len(first.sessions()[0].pids) == 1


def test_a_call_that_was_broken_off_takes_nothing_from_those_who_use_it(root: Path) -> None:
    machine = Machine()
    with managed(root, backend=machine) as first, managed(root, backend=machine) as second:
        box = first.open("a")
        owner, alive = second._service.table.owner, {first._service.table.owner.token}
        second._service.ledger.claim("a", owner, tenant=None, runtime=None, ceilings=Ceilings(), now=1.0, alive=alive)
        second.reap()
        assert acts(machine) == ["start"]
        assert len(first.sessions()[0].pids) == 1
        assert box.execute("echo x").stdout == "x\n"


def test_a_process_that_dies_takes_nothing_from_those_who_use_it(root: Path) -> None:
    machine = Machine()
    with managed(root, backend=machine) as manager:
        box = manager.open("a")
        assert in_child(lambda: box.execute("echo x").stdout == "x\n") == 0
        assert len(manager.sessions()[0].pids) == 2
        manager.reap()
        assert acts(machine) == ["start"]
        assert len(manager.sessions()[0].pids) == 1
        assert box.execute("echo x").stdout == "x\n"


def test_what_the_last_one_left_by_dying_is_stopped(root: Path) -> None:
    machine = Machine()
    with managed(root, backend=machine) as manager:
        assert in_child(lambda: manager.open("a").is_alive()) == 0
        assert manager.reap().recovered == ("a",)
        assert acts(machine) == ["stop"]


def test_what_starts_while_its_manager_is_shut_down_is_stopped_by_the_last_one(root: Path) -> None:
    class Ended(Contained):
        def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
            super()._start(masks)
            with pytest.raises(SandboxConflictError, match="by the caller itself"):
                manager.shutdown()

    machine = Machine()
    manager = managed(root, backend=lambda session_id, workspace, **_: Ended(machine, session_id, workspace))
    with pytest.raises(SandboxClosedError):
        manager.open("a")
    assert acts(machine) == ["start", "stop"]
    with managed(root) as another:
        assert states(another) == {}


def test_a_local_sandbox_is_stopped_by_each(root: Path) -> None:
    with managed(root) as first, SessionManager(SandboxPolicy(), workspace_root=root, reap_every=None) as second:
        box, other = first.open("a"), second.open("a")
        process, theirs = box.spawn("sleep 600"), other.spawn("sleep 600")
        first.close("a")
        assert process.wait(20) != 0
        assert theirs.poll() is None
