"""A job over many items: in order, a bounded number at once, whoever carries them out."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import InvalidArgumentError, Sandbox, SandboxClosedError, SandboxSpec, register_backend

from .remains import gone, next_process
from .works import HANGS_AFTER, SLEEPS, die_at_one, echo, wait_for_the_later

LOCAL = SandboxSpec("local")

INTERRUPTED = """
import sys
from sandbox_kit import SandboxSpec

try:
    SandboxSpec("local").map("echo begun; sleep 1000", range(10), sandboxes=int(sys.argv[1]), files=lambda item: print(
        "begun", item, flush=True) or {})
except KeyboardInterrupt:
    print("interrupted")
"""

pytestmark = pytest.mark.usefixtures("tidy")


class Recording(Executor):
    """Does what it is told when it is told to, one after the other; counts what it was given."""

    def __init__(self) -> None:
        self.given = 0
        self.open: list[Future[Any]] = []
        self.most_open = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.given += 1
        self.open.append(future)
        self.most_open = max(self.most_open, len(self.open))
        threading.Thread(target=self._do, args=(future, fn, args)).start()
        return future

    def _do(self, future: Future[Any], fn: Any, args: tuple[Any, ...]) -> None:
        result = fn(*args)
        self.open.remove(future)
        future.set_result(result)


def values(results: list[Any]) -> list[Any]:
    return [result.check().value for result in results]


def test_results_are_in_order_also_where_the_last_item_ends_first(tmp_path: Path) -> None:
    (tmp_path / "4").touch()
    with ThreadPoolExecutor(4) as pool:
        items = [(index, str(tmp_path)) for index in range(4)]
        assert values(LOCAL.map(wait_for_the_later, items, executor=pool, sandboxes=4)) == [0, 1, 2, 3]


def test_a_long_iterable_is_taken_as_it_is_needed() -> None:
    executor, ahead = Recording(), []

    def items() -> Iterator[int]:
        for number in range(30):
            ahead.append(executor.given - number)
            yield number

    assert len(LOCAL.map("true", items(), executor=executor, window=3, sandboxes=3)) == 30
    assert executor.most_open <= 3
    assert ahead == [0] * 30


def test_a_command_that_lacks_a_field_starts_nothing() -> None:
    executor = Recording()
    with pytest.raises(InvalidArgumentError, match="no 'nme'"):
        LOCAL.map("echo {nme}", [{"name": "a"}], executor=executor)
    with pytest.raises(InvalidArgumentError, match="no 'name'"):
        LOCAL.map("echo {name}", [{"name": "a"}, {}], executor=executor)
    assert executor.given == 0
    results = LOCAL.map("echo {name}", iter([{"name": "a"}, {}]), executor=executor)
    assert [isinstance(result.error, InvalidArgumentError) for result in results] == [False, True]


@pytest.mark.parametrize(
    "values", [{"executor": 2}, {"window": 0}, {"progress": 7}, {"sandboxes": 0}, {"timeout": -1}, {"artifacts": [7]}]
)
def test_an_argument_that_no_map_could_use_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(values))):
        LOCAL.map("true", [1], **values)


@pytest.mark.parametrize("spec", [SandboxSpec("state"), SandboxSpec("local", {"root": "/"})], ids=["files", "root"])
def test_a_spec_that_jobs_cannot_have_is_refused(spec: SandboxSpec) -> None:
    executor = Recording()
    with pytest.raises(InvalidArgumentError, match="spec"):
        spec.map("true", [1], executor=executor)
    assert executor.given == 0


def test_a_library_that_only_the_workers_have_may_be_missing_here() -> None:
    register_backend("test-not-here", "no_such_module_here:Sandbox", extra="nothing")
    (result,) = SandboxSpec("test-not-here").map("true", [1])
    assert isinstance(result.error, ImportError)


def test_an_executor_that_takes_nothing_is_the_error_of_each_item() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    results = LOCAL.map(echo, range(3), executor=pool)
    assert [type(result.error) for result in results] == [RuntimeError] * 3


def test_what_was_cancelled_by_others_is_an_error_of_its_item() -> None:
    class Cancelling(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            return future

    (result,) = LOCAL.map(echo, [1], executor=Cancelling())
    assert type(result.error).__name__ == "CancelledError"


def test_an_end_ends_what_runs_in_threads_of_the_caller() -> None:
    both_have_begun = threading.Barrier(2, timeout=HANGS_AFTER)

    ended: list[BaseException] = []

    def work(sandbox: Sandbox, item: int) -> None:
        both_have_begun.wait()
        if item:
            try:
                sandbox.execute("sleep 1000", timeout=HANGS_AFTER)
            except SandboxClosedError as error:
                ended.append(error)

    def progress(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool, pytest.raises(KeyboardInterrupt):
        LOCAL.map(work, range(2), executor=pool, sandboxes=2, progress=progress)
    assert len(ended) == 1


@pytest.mark.parametrize("sandboxes", [1, 2])
def test_an_interrupt_ends_the_map_and_its_sandboxes(sandboxes: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(sandboxes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().split()[0] for _ in range(sandboxes)] == ["begun"] * sandboxes
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=HANGS_AFTER)
    assert (rest, process.returncode) == ("interrupted\n", 0)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_that_is_killed_fails_its_items_and_leaves_nothing(tmp_path: Path, method: str) -> None:
    items = [{"number": number, "marker": f"{tmp_path}/marker"} for number in range(4)]
    with ProcessPoolExecutor(1, mp_context=get_context(method)) as pool:
        results = LOCAL.map(die_at_one, items, executor=pool)
    assert [result.value for result in results] == [0, None, None, None]
    assert [type(result.error) for result in results[1:]] == [BrokenProcessPool] * 3
    assert gone(SLEEPS)
    next_process()
