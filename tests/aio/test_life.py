"""The life of a sandbox from coroutines: threads that come and go, loops, copies, forks."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import AsyncBackend, AsyncSandbox, LocalSandbox, SandboxPolicy, SessionManager, StateBackend
from sandbox_kit.errors import InvalidArgumentError, SandboxClosedError
from tests.local.processes import living, unique_seconds

from .loops import come_down, run, threads, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def test_the_block_starts_and_stops(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox(LocalSandbox()) as box:
            await box.write("f", "x")
            root = Path(box.work_dir)
            assert (root / "f").read_text() == "x"
        assert not root.exists()
        kept = AsyncSandbox(LocalSandbox(tmp_path))
        assert await kept.start() is kept
        await kept.write("f", "x")
        await kept.stop(purge=True)
        assert (tmp_path / "f").exists()
        with pytest.raises(SandboxClosedError):
            await kept.execute("true")
        await kept.start()
        assert (await kept.execute("cat f")).stdout == "x"
        await kept.stop()

    run(main())


def test_only_a_sandbox_is_taken() -> None:
    with pytest.raises(InvalidArgumentError):
        AsyncSandbox(StateBackend())  # type: ignore[arg-type]


def test_there_are_no_threads_before_the_first_call_nor_after_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        with LocalSandbox(tmp_path) as sync:
            before = threads()
            box = AsyncSandbox(sync)
            assert threads() <= before
            await asyncio.gather(*(box.execute("true") for _ in range(4)))
            assert threads() > before
            await box.aclose()
            assert come_down(before)
            assert (await box.execute("echo again")).ok
            await box.aclose()
            assert come_down(before)

    run(main())


def test_one_that_is_dropped_leaves_no_threads() -> None:
    before = threads()
    box = AsyncBackend(StateBackend())
    run(box.ls())
    del box
    gc.collect()
    assert come_down(before)


def test_stop_ends_what_runs_and_tells_who_waits(tmp_path: Path) -> None:
    mark = unique_seconds()

    async def main() -> None:
        box = await AsyncSandbox(LocalSandbox(tmp_path), threads=1).start()
        running = asyncio.create_task(box.execute(f"sleep {mark}"))
        waiting = asyncio.create_task(box.execute("touch ran"))
        await until(lambda: bool(living(mark)))
        assert await box.is_alive()
        await box.stop()
        for task in (running, waiting):
            with pytest.raises(SandboxClosedError):
                await task
        assert living(mark) == []

    run(main())
    assert not (tmp_path / "ran").exists()


def test_a_start_that_is_cancelled_is_undone(tmp_path: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(LocalSandbox):
        def __enter__(self) -> Slow:
            entered.set()
            assert go_on.wait(30)
            return super().__enter__()

    async def main() -> None:
        sync = Slow(tmp_path)

        async def use() -> None:
            async with AsyncSandbox(sync):
                raise AssertionError

        task = asyncio.create_task(use())
        await until(entered.is_set)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not sync.is_alive()

    run(main())


def test_several_loops_use_it_at_once_and_one_after_the_other(tmp_path: Path) -> None:
    with LocalSandbox(tmp_path) as sync:
        box = AsyncSandbox(sync)
        found: list[str] = []

        def work(name: str) -> None:
            other = {"a": "b", "b": "a"}[name]
            command = f"touch {name}; while ! [ -e {other} ]; do sleep 0.02; done; echo {name}"
            found.append(run(box.execute(command)).stdout)

        both = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(60)
        assert sorted(found) == ["a\n", "b\n"]
        assert run(box.read("a")) == ""
        run(box.aclose())


def test_it_is_closed_from_one_loop_while_others_call() -> None:
    box = AsyncBackend(StateBackend({"f": "x"}), threads=2)
    failures: list[BaseException] = []

    async def call() -> None:
        for _ in range(300):
            assert await box.read("f") == "x"

    async def close() -> None:
        for _ in range(300):
            await box.aclose()

    def work(make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            run(make())
        except BaseException as error:
            failures.append(error)

    every, before = sys.getswitchinterval(), threads()
    sys.setswitchinterval(1e-6)
    try:
        workers = [
            threading.Thread(target=work, args=(make,), daemon=True) for make in (call, call, call, close, close)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    finally:
        sys.setswitchinterval(every)
    assert not any(worker.is_alive() for worker in workers)
    assert failures == []
    run(box.aclose())
    assert come_down(before)


def test_it_pickles_as_its_sandbox_does(tmp_path: Path) -> None:
    async def main() -> None:
        box = AsyncSandbox(LocalSandbox(tmp_path), threads=2)
        async with box:
            await box.write("f", "x")
            copy: AsyncSandbox = pickle.loads(pickle.dumps(box))
        async with copy:
            assert await copy.read("f") == "x"
        assert repr(copy) == repr(box) == f"AsyncSandbox({box.inner!r})"
        assert pickle.loads(pickle.dumps(AsyncBackend(StateBackend({"f": "y"})))).inner.read("f") == "y"

    run(main())


def _in_child(box: AsyncBackend) -> None:
    assert run(box.read("f")) == "x"


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    box = AsyncBackend(StateBackend({"f": "x"}), threads=1)
    assert run(box.read("f")) == "x"
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(box,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    run(box.aclose())


def test_a_session_is_given_back_at_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        with SessionManager(SandboxPolicy(), workspace_root=tmp_path, backend="local") as sessions:
            for content in ("", "x"):
                async with AsyncSandbox(await asyncio.to_thread(sessions.open, "one")) as box:
                    assert (await box.execute("cat f 2>/dev/null")).stdout == content
                    await box.write("f", "x")

    run(main())
