"""Job runners, started for these tests; where their library is missing they skip, and fail under CI."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
from jobs.remains import workspaces_in

if os.name != "posix":
    collect_ignore_glob = ["test_*.py"]

UP_WITHIN = 60.0
TESTS = Path(__file__).parents[1]

Library = Callable[[str], ModuleType]


@pytest.fixture(scope="session")
def library(lacking: Callable[[str], NoReturn]) -> Library:
    """Imports a library, or leaves the test out."""

    def load(name: str) -> ModuleType:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            lacking(f"needs {name}: {error}")

    return load


@pytest.fixture(scope="module")
def own_tmp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory in which the workers that a module starts, and this process, have their workspaces."""
    with workspaces_in(tmp_path_factory.mktemp("tmp")) as place:
        yield place


@pytest.fixture(scope="module")
def loky_executor(library: Library, own_tmp: Path) -> Iterator[Executor]:
    """Two workers of loky."""
    executor: Executor = library("loky").ProcessPoolExecutor(2)
    with executor:
        yield executor


@pytest.fixture(scope="module")
def dask_client(library: Library, own_tmp: Path) -> Iterator[Any]:
    """A client of two workers of Dask, each a process with a nanny."""
    distributed = library("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=UP_WITHIN)
        yield client


@pytest.fixture(scope="module")
def redis_url(library: Library, needs: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server of this module's own, on a free port of the loopback."""
    needs("redis-server")
    client_library = library("redis")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = tmp_path_factory.mktemp("redis")
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(place)]
    with (place / "log").open("wb") as log, ended(subprocess.Popen(command, stdout=log, stderr=log)):
        with client_library.Redis("127.0.0.1", port) as client:
            eventually(lambda: answers(client, client_library.ConnectionError))
        yield f"redis://127.0.0.1:{port}/0"


def answers(client: Any, refused: type[Exception]) -> bool:
    try:
        return bool(client.ping())
    except refused:
        return False


def eventually(condition: Callable[[], object]) -> None:
    until = time.monotonic() + UP_WITHIN
    while not condition():
        assert time.monotonic() < until, "it does not come up"
        time.sleep(0.05)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process when the block does."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(UP_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(UP_WITHIN)


@pytest.fixture(scope="module")
def celery_app(library: Library, redis_url: str, own_tmp: Path) -> Iterator[Any]:
    """The application of ``celery_tasks``, with a worker of two processes that is up."""
    library("celery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SANDBOX_KIT_TEST_BROKER", redis_url)
        patch.setenv("C_FORCE_ROOT", "true")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *sys.path[1:]]))
        patch.delitem(sys.modules, "runners.celery_tasks", raising=False)
        app = importlib.import_module("runners.celery_tasks").app
        command = [sys.executable, "-m", "celery", "-A", "runners.celery_tasks", "worker", "-c", "2", "-l", "WARNING",
                   "--without-gossip", "--without-mingle"]  # fmt: skip
        with (
            (own_tmp / "worker.log").open("wb") as log,
            ended(subprocess.Popen(command, stdout=log, stderr=log, cwd=own_tmp)),
        ):
            eventually(lambda: app.control.ping(timeout=0.5))
            yield app
        app.close()
