"""Jobs in containers: in a worker's hands, over in time, and none is left of a worker that was killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pytest
from engine.daemon import Engine
from engine.leftovers import belongings, tidy
from jobs.works import die_at_one, fail_at_three

from sandbox_kit import (
    DockerSandbox,
    PermissionDeniedError,
    PermissionRule,
    PermissionRuleset,
    Sandbox,
    SandboxSpec,
    sweep_engine,
)

LEASE = 10.0
LEASE_ENDS_WITHIN = 60.0
PIXELS = b"\x89PNG\r\n\x1a\n\x00\xff" * 5000
RULES = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])


@pytest.fixture
def labels(engine: Engine) -> Iterator[dict[str, str]]:
    """Labels for the sandboxes of a test, which leaves none."""
    with tidy(engine) as labels:
        yield labels


@pytest.fixture
def spec(busybox_image: str, labels: dict[str, str]) -> SandboxSpec:
    options = {"image": busybox_image, "labels": labels, "lease": LEASE}
    return SandboxSpec("docker", options, RULES, "inspected")


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def use(sandbox: Sandbox) -> tuple[str, str]:
    """What a worker finds in a sandbox that runs already."""
    sandbox.start()
    return sandbox.read("file"), sandbox.execute("cat file; echo from here >there", timeout=60).stdout


def test_files_go_in_and_come_back_byte_for_byte(spec: SandboxSpec, executor: Executor) -> None:
    results = spec.map("cp in {item}", ["out a", "out's"], executor=executor, files={"in": PIXELS}, artifacts="out*")
    assert [result.check().artifacts for result in results] == [{"out a": PIXELS}, {"out's": PIXELS}]


def test_rules_hold_and_errors_come_with_their_items(spec: SandboxSpec, executor: Executor) -> None:
    results = spec.map(fail_at_three, [2, 3], executor=executor)
    assert results[0].check().value == 2
    assert isinstance(results[1].error, LookupError)
    (result,) = spec.map("true", [1], executor=executor, files={".env": "secret"})
    assert isinstance(result.error, PermissionDeniedError)


def test_a_job_over_its_time_leaves_no_container(engine: Engine, spec: SandboxSpec, labels: dict[str, str]) -> None:
    results = spec.map("sleep {item}", [1000, 1000], timeout=3.0, sandboxes=2)
    assert all(isinstance(result.error, TimeoutError) for result in results)
    assert left(engine, labels) == []


def test_a_handle_works_in_a_worker(busybox_image: str, executor: Executor) -> None:
    with DockerSandbox(busybox_image) as sandbox:
        sandbox.write("file", "x")
        assert executor.submit(use, sandbox).result(timeout=60) == ("x", "x")
        assert sandbox.read("there") == "from here\n"


def test_no_container_of_a_worker_that_was_killed_is_left_after_its_lease(
    engine: Engine, spec: SandboxSpec, labels: dict[str, str], tmp_path: Path
) -> None:
    items = [{"number": number, "marker": str(tmp_path / "marker")} for number in range(3)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        results = spec.map(die_at_one, items, executor=pool)
    assert [type(result.error) for result in results] == [type(None), BrokenProcessPool, BrokenProcessPool]
    until = time.monotonic() + LEASE_ENDS_WITHIN
    while left(engine, labels) and time.monotonic() < until:
        time.sleep(0.5)
    assert left(engine, labels) == []
    sweep_engine(labels=labels)
    ((label, value),) = labels.items()
    assert belongings(engine, label, value) == frozenset()


def left(engine: Engine, labels: dict[str, str]) -> list[str]:
    ((label, value),) = labels.items()
    return [name for kind, name in belongings(engine, label, value) if kind == "container"]
