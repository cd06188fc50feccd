"""Background commands, from a coroutine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import AsyncSandbox, LocalSandbox, Process
from sandbox_kit.aio import AsyncLines
from sandbox_kit.errors import InvalidArgumentError, SandboxTimeoutError
from tests.local.processes import living, unique_seconds

from .loops import come_down, run, threads, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def test_its_output_its_input_and_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox(LocalSandbox(tmp_path)) as box:
            process = await box.spawn("echo on >&2; while read x; do echo got $x; done; exit 3", stdin=subprocess.PIPE)
            assert process.pid > 0
            assert await process.poll() is None
            assert process.stdin is not None
            assert await process.stdin.write(b"a\nb\n") == 4
            await process.stdin.flush()
            assert [await anext(process.stdout), await anext(process.stdout)] == ["got a\n", "got b\n"]
            with pytest.raises(SandboxTimeoutError):
                await process.wait(0.05)
            await process.stdin.close()
            assert await process.wait() == await process.poll() == 3
            assert [line async for line in process.stderr] == ["on\n"]
            assert [line async for line in process.stdout] == []
            with pytest.raises(InvalidArgumentError):
                await process.wait(-1)

    run(main())


def test_leaving_its_block_kills_the_tree(tmp_path: Path) -> None:
    mark = unique_seconds()

    async def main() -> None:
        async with AsyncSandbox(LocalSandbox(tmp_path)) as box:
            async with await box.spawn(f"sleep {mark} & echo begun; sleep {mark}") as process:
                assert await anext(process.stdout) == "begun\n"
                assert living(mark)
            assert living(mark) == []
            assert await process.wait() == 137

    run(main())


def test_a_cancelled_wait_or_read_loses_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox(LocalSandbox(tmp_path)) as box, await box.spawn("read x; echo $x", stdin=-1) as process:
            for waiting in (process.wait(), anext(process.stdout)):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await waiting
            assert process.stdin is not None
            await process.stdin.write(b"line\n")
            await process.stdin.close()
            assert [line async for line in process.stdout] == ["line\n"]
            assert await process.wait() == 0

    run(main())


def test_more_of_them_than_threads_can_be_waited_for_and_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncSandbox(LocalSandbox(tmp_path), threads=1) as box:
            processes = [await box.spawn("sleep 60") for _ in range(3)]
            waits = [asyncio.create_task(process.wait()) for process in processes]
            reads = [asyncio.create_task(anext(process.stdout, "end")) for process in processes]
            assert (await box.execute("echo beside")).stdout == "beside\n"
            for process in processes:
                await process.kill()
            assert await asyncio.gather(*waits) == [137] * 3
            assert await asyncio.gather(*reads) == ["end"] * 3

    run(main())


def test_stop_kills_what_somebody_waits_for_and_leaves_no_thread(tmp_path: Path) -> None:
    async def main() -> None:
        sync = LocalSandbox(tmp_path).start()
        before = threads()
        box = AsyncSandbox(sync)
        process = await box.spawn("sleep 60")
        wait, read = asyncio.create_task(process.wait()), asyncio.create_task(anext(process.stdout, "end"))
        await asyncio.sleep(0.05)
        await box.stop()
        assert (await wait, await read) == (137, "end")
        assert come_down(before)

    run(main())


class Cancelling(LocalSandbox):
    """Starts a command, and has the task that asked for it cancelled before it gives it away.

    Attributes:
        asked: the loop and the task.
    """

    asked: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]]

    def spawn(self, *args: Any, **options: Any) -> Process:
        process = super().spawn(*args, **options)
        asyncio.run_coroutine_threadsafe(self._cancel(), self.asked[0]).result(30)
        return process

    async def _cancel(self) -> None:
        self.asked[1].cancel()


def test_what_is_spawned_for_nobody_is_killed(tmp_path: Path) -> None:
    mark = unique_seconds()

    async def main() -> None:
        sync = Cancelling(tmp_path)
        async with AsyncSandbox(sync) as box:
            task = asyncio.create_task(box.spawn(f"sleep {mark}"))
            sync.asked = asyncio.get_running_loop(), task
            with pytest.raises(asyncio.CancelledError):
                await task
            assert living(mark) == []

    run(main())


def test_many_lines_come_whole_and_in_order() -> None:
    async def main() -> None:
        lines = AsyncLines(f"{number}\n" for number in range(2000))
        assert [line async for line in lines] == [f"{number}\n" for number in range(2000)]
        assert [line async for line in lines] == []

    run(main())


def test_no_more_lines_are_taken_ahead_than_a_few_hundred() -> None:
    taken: list[int] = []

    def endless() -> Iterator[str]:
        while True:
            taken.append(len(taken))
            yield "x\n"

    async def main() -> None:
        lines = AsyncLines(endless())
        await anext(lines)
        await until(lambda: len(taken) >= 256)
        await asyncio.sleep(0.05)
        assert len(taken) <= 257

    run(main())


def test_lines_that_fail_say_so() -> None:
    def failing() -> Iterator[str]:
        yield "one\n"
        raise LookupError("lost")

    async def main() -> None:
        lines = AsyncLines(failing())
        assert await anext(lines) == "one\n"
        with pytest.raises(LookupError, match="lost"):
            await anext(lines)

    run(main())
