"""A background command for asyncio. What waits for it does so in threads beside those of the calls."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import TracebackType
from typing import BinaryIO, Self

from sandbox_kit.aio.lines import AsyncLines
from sandbox_kit.aio.threads import Threads, begun, outcome
from sandbox_kit.arguments import check_timeout
from sandbox_kit.contract import Process
from sandbox_kit.errors import SandboxTimeoutError

__all__ = ["AsyncInput", "AsyncProcess"]


class AsyncInput:
    """The standard input of a process. A cancelled write may have been made, or be made yet.

    Args:
        stream: what is written to.
        threads: where.
    """

    def __init__(self, stream: BinaryIO, threads: Threads) -> None:
        self._stream = stream
        self._threads = threads

    async def write(self, data: bytes) -> int:
        """Write *data*, which :meth:`flush` or :meth:`close` sends; return its length."""
        return await self._threads.look(lambda: self._stream.write(data), beside=True)

    async def flush(self) -> None:
        """Send what was written.

        Raises:
            BrokenPipeError: the process reads no more.
        """
        await self._threads.look(self._stream.flush, beside=True)

    async def close(self) -> None:
        """Send what was written, and let the process read the end of its input; twice is fine."""
        await self._threads.look(self._stream.close, beside=True)


class AsyncProcess:
    """A command that runs in the background; leaving its ``async with`` kills its whole tree.

    It does not end with a coroutine that waits for it, and is kept alive by one that reads or waits.

    Args:
        process: the command.
        threads: where it is killed.

    Attributes:
        stdout, stderr: the lines, by ``async for``.
        stdin: what to write to, with ``stdin=subprocess.PIPE``; else None.
    """

    def __init__(self, process: Process, threads: Threads) -> None:
        self._process = process
        self._threads = threads
        self._end: Future[int] | None = None
        self.stdout = AsyncLines(process.stdout)
        self.stderr = AsyncLines(process.stderr)
        self.stdin = None if process.stdin is None else AsyncInput(process.stdin, threads)

    def __repr__(self) -> str:
        return f"AsyncProcess({self._process!r})"

    @property
    def pid(self) -> int:
        """As :attr:`Process.pid`."""
        return self._process.pid

    async def poll(self) -> int | None:
        """As :meth:`Process.poll`."""
        return await self._threads.look(self._process.poll, beside=True)

    async def wait(self, timeout: float | None = None) -> int:
        """As :meth:`Process.wait`; cancelled, the process goes on running."""
        check_timeout(timeout)
        if self._end is None:
            self._end = begun(self._process.wait)
        end = outcome(self._end)
        await asyncio.wait([end], timeout=timeout)
        if not end.done():
            raise SandboxTimeoutError(f"process {self.pid} did not end within {timeout} s", timeout)
        return end.result()

    async def kill(self) -> None:
        """As :meth:`Process.kill`."""
        await self._threads.act(self._process.kill, beside=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()
