"""A sweep of the engine removes what dead processes left there, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from engine.daemon import Engine
from engine.leftovers import belongings, remove

from sandbox_kit import SECRETS, guarding
from sandbox_kit.backends.docker import DockerSandbox, container, leases, ownership
from sandbox_kit.errors import SandboxUnavailableError
from sandbox_kit.host.marks import own_mark
from sandbox_kit.sweep import Swept, sweep_engine

Labels = dict[str, str]
Start = Callable[..., str]

KILLED = """
import json, os, sys
from sandbox_kit.backends.docker import DockerSandbox
box = DockerSandbox(**json.loads(sys.argv[1]))
print(box.name, flush=True)
{before}
box.start().write("file", "x")
os.kill(os.getpid(), 9)
"""
NEVER_STARTED = """
from sandbox_kit.backends.docker import container
container.start = lambda *_: os.kill(os.getpid(), 9)
"""
KILLED_WHILE_IT_LOOKED = """
from sandbox_kit import SECRETS, guarding
from sandbox_kit.backends.docker import starting
starting.plan_masks = lambda *_: os.kill(os.getpid(), 9)
box = guarding(box, SECRETS, commands="confined")
"""
ENDS_WITHIN = 30.0
PRINT_MARK = "from sandbox_kit.host.marks import own_mark; print(own_mark())"


@pytest.fixture
def labels(engine: Engine) -> Iterator[Labels]:
    """Labels for all that a test makes, which is removed in the end."""
    labels = {"sandbox-kit-test": uuid.uuid4().hex}
    yield labels
    remove(engine, belongings(engine, *next(iter(labels.items()))))


@pytest.fixture
def killed(busybox_image: str, labels: Labels) -> Start:
    """Starts a sandbox, in which there is a file, in a process that is killed; returns the container's name."""

    def start(*, before: str = "", **options: object) -> str:
        code, told = KILLED.format(before=before), json.dumps({"image": busybox_image, "labels": labels, **options})
        done = subprocess.run(
            [sys.executable, "-c", code, told], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == -9, done.stderr
        return done.stdout.strip()

    return start


@pytest.fixture
def attached(killed: Start, busybox_image: str, labels: Labels) -> Iterator[DockerSandbox]:
    """A handle, not started yet, of a sandbox whose maker was killed."""
    identity = f"swept-{uuid.uuid4().hex[:8]}"
    killed(sandbox_id=identity)
    sandbox = DockerSandbox(busybox_image, sandbox_id=identity, labels=labels)
    yield sandbox
    sandbox.stop(purge=True)


def dead_mark() -> str:
    done = subprocess.run([sys.executable, "-c", PRINT_MARK], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def mark_of_another_machine() -> str:
    _, space, _, pid, start = dead_mark().split(".")
    return f"feed.{space}.{uuid.uuid4()}.{pid}.{start}"


def names(swept: Swept) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in swept.removed]


def reasons(swept: Swept) -> dict[str, str]:
    return {each.name: each.reason for each in swept.left}


def remaining(engine: Engine, labels: Labels) -> set[tuple[str, str]]:
    return set(belongings(engine, *next(iter(labels.items()))))


def test_a_killed_process_leaves_nothing_after_a_sweep(engine: Engine, killed: Start, labels: Labels) -> None:
    name = killed()
    all_of_it = [("container", name), ("volume", name)]
    assert names(sweep_engine(labels=labels, dry_run=True)) == all_of_it
    assert remaining(engine, labels) == set(all_of_it)
    assert names(sweep_engine(labels=labels)) == all_of_it
    assert remaining(engine, labels) == set()
    assert sweep_engine(labels=labels) == Swept()


def test_files_that_outlive_their_sandbox_stay(
    engine: Engine, killed: Start, labels: Labels, busybox_image: str
) -> None:
    identity = f"swept-{uuid.uuid4().hex[:8]}"
    name = killed(sandbox_id=identity)
    assert names(sweep_engine(labels=labels)) == [("container", name)]
    assert remaining(engine, labels) == {("volume", name)}
    with DockerSandbox(busybox_image, sandbox_id=identity, labels=labels) as again:
        assert again.read("file") == "x"


def test_a_container_that_was_never_started_goes(engine: Engine, killed: Start, labels: Labels) -> None:
    name = killed(before=NEVER_STARTED)
    assert ("container", name) in remaining(engine, labels)
    assert names(sweep_engine(labels=labels)) == [("container", name), ("volume", name)]
    assert remaining(engine, labels) == set()


def test_a_kept_container_goes_when_its_time_is_over(engine: Engine, killed: Start, labels: Labels) -> None:
    name = killed(persist=True)
    assert "kept" in reasons(sweep_engine(labels=labels, container_ttl=1e-6))[name]
    engine.client().kill(name)
    engine.client().wait(name)
    for swept in (sweep_engine(labels=labels), sweep_engine(labels=labels, container_ttl=1e6)):
        assert (names(swept), reasons(swept)) == ([], {name: "it is kept"})
    assert names(sweep_engine(labels=labels, container_ttl=1e-6)) == [("container", name), ("volume", name)]


def test_what_lives_is_neither_removed_nor_told(labels: Labels, busybox_image: str) -> None:
    with DockerSandbox(busybox_image, labels=labels, lease=None) as sandbox:
        assert sweep_engine(labels=labels) == Swept()
        assert sandbox.execute("echo on").stdout == "on\n"


def test_one_living_user_is_enough(attached: DockerSandbox, labels: Labels) -> None:
    with attached:
        assert sweep_engine(labels=labels) == Swept()
        assert attached.read("file") == "x"


def test_whoever_begins_to_use_it_during_a_sweep_keeps_it(
    attached: DockerSandbox, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_then_list(sweep: str = "") -> list[str]:
        if sweep:
            attached.start()
        return listing(sweep)

    listing = leases.listing
    monkeypatch.setattr(leases, "listing", begin_then_list)
    assert sweep_engine(labels=labels) == Swept()
    assert attached.read("file") == "x"
    attached._up().renew()


def test_whoever_begins_to_use_it_once_a_sweep_has_looked_keeps_it(
    attached: DockerSandbox, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_then_end(sweep: str) -> list[str]:
        attached.start()
        return ending(sweep)

    ending = leases.ending
    monkeypatch.setattr(leases, "ending", begin_then_end)
    assert sweep_engine(labels=labels) == Swept()
    assert attached.read("file") == "x"
    attached._up().renew()


def test_a_sweep_that_was_killed_while_it_looked_holds_up_nobody(
    engine: Engine, attached: DockerSandbox, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ending", killed_instead)
    with pytest.raises(KeyboardInterrupt):
        sweep_engine(labels=labels)
    monkeypatch.undo()
    with attached:
        attached._up().renew()
        assert sweep_engine(labels=labels) == Swept()
        assert attached.read("file") == "x"


def test_what_a_killed_sweep_has_ended_ends_by_itself(
    engine: Engine, killed: Start, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = killed(lease=None)
    monkeypatch.setattr(container, "remove", killed_instead)
    with pytest.raises(KeyboardInterrupt):
        sweep_engine(labels=labels)
    until = time.monotonic() + ENDS_WITHIN
    while ("container", name) in remaining(engine, labels) and time.monotonic() < until:
        time.sleep(0.2)
    assert remaining(engine, labels) == {("volume", name)}


@pytest.mark.parametrize("lease", [120.0, None])
def test_a_note_that_a_command_of_roots_removed_is_written_again(
    killed: Start, busybox_image: str, labels: Labels, monkeypatch: pytest.MonkeyPatch, lease: float | None
) -> None:
    renewals: list[Callable[[], None]] = []
    identity = f"swept-{uuid.uuid4().hex[:8]}"
    killed(sandbox_id=identity, lease=lease)
    monkeypatch.setattr(leases, "keep", lambda renew, _lease: renewals.append(renew))
    with DockerSandbox(busybox_image, sandbox_id=identity, labels=labels, lease=lease) as sandbox:
        sandbox.execute(f"rm {leases.PLACE}/owner.*", check=True)
        for renew in renewals:
            renew()
        assert sweep_engine(labels=labels) == Swept()
        assert sandbox.read("file") == "x"
    sandbox.stop(purge=True)


def test_whoever_comes_too_late_is_told_to_start_again(
    attached: DockerSandbox, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_then_remove(*arguments: object) -> None:
        with pytest.raises(SandboxUnavailableError, match="start again"):
            attached.start()
        removing(*arguments)  # type: ignore[arg-type]

    removing = container.remove
    monkeypatch.setattr(container, "remove", begin_then_remove)
    assert names(sweep_engine(labels=labels)) == [("container", attached.name)]
    assert attached.start().read("file") == "x"


def killed_instead(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("noted_in", [ownership, leases], ids=["made", "used"])
@pytest.mark.parametrize("mark", ["of another machine", "none"])
def test_what_another_machine_may_use_is_left_alone(
    engine: Engine,
    killed: Start,
    labels: Labels,
    busybox_image: str,
    monkeypatch: pytest.MonkeyPatch,
    noted_in: object,
    mark: str,
) -> None:
    identity = f"swept-{uuid.uuid4().hex[:8]}"
    if noted_in is leases:
        killed(sandbox_id=identity)
    monkeypatch.setattr(noted_in, "own_mark", mark_of_another_machine if mark != "none" else lambda: "")
    sandbox = DockerSandbox(busybox_image, sandbox_id=identity, labels=labels).start()
    swept = sweep_engine(labels=labels)
    assert (names(swept), list(reasons(swept))) == ([], [sandbox.name])
    assert "another machine" in reasons(swept)[sandbox.name]
    sandbox.stop(purge=True)


def test_a_container_that_cannot_be_looked_into_is_left_alone(engine: Engine, killed: Start, labels: Labels) -> None:
    name = killed()
    engine.client().pause(name)
    assert "paused" in reasons(sweep_engine(labels=labels))[name]
    assert remaining(engine, labels) == {("container", name), ("volume", name)}
    engine.client().unpause(name)


def test_a_volume_that_another_container_uses_stays(
    engine: Engine, killed: Start, labels: Labels, busybox_image: str
) -> None:
    name, client = killed(), engine.client()
    host_config = client.create_host_config(binds=[f"{name}:/their"])
    other = client.create_container(busybox_image, ["true"], host_config=host_config, labels=labels)["Id"]
    for dry_run in (True, False):
        assert names(sweep_engine(labels=labels, dry_run=dry_run)) == [("container", name)]
    client.remove_container(other)
    assert names(sweep_engine(labels=labels)) == [("volume", name)]


def test_a_helper_of_a_dead_process_goes_and_no_others(engine: Engine, labels: Labels, busybox_image: str) -> None:
    for mark in (dead_mark(), own_mark(), mark_of_another_machine(), "", "x"):
        helper = ownership.serving_one_call({**labels, ownership.HELPER: mark})
        engine.client().create_container(busybox_image, **helper)
    named = {**ownership.serving_one_call({**labels, ownership.HELPER: dead_mark()}), "name": uuid.uuid4().hex}
    engine.client().create_container(busybox_image, **named)
    assert [each.kind for each in sweep_engine(labels=labels, dry_run=True).removed] == ["helper"]
    assert [each.kind for each in sweep_engine(labels=labels).removed] == ["helper"]
    assert len(remaining(engine, labels)) == 5


def test_a_container_for_file_calls_goes_with_its_process(
    engine: Engine, killed: Start, labels: Labels, busybox_image: str
) -> None:
    volume = killed(before=KILLED_WHILE_IT_LOOKED)
    (left,) = (name for kind, name in remaining(engine, labels) if kind == "container")
    sandbox = DockerSandbox(busybox_image, labels=labels)
    with sandbox:
        sandbox.write(".env", "x")
        sandbox.stop()
        guarded = guarding(sandbox, SECRETS, commands="confined").start()
        guarded.write("file", "x")
        stays = remaining(engine, labels) - {("container", left), ("volume", volume)}
        assert names(sweep_engine(labels=labels)) == [("helper", left), ("volume", volume)]
        assert (len(stays), remaining(engine, labels)) == (3, stays)
        assert guarded.read("file") == "x"


def test_a_strangers_things_stay_whatever_their_names_and_labels_say(
    engine: Engine, labels: Labels, busybox_image: str
) -> None:
    client, mark, number = engine.client(), dead_mark(), uuid.uuid4().hex[:12]
    dead = {**labels, ownership.OWNER: mark, ownership.TEMPORARY: "yes"}
    helper, beside = {**labels, ownership.HELPER: mark}, {**dead, ownership.ID: number, ownership.BESIDE: "yes"}
    for name, told in (
        (f"sandbox-kit-{number}", {**dead, ownership.ID: "another"}),
        ("sandbox-kit-None", dead),
        (f"sandbox-kit-2{number}", {**dead, ownership.ID: f"2{number}", ownership.KEPT: "no"}),
        (f"a{number}", helper),
        (f"sandbox-kit_{number}", helper),
        (f"sandbox-kit.{number}.x", beside),
        (f"sandbox-kit.{number}.{number}", beside),
    ):
        client.start(client.create_container(busybox_image, ["sleep", "60"], labels=told, name=name))
    client.create_volume(f"sandbox-kit-{number}", labels={**dead, ownership.ID: "another"})
    client.create_volume("sandbox-kit-None", labels=dead)
    before = remaining(engine, labels)
    assert names(sweep_engine(labels=labels)) == []
    for name in (name for kind, name in before if kind == "container"):
        client.kill(name)
    assert names(sweep_engine(labels=labels)) == []
    assert remaining(engine, labels) == before


def test_labels_of_an_image_save_no_container(killed: Start, labels: Labels, forged_image: str) -> None:
    name = killed(image=forged_image)
    assert names(sweep_engine(labels=labels)) == [("container", name), ("volume", name)]


def test_labels_of_an_image_end_no_container(labels: Labels, forged_image: str) -> None:
    with DockerSandbox(forged_image, labels=labels) as sandbox:
        assert sweep_engine(labels=labels) == Swept()
        assert sandbox.execute("echo on").stdout == "on\n"


def test_what_is_made_of_a_prepared_image_is_no_helper(engine: Engine, labels: Labels, busybox_image: str) -> None:
    with DockerSandbox(busybox_image, work_dir=f"/{uuid.uuid4().hex}", labels=labels) as sandbox:
        image = engine.client().inspect_container(sandbox.name)["Config"]["Image"]
    try:
        (told,) = (each for each in engine.client().images(all=True) if each["Id"] == image)
        assert not told["Labels"].get(ownership.HELPER)
    finally:
        engine.client().remove_image(image)


def test_the_program_tells_what_it_would_do_and_does_it(engine: Engine, killed: Start, labels: Labels) -> None:
    names = sorted([killed(), killed()])
    arguments = [sys.executable, "-m", "sandbox_kit", "sweep", "--backend", "docker"]
    arguments += ["--label", *(f"{label}={value}" for label, value in labels.items())]

    def run(*more: str) -> str:
        return subprocess.run([*arguments, *more], capture_output=True, text=True, timeout=60, check=True).stdout

    told = [f"{kind} {name}" for kind in ("container", "volume") for name in names]
    assert sorted(run("--dry-run").splitlines()) == [f"would be removed {each}" for each in told]
    swept = json.loads(run("--json"))
    assert (sorted(f"{each['kind']} {each['name']}" for each in swept["removed"]), swept["left"]) == (told, [])
    assert (run(), remaining(engine, labels)) == ("", set())
