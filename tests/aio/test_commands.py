"""Commands, from a coroutine: cancelled, they are dead with all that they started, and the sandbox goes on."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import AsyncSandbox, LocalSandbox, OperationPermissions, PermissionRuleset, Sandbox, guarding
from sandbox_kit.errors import CommandFailedError, CommandTimeoutError, InvalidArgumentError
from tests.local.processes import living, unique_seconds

from .loops import run, until

pytestmark = [
    pytest.mark.needs("setsid"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
]

BOXES = ["plain", "guarded"]


@pytest.fixture(params=BOXES)
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    box: Sandbox = LocalSandbox(tmp_path)
    if request.param == "guarded":
        box = guarding(box, PermissionRuleset())
    with box:
        yield box


def forking(mark: str) -> str:
    """A command that says nothing once it has forked children in and out of its session."""
    return f"sleep {mark} & setsid sleep {mark} & touch begun; sleep {mark}"


def begun(sandbox: Sandbox, mark: str) -> bool:
    return sandbox.exists("begun") and len(living(mark)) >= 3


def test_results_are_those_of_the_method(sandbox: Sandbox) -> None:
    async def main() -> None:
        box = AsyncSandbox(sandbox)
        result = await box.execute("cat; echo $A >&2; exit 3", stdin="in", env={"A": "b"}, cwd=".", timeout=30)
        assert (result.exit_code, result.stdout, result.stderr) == (3, "in", "b\n")
        with pytest.raises(CommandFailedError):
            await box.execute("exit 1", check=True)
        with pytest.raises(CommandTimeoutError):
            await box.execute("sleep 60", timeout=0.1)
        with pytest.raises(InvalidArgumentError):
            await box.execute("true", on_output="print")  # type: ignore[arg-type]
        assert await box.is_alive()
        assert (await box.usage()) is not None
        await box.aclose()

    run(main())


def test_a_cancelled_command_is_dead_before_the_cancellation_leaves(sandbox: Sandbox) -> None:
    mark = unique_seconds()

    async def main() -> None:
        box = AsyncSandbox(sandbox)
        task = asyncio.create_task(box.execute(forking(mark)))
        await until(lambda: begun(sandbox, mark))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert living(mark) == []
        assert (await box.execute("echo on")).stdout == "on\n"
        await box.aclose()

    run(main())


def test_so_it_is_when_it_was_cancelled_again_meanwhile(sandbox: Sandbox) -> None:
    mark = unique_seconds()

    async def main() -> None:
        box = AsyncSandbox(sandbox)
        task = asyncio.create_task(box.execute(forking(mark)))
        await until(lambda: begun(sandbox, mark))
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert living(mark) == []
        await box.aclose()

    run(main())


def test_a_timeout_of_asyncio_kills_it(sandbox: Sandbox) -> None:
    mark = unique_seconds()

    async def over_once_begun(limit: asyncio.Timeout) -> None:
        await until(lambda: begun(sandbox, mark))
        limit.reschedule(asyncio.get_running_loop().time())

    async def limited(box: AsyncSandbox) -> None:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            group.create_task(over_once_begun(limit))
            await box.execute(forking(mark))

    async def main() -> None:
        box = AsyncSandbox(sandbox)
        with pytest.raises(TimeoutError):
            await limited(box)
        assert living(mark) == []
        await box.aclose()

    run(main())


def test_the_failure_of_one_in_a_group_kills_the_others(sandbox: Sandbox) -> None:
    mark = unique_seconds()

    async def both(*coroutines: Coroutine[Any, Any, object]) -> None:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)

    async def fail() -> None:
        await until(lambda: begun(sandbox, mark))
        raise LookupError

    async def main() -> None:
        box = AsyncSandbox(sandbox)
        with pytest.raises(ExceptionGroup):
            await both(box.execute(forking(mark)), fail())
        assert living(mark) == []
        await box.aclose()

    run(main())


def test_several_run_at_once_and_further_ones_wait(sandbox: Sandbox) -> None:
    async def main() -> None:
        box = AsyncSandbox(sandbox, threads=2)
        meeting = [f"touch {own}; while ! [ -e {other} ]; do sleep 0.02; done" for own, other in ("ab", "ba")]
        results = await asyncio.gather(*map(box.execute, [*meeting, "echo third"]))
        assert [result.ok for result in results] == [True] * 3
        await box.aclose()

    run(main())


def test_output_comes_in_the_thread_of_the_loop(sandbox: Sandbox) -> None:
    heard: list[tuple[str, str]] = []
    threads: set[int] = set()

    def on_output(stream: str, text: str) -> None:
        asyncio.current_task()  # only from within a loop
        threads.add(threading.get_ident())
        heard.append((stream, text))

    async def main() -> None:
        box = AsyncSandbox(sandbox)
        result = await box.execute("for i in 1 2 3; do echo $i; sleep 0.02; done", on_output=on_output)
        assert "".join(text for _, text in heard) == result.output == "1\n2\n3\n"
        assert threads == {threading.get_ident()}
        await box.aclose()

    run(main())


async def _cancelled_after(heard: asyncio.Event, execute: Coroutine[Any, Any, object]) -> None:
    task = asyncio.create_task(execute)
    await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_task_that_a_listener_makes_outlives_the_command(sandbox: Sandbox) -> None:
    tasks: list[asyncio.Task[str]] = []

    async def main() -> None:
        heard, over = asyncio.Event(), asyncio.Event()

        async def unrelated() -> str:
            await over.wait()
            return (await asyncio.to_thread(sandbox.execute, "echo fine")).stdout

        def on_output(stream: str, text: str) -> None:
            tasks.append(asyncio.create_task(unrelated()))
            heard.set()

        box = AsyncSandbox(sandbox)
        await _cancelled_after(heard, box.execute("echo out; sleep 600", on_output=on_output))
        over.set()
        assert await tasks[0] == "fine\n"
        await box.aclose()

    run(main())


def test_so_does_one_that_who_is_asked_makes(tmp_path: Path) -> None:
    rules = PermissionRuleset("allow", execute=OperationPermissions("ask"))
    tasks: list[asyncio.Task[str]] = []

    async def main() -> None:
        loop, asked, over = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        plain = LocalSandbox(tmp_path)

        async def unrelated() -> str:
            await over.wait()
            return (await asyncio.to_thread(plain.execute, "echo fine")).stdout

        async def answer() -> bool:
            tasks.append(asyncio.create_task(unrelated()))
            asked.set()
            return True

        def ask(*_: str) -> bool:
            return asyncio.run_coroutine_threadsafe(answer(), loop).result(30)

        async with AsyncSandbox(guarding(plain, rules, ask=ask)) as box:
            await _cancelled_after(asked, box.execute("sleep 600"))
            over.set()
            assert await tasks[0] == "fine\n"

    run(main())


def test_what_who_is_asked_executes_is_not_cancelled(tmp_path: Path) -> None:
    rules = PermissionRuleset("allow", execute=OperationPermissions("ask"))
    plain, heard, said = LocalSandbox(tmp_path), threading.Event(), []

    def ask(*_: str) -> bool:
        heard.set()
        said.append(plain.execute("while ! [ -e over ]; do sleep 0.02; done; echo fine").stdout)
        return True

    async def main() -> None:
        async with AsyncSandbox(guarding(plain, rules, ask=ask)) as box:
            task = asyncio.create_task(box.execute("sleep 600"))
            await until(heard.is_set)
            task.cancel()
            await asyncio.sleep(0.2)
            plain.write("over", "")
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())
    assert said == ["fine\n"]


@pytest.mark.parametrize("threads", [1, 2])
def test_who_is_asked_may_use_the_same_sandbox(tmp_path: Path, threads: int) -> None:
    rules = PermissionRuleset("allow", execute=OperationPermissions("ask"))

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def answer() -> bool:
            return await box.read("answer") == "yes"

        def ask(*_: str) -> bool:
            return asyncio.run_coroutine_threadsafe(answer(), loop).result(30)

        async with AsyncSandbox(guarding(LocalSandbox(tmp_path), rules, ask=ask), threads=threads) as box:
            await box.write("answer", "yes")
            results = await asyncio.gather(*(box.execute(f"echo {number}") for number in range(threads)))
            assert [result.stdout for result in results] == [f"{number}\n" for number in range(threads)]

    run(main())


def test_what_a_listener_raises_ends_the_command(sandbox: Sandbox) -> None:
    mark = unique_seconds()

    def on_output(stream: str, text: str) -> None:
        raise LookupError(text)

    async def main() -> None:
        box = AsyncSandbox(sandbox)
        with pytest.raises(LookupError, match="out"):
            await box.execute(f"echo out; sleep {mark}", on_output=on_output)
        assert living(mark) == []
        await box.aclose()

    run(main())


def test_context_variables_reach_who_is_asked(tmp_path: Path) -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")
    told: list[str] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        told.append(request.get())
        return True

    async def main() -> None:
        request.set("number 7")
        rules = PermissionRuleset("allow", execute=OperationPermissions("ask"))
        async with AsyncSandbox(guarding(LocalSandbox(tmp_path), rules, ask=ask)) as box:
            await box.execute("true")

    run(main())
    assert told == ["number 7"]
