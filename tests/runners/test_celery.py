"""Jobs in the worker of Celery, with Redis between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jobs.remains import gone, next_process
from jobs.works import SLEEPS, echo

from sandbox_kit import Job, SandboxSpec

from .agreement import PIXELS, SPEC
from .handles import HANDLES, every_handle

HANGS_AFTER = 60.0


def task(app: Any, name: str) -> Any:
    return app.tasks[f"runners.celery_tasks.{name}"]


def test_a_job_goes_as_json_and_its_files_come_back(celery_app: Any) -> None:
    job = Job(SPEC, "cp in {item}; echo {item}", files={"in": PIXELS}, artifacts="out*")
    document = json.loads(json.dumps(job.to_dict()))
    waiting = [task(celery_app, "run").delay(document, item, index) for index, item in enumerate(["out 1", "out 2"])]
    results = [each.get(timeout=HANGS_AFTER) for each in waiting]
    assert [result["stdout"] for result in results] == ["out 1\n", "out 2\n"]
    assert [result["artifacts"] for result in results] == [{"out 1": PIXELS.hex()}, {"out 2": PIXELS.hex()}]


def test_a_failure_is_that_of_the_task(celery_app: Any) -> None:
    job = Job(SPEC, "echo no >&2; exit {item}")
    with pytest.raises(Exception, match="command exited with 3: no"):
        task(celery_app, "run").delay(job.to_dict(), 3, 0).get(timeout=HANGS_AFTER)


def test_a_job_with_a_function_goes_pickled(celery_app: Any) -> None:
    assert task(celery_app, "call").delay(Job(SPEC, echo), "a b", 4).get(timeout=HANGS_AFTER) == "a b"


@every_handle
def test_a_handle_works_there(name: str, celery_app: Any, own_tmp: Path) -> None:
    handle, expected = HANDLES[name](own_tmp)
    assert task(celery_app, "used").delay(handle).get(timeout=HANGS_AFTER) == expected


def test_a_worker_that_is_killed_fails_its_task_and_leaves_nothing(celery_app: Any, own_tmp: Path) -> None:
    with pytest.raises(Exception, match="SIGKILL"):
        task(celery_app, "die").delay(str(own_tmp / "failed")).get(timeout=HANGS_AFTER)
    assert_nothing_is_left(own_tmp)
    job = Job(SandboxSpec("local"), "echo on")
    assert task(celery_app, "run").delay(job.to_dict(), "x", 0).get(timeout=HANGS_AFTER)["stdout"] == "on\n"


def test_a_task_that_the_broker_keeps_is_done_again(celery_app: Any, own_tmp: Path) -> None:
    assert task(celery_app, "die_and_come_again").delay(str(own_tmp / "again")).get(timeout=HANGS_AFTER) == 1
    assert (own_tmp / "again").exists()
    assert_nothing_is_left(own_tmp)


def assert_nothing_is_left(place: Path) -> None:
    assert gone(SLEEPS)
    next_process()
    assert list(place.glob("sandbox-kit-*")) == []
