"""The handle of a container in the workers of every runner: it finds its files again there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import Sandbox, guarding
from sandbox_kit.backends.docker import DockerSandbox

from .agreement import RULES
from .handles import use

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

HANGS_AFTER = 120.0

Submit = Callable[[object], str]


def by_executor(executor: Executor) -> Submit:
    return lambda handle: executor.submit(use, handle).result(HANGS_AFTER)


@pytest.fixture(params=["fork", "spawn", "loky", "dask", "celery"])
def submit(request: pytest.FixtureRequest, busybox_image: str, own_tmp: Path) -> Iterator[Submit]:
    """Has a worker use a handle; the engine was named before the worker began."""
    match request.param:
        case "loky":
            yield by_executor(request.getfixturevalue("loky_executor"))
        case "dask":
            yield by_executor(request.getfixturevalue("dask_client").get_executor())
        case "celery":
            app: Any = request.getfixturevalue("celery_app")
            yield lambda handle: app.tasks["runners.celery_tasks.used"].delay(handle).get(timeout=HANGS_AFTER)
        case method:
            with ProcessPoolExecutor(1, mp_context=get_context(method)) as pool:
                yield by_executor(pool)


@pytest.fixture
def box(busybox_image: str) -> Iterator[DockerSandbox]:
    with DockerSandbox(busybox_image, sandbox_id=f"test-{uuid.uuid4().hex[:12]}") as box:
        box.write("file.txt", "x")
        box.write(".env", ", secret")
    yield box
    box.stop(purge=True)


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_a_handle_works_there(submit: Submit, box: DockerSandbox, guarded: bool, started: bool) -> None:
    handle: Sandbox = guarding(box, RULES, commands="inspected") if guarded else box
    if started:
        handle.start()
    assert submit(handle) == ("x, PermissionDeniedError" if guarded else "x, secret")
