"""AsyncBackend: the files of any backend for asyncio."""

from __future__ import annotations

from functools import partial
from os import PathLike
from types import TracebackType
from typing import Any, BinaryIO, Generic, Literal, Self, TypeVar

from sandbox_kit.aio.streams import AsyncExport, AsyncMatches, AsyncReader
from sandbox_kit.aio.threads import Threads
from sandbox_kit.contract import Backend
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.paths import SandboxPath
from sandbox_kit.types import Capabilities, EditResult, FileInfo, Listing

__all__ = ["AsyncBackend", "Files"]

B = TypeVar("B", bound=Backend)


class Files(Generic[B]):
    """The coroutines that are about files, over a backend.

    Args:
        inner: what is called.
        threads: how many calls go on at once.
    """

    def __init__(self, inner: B, *, threads: int = 4) -> None:
        self._inner = inner
        self._threads = Threads(threads)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), threads=self._threads.limit), (self._inner,)

    @property
    def inner(self) -> B:
        """What is called, such as for its settings."""
        return self._inner

    @property
    def id(self) -> str:
        """As :attr:`Backend.id`."""
        return self._inner.id

    @property
    def work_dir(self) -> str:
        """As :attr:`Backend.work_dir`."""
        return self._inner.work_dir

    @property
    def capabilities(self) -> Capabilities:
        """As :attr:`Backend.capabilities`."""
        return self._inner.capabilities

    async def aclose(self) -> None:
        """Wait for the calls under way, and end the threads. What is called stays as it is."""
        await self._threads.close()

    async def read(self, path: SandboxPath, *, offset: int = 0, limit: int | None = None) -> str:
        """As :meth:`Backend.read`."""
        return await self._threads.look(lambda: self._inner.read(path, offset=offset, limit=limit))

    async def read_bytes(self, path: SandboxPath) -> bytes:
        """As :meth:`Backend.read_bytes`."""
        return await self._threads.look(lambda: self._inner.read_bytes(path))

    async def open_read(self, path: SandboxPath) -> AsyncReader[BinaryIO]:
        """As :meth:`Backend.open_read`."""
        stream = await self._threads.look(lambda: self._inner.open_read(path), drop=lambda opened: opened.close())
        return AsyncReader(stream, self._threads)

    async def write(self, path: SandboxPath, content: str | bytes | BinaryIO) -> None:
        """As :meth:`Backend.write`; cancelled, the file is written whole, or as it was."""
        await self._threads.act(lambda: self._inner.write(path, content))

    async def edit(
        self, path: SandboxPath, old: str | bytes, new: str | bytes, *, replace_all: bool = False
    ) -> EditResult:
        """As :meth:`Backend.edit`; cancelled, the file is edited whole, or as it was."""
        return await self._threads.act(lambda: self._inner.edit(path, old, new, replace_all=replace_all))

    async def ls(self, path: SandboxPath = ".") -> Listing:
        """As :meth:`Backend.ls`."""
        return await self._threads.look(lambda: self._inner.ls(path))

    async def glob(self, pattern: str, path: SandboxPath = ".") -> Listing:
        """As :meth:`Backend.glob`."""
        return await self._threads.look(lambda: self._inner.glob(pattern, path))

    async def stat(self, path: SandboxPath) -> FileInfo:
        """As :meth:`Backend.stat`."""
        return await self._threads.look(lambda: self._inner.stat(path))

    async def exists(self, path: SandboxPath) -> bool:
        """As :meth:`Backend.exists`."""
        return await self._threads.look(lambda: self._inner.exists(path))

    async def grep(
        self,
        pattern: str,
        path: SandboxPath = ".",
        *,
        glob: str | None = None,
        fixed: bool = False,
        ignore_case: bool = False,
        hidden: bool = False,
        context: int = 0,
        limit: int | None = None,
    ) -> AsyncMatches:
        """As :meth:`Backend.grep`; the matches come by ``async for``, some of them ahead."""
        matches = await self._threads.look(
            lambda: self._inner.grep(
                pattern,
                path,
                glob=glob,
                fixed=fixed,
                ignore_case=ignore_case,
                hidden=hidden,
                context=context,
                limit=limit,
            ),
            drop=lambda begun: begun.close(),
        )
        return AsyncMatches(matches, self._threads)

    async def mkdir(self, path: SandboxPath) -> None:
        """As :meth:`Backend.mkdir`."""
        await self._threads.act(lambda: self._inner.mkdir(path))

    async def remove(self, path: SandboxPath, *, recursive: bool = False) -> None:
        """As :meth:`Backend.remove`."""
        await self._threads.act(lambda: self._inner.remove(path, recursive=recursive))

    async def move(self, src: SandboxPath, dst: SandboxPath) -> None:
        """As :meth:`Backend.move`."""
        await self._threads.act(lambda: self._inner.move(src, dst))

    async def upload(self, local: str | PathLike[str], path: SandboxPath) -> None:
        """As :meth:`Backend.upload`."""
        await self._threads.act(lambda: self._inner.upload(local, path))

    async def download(
        self, path: SandboxPath, local: str | PathLike[str], *, denied: Literal["error", "skip"] = "error"
    ) -> int:
        """As :meth:`Backend.download`."""
        return await self._threads.act(lambda: self._inner.download(path, local, denied=denied))

    async def export(
        self,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "zip"] = "tar",
        denied: Literal["error", "skip"] = "error",
    ) -> AsyncExport:
        """As :meth:`Backend.export`."""
        archive = await self._threads.look(
            lambda: self._inner.export(path, format=format, denied=denied), drop=lambda opened: opened.close()
        )
        return AsyncExport(archive, self._threads)


class AsyncBackend(Files[Backend]):
    """The files of a backend for asyncio: each method of :class:`~sandbox_kit.contract.Backend` as a coroutine.

    Arguments, results and errors are those of the method. Any number of event loops may use it, in any
    threads. Leaving ``async with`` is :meth:`aclose`.

    Args:
        inner: the backend.
        threads: how many calls go on at once; further ones wait for their turn.

    Raises:
        InvalidArgumentError: *inner* is no backend, or *threads* no positive integer.
    """

    def __init__(self, inner: Backend, *, threads: int = 4) -> None:
        if not isinstance(inner, Backend):
            raise InvalidArgumentError(f"inner: {inner!r} is not a Backend")
        super().__init__(inner, threads=threads)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
