"""Files, from a coroutine: what the methods give, raise and stream."""

from __future__ import annotations

import asyncio
import tarfile
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from sandbox_kit import AsyncBackend, PermissionRule, PermissionRuleset, StateBackend, guarding
from sandbox_kit.errors import (
    ApprovalRequiredError,
    InvalidArgumentError,
    PathNotFoundError,
    PatternError,
    PermissionDeniedError,
)

from .loops import run, until

TREE = {"a.txt": "one\ntwo\n", "b/c.txt": "two\n", ".env": "TOKEN"}


def test_results_are_those_of_the_methods(tmp_path: Path) -> None:
    sync = StateBackend(TREE)
    (tmp_path / "local").write_text("from the host")

    async def main() -> None:
        async with AsyncBackend(sync) as files:
            assert (files.id, files.work_dir, files.capabilities) == (sync.id, sync.work_dir, sync.capabilities)
            assert await files.read("a.txt", offset=1, limit=1) == "two\n"
            assert await files.read_bytes("a.txt") == b"one\ntwo\n"
            assert (await files.edit("a.txt", "one", "three")).replacements == 1
            assert await files.ls() == sync.ls()
            assert [info.path for info in await files.glob("**/*.txt")] == ["a.txt", "b/c.txt"]
            assert await files.stat("a.txt") == sync.stat("a.txt")
            await files.mkdir("d/e")
            await files.move("a.txt", "d/a.txt")
            await files.write("new", b"\x00")
            await files.remove("b", recursive=True)
            assert (await files.exists("b"), await files.exists("new")) == (False, True)
            await files.upload(tmp_path / "local", "up")
            assert await files.download("up", tmp_path / "down") == 0

    run(main())
    assert sync.read("d/a.txt") == "three\ntwo\n"
    assert (tmp_path / "down").read_text() == "from the host"


def test_errors_are_those_of_the_methods() -> None:
    async def main() -> None:
        async with AsyncBackend(StateBackend()) as files:
            with pytest.raises(PathNotFoundError):
                await files.read("missing")
            with pytest.raises(InvalidArgumentError):
                await files.read("missing", offset=-1)
            with pytest.raises(PatternError):
                await files.grep("(")

    run(main())


@pytest.mark.parametrize("threads", [0, -1, True, "4"])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads: int) -> None:
    with pytest.raises(InvalidArgumentError):
        AsyncBackend(StateBackend(), threads=threads)


def test_only_a_backend_is_taken() -> None:
    with pytest.raises(InvalidArgumentError):
        AsyncBackend("files")  # type: ignore[arg-type]


def test_matches_come_one_by_one_and_with_what_is_told_of_them() -> None:
    async def main() -> None:
        async with AsyncBackend(StateBackend(TREE)) as files:
            async with await files.grep("two") as matches:
                assert sorted([match.path async for match in matches]) == ["a.txt", "b/c.txt"]
                assert (matches.skipped, matches.truncated) == ((), False)
            limited = await files.grep("two", limit=1)
            assert len([match async for match in limited]) == 1
            assert limited.truncated
            async with await files.grep("two") as closed:
                await anext(closed)
            assert [match async for match in closed] == []

    run(main())


def test_a_file_is_read_bit_by_bit() -> None:
    async def main() -> None:
        async with AsyncBackend(StateBackend(TREE)) as files:
            async with await files.open_read("a.txt") as stream:
                assert await stream.read(2) == b"on"
                assert await stream.readline() == b"e\n"
                assert await stream.read() == b"two\n"
            async with await files.open_read("a.txt") as stream:
                assert [line async for line in stream] == [b"one\n", b"two\n"]
            await stream.close()
            with pytest.raises(ValueError, match="closed"):
                await stream.read()

    run(main())


def test_an_archive_is_saved_whole(tmp_path: Path) -> None:
    saved = tmp_path / "tree.tar"
    saved.write_text("what was there")
    rules = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")])

    async def main() -> None:
        async with AsyncBackend(guarding(StateBackend(TREE), rules)) as files:
            async with await files.export(denied="skip") as archive:
                await archive.save(saved)
                assert archive.denied == 1
            async with await files.export(denied="skip") as archive:
                assert await archive.read() == saved.read_bytes()

    run(main())
    with tarfile.open(saved) as tar:
        assert sorted(tar.getnames()) == ["a.txt", "b", "b/c.txt"]
    assert [each.name for each in tmp_path.iterdir()] == ["tree.tar"]


def test_rules_hold_and_a_person_is_asked_beside_the_loop() -> None:
    rules = PermissionRuleset(rules=[PermissionRule("a.txt", "ask"), PermissionRule("**/.env", "deny")])
    asked: list[bool] = []

    def ask(operation: str, target: str, reason: str) -> bool:
        asked.append(threading.current_thread() is threading.main_thread())
        return True

    async def main() -> None:
        async with AsyncBackend(guarding(StateBackend(TREE), rules, ask=ask)) as files:
            assert await files.read("a.txt") == "one\ntwo\n"
            with pytest.raises(PermissionDeniedError):
                await files.read(".env")
        async with AsyncBackend(guarding(StateBackend(TREE), rules)) as files:
            with pytest.raises(ApprovalRequiredError):
                await files.read("a.txt")

    run(main())
    assert asked == [False]


class Slow:
    """A file to write from, which gives its content when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self._pieces = [b"whole", b""]

    def read(self, size: int = -1) -> bytes:
        self.begun.set()
        assert self.go_on.wait(30)
        return self._pieces.pop(0)


def as_file(slow: Slow) -> BinaryIO:
    return slow  # type: ignore[return-value]


def test_a_cancelled_write_ends_before_the_cancellation_leaves_and_is_whole() -> None:
    sync, slow = StateBackend({"f": "old"}), Slow()

    async def main() -> None:
        async with AsyncBackend(sync) as files:
            task = asyncio.create_task(files.write("f", as_file(slow)))
            await until(slow.begun.is_set)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=0.05)
            assert not done
            task.cancel()
            slow.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sync.read("f") == "whole"

    run(main())


def test_a_call_that_is_cancelled_before_its_turn_never_runs() -> None:
    sync, slow = StateBackend(), Slow()

    async def main() -> None:
        async with AsyncBackend(sync, threads=1) as files:
            first = asyncio.create_task(files.write("first", as_file(slow)))
            await until(slow.begun.is_set)
            second = asyncio.create_task(files.write("second", "x"))
            await asyncio.sleep(0.01)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            slow.go_on.set()
            await first

    run(main())
    assert [info.path for info in sync.ls()] == ["first"]


class Waiting(StateBackend):
    """Files that are listed when that is told to go on."""

    def __init__(self) -> None:
        super().__init__({"f": "x"})
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def exists(self, path: object) -> bool:
        self.begun.set()
        return self.go_on.wait(30)


def test_a_cancelled_look_is_left_to_itself() -> None:
    async def main() -> None:
        sync = Waiting()
        async with AsyncBackend(sync) as files:
            task = asyncio.create_task(files.exists("f"))
            await until(sync.begun.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not sync.go_on.is_set()
            sync.go_on.set()

    run(main())
