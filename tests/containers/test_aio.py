"""A container from coroutines: cancelling kills in it, and the next command works."""

from __future__ import annotations

import asyncio

import pytest
from engine.daemon import Engine

from sandbox_kit import AsyncSandbox

from .channels import MakeBox, nothing_left


async def _cancelled(box: AsyncSandbox, command: str, mark: str, **options: str) -> None:
    task = asyncio.create_task(box.execute(command, **options))  # type: ignore[arg-type]
    while not await box.exists(mark):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("options", [{}, {"stdin": "text"}], ids=["no input", "input"])
def test_a_cancelled_command_is_dead_and_the_next_one_works(
    engine: Engine, image: str, make_box: MakeBox, options: dict[str, str]
) -> None:
    sync = make_box(image)

    async def main() -> None:
        box = AsyncSandbox(sync)
        async with asyncio.timeout(60):
            await _cancelled(box, "sleep 600 & setsid sleep 600 & touch begun; sleep 600", "begun", **options)
            assert nothing_left(engine, sync)
            assert (await box.execute("echo on; exit 3")).exit_code == 3
            await box.aclose()

    asyncio.run(main())


def test_one_that_waits_for_another_is_cancelled_alone(image: str, make_box: MakeBox) -> None:
    async def main() -> None:
        box = AsyncSandbox(make_box(image))
        async with asyncio.timeout(60):
            first = asyncio.create_task(box.execute("touch first; while [ -e first ]; do sleep 0.05; done; echo end"))
            while not await box.exists("first"):
                await asyncio.sleep(0.02)
            second = asyncio.create_task(box.execute("touch second"))
            await asyncio.sleep(0.1)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            await box.remove("first")
            assert (await first).stdout == "end\n"
            assert not await box.exists("second")
            await box.aclose()

    asyncio.run(main())


def test_background_commands_are_read_and_killed(engine: Engine, image: str, make_box: MakeBox) -> None:
    sync = make_box(image)

    async def main() -> None:
        box = AsyncSandbox(sync)
        async with asyncio.timeout(60):
            async with await box.spawn("for i in 1 2 3; do echo $i; done; sleep 600") as process:
                assert [await anext(process.stdout) for _ in range(3)] == ["1\n", "2\n", "3\n"]
            assert nothing_left(engine, sync)
            await box.aclose()

    asyncio.run(main())
