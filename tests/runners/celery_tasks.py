"""The tasks of a Celery worker: a job comes as JSON, or pickled."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery  # type: ignore[import-untyped]
from jobs.works import die_at_one

from sandbox_kit import Job, SandboxSpec

from .handles import use

broker = os.environ["SANDBOX_KIT_TEST_BROKER"]
app = Celery("runners.celery_tasks", broker=broker, backend=broker)
app.conf.update(accept_content=["json", "pickle"])
app.conf.update(broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)


@app.task(shared=False)  # type: ignore[untyped-decorator]
def run(job: dict[str, Any], item: Any, index: int) -> dict[str, Any]:
    """Do a job that came as JSON."""
    result = Job.from_dict(job)(item, index).check()
    return {"stdout": result.value.stdout, "artifacts": {path: data.hex() for path, data in result.artifacts.items()}}


@app.task(serializer="pickle", shared=False)  # type: ignore[untyped-decorator]
def call(job: Job, item: Any, index: int) -> Any:
    """Do a job that came pickled."""
    return job(item, index).check().value


@app.task(serializer="pickle", shared=False)  # type: ignore[untyped-decorator]
def used(handle: object) -> str:
    """Use a handle that came pickled."""
    return use(handle)


@app.task(shared=False)  # type: ignore[untyped-decorator]
def die(marker: str) -> int:
    """Have this worker killed in the middle of a job, once."""
    value: int = Job(SandboxSpec("local"), die_at_one)({"number": 1, "marker": marker}).check().value
    return value


@app.task(shared=False, acks_late=True, reject_on_worker_lost=True)  # type: ignore[untyped-decorator]
def die_and_come_again(marker: str) -> int:
    """The same, by a task that the broker hands out again."""
    value: int = die(marker)
    return value
