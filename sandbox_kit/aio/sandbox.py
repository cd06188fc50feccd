"""AsyncSandbox: files and commands for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import BinaryIO, Self

from sandbox_kit.aio.files import Files
from sandbox_kit.aio.listening import in_loop
from sandbox_kit.aio.process import AsyncProcess
from sandbox_kit.arguments import MAX_OUTPUT, check_callable
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.paths import SandboxPath
from sandbox_kit.types import CommandResult, Usage

__all__ = ["AsyncSandbox"]


class AsyncSandbox(Files[Sandbox]):
    """A sandbox for asyncio: each method of :class:`~sandbox_kit.contract.Sandbox` as a coroutine.

    Arguments, results and errors are those of the method. Any number of event loops may use it, in any
    threads. A coroutine that is cancelled kills its command, the whole tree, before the CancelledError
    leaves it; the sandbox stays usable. Leaving ``async with`` is that of the sandbox: it stops, or is given back.

    Args:
        inner: the sandbox.
        threads: how many calls go on at once; further ones wait for their turn.

    Raises:
        InvalidArgumentError: *inner* is no sandbox, or *threads* no positive integer.
    """

    def __init__(self, inner: Sandbox, *, threads: int = 4) -> None:
        if not isinstance(inner, Sandbox):
            raise InvalidArgumentError(f"inner: {inner!r} is not a Sandbox")
        super().__init__(inner, threads=threads)

    async def start(self) -> Self:
        """As :meth:`Sandbox.start`; cancelled, it may have started."""
        await self._threads.act(self._inner.start, beside=True)
        return self

    async def stop(self, purge: bool = False) -> None:
        """As :meth:`Sandbox.stop`; then there is no thread left."""
        await self._end(lambda: self._inner.stop(purge=purge))

    async def is_alive(self) -> bool:
        """As :meth:`Sandbox.is_alive`."""
        return await self._threads.look(self._inner.is_alive, beside=True)

    async def usage(self) -> Usage:
        """As :meth:`Sandbox.usage`."""
        return await self._threads.look(self._inner.usage, beside=True)

    async def __aenter__(self) -> Self:
        await self._threads.act(
            self._inner.__enter__, beside=True, drop=lambda entered: entered.__exit__(None, None, None)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(lambda: self._inner.__exit__(kind, error, trace))

    async def _end(self, end: Callable[[], None]) -> None:
        try:
            await self._threads.act(end, beside=True)
        finally:
            await self._threads.close()

    async def execute(
        self,
        command: str | Sequence[SandboxPath],
        *,
        timeout: float | None = None,
        cwd: SandboxPath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | BinaryIO | None = None,
        user: str | int | None = None,
        on_output: Callable[[str, str], None] | None = None,
        max_output: int | str = MAX_OUTPUT,
        check: bool = False,
    ) -> CommandResult:
        """As :meth:`Sandbox.execute`; cancelled, the command's whole tree is dead.

        Args:
            on_output: is called in the thread of the event loop, by it; the output waits meanwhile.
        """
        check_callable(on_output, "on_output")
        loop = asyncio.get_running_loop()
        return await self._threads.act(
            lambda: self._inner.execute(
                command,
                timeout=timeout,
                cwd=cwd,
                env=env,
                stdin=stdin,
                user=user,
                on_output=in_loop(loop, on_output),
                max_output=max_output,
                check=check,
            )
        )

    async def spawn(
        self,
        command: str | Sequence[SandboxPath],
        *,
        cwd: SandboxPath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | BinaryIO | int | None = None,
        user: str | int | None = None,
        max_output: int | str = MAX_OUTPUT,
    ) -> AsyncProcess:
        """As :meth:`Sandbox.spawn`; cancelled, what was started is killed."""
        process = await self._threads.act(
            lambda: self._inner.spawn(command, cwd=cwd, env=env, stdin=stdin, user=user, max_output=max_output),
            drop=lambda spawned: spawned.kill(),
        )
        return AsyncProcess(process, self._threads)
