"""What gives its content bit by bit: files, archives, the matches of a search."""

from __future__ import annotations

import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Generic, Self, TypeVar

from sandbox_kit.aio.threads import Threads
from sandbox_kit.cancelling import current
from sandbox_kit.exports import Export
from sandbox_kit.search.matches import Matches
from sandbox_kit.streams import CHUNK
from sandbox_kit.types import GrepMatch, Skipped

__all__ = ["AsyncExport", "AsyncMatches", "AsyncReader"]

_AHEAD_FOR = 0.01
"""Seconds for which matches are gathered before they are handed over."""

S = TypeVar("S", bound=BinaryIO)


class _Closing(ABC):
    """What leaving its ``async with`` closes."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncReader(_Closing, AsyncIterator[bytes], Generic[S]):
    """A file that is open for reading; ``async for`` gives its lines. One coroutine at a time uses it.

    Args:
        stream: what is read.
        threads: where.
    """

    def __init__(self, stream: S, threads: Threads) -> None:
        self._stream = stream
        self._threads = threads

    async def read(self, size: int = -1) -> bytes:
        """Return *size* bytes, or all that are left; fewer only at the end.

        A cancelled read may have gone on in the file: what it would have returned is lost.
        """
        return await self._threads.look(lambda: self._stream.read(size))

    async def readline(self) -> bytes:
        """Return a line with its end; empty at the end of the file."""
        return await self._threads.look(self._stream.readline)

    async def close(self) -> None:
        """Let go of the file; twice is fine."""
        await self._threads.act(self._stream.close)

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line


class AsyncMatches(_Closing, AsyncIterator[GrepMatch]):
    """The matches of a search, by ``async for``. Ending it, by :meth:`close` or ``async with``, ends the search.

    Args:
        matches: finds them.
        threads: where.
    """

    def __init__(self, matches: Matches, threads: Threads) -> None:
        self._matches = matches
        self._threads = threads
        self._ready: deque[GrepMatch] = deque()

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What could not be searched; whole once the iteration has ended."""
        return self._matches.skipped

    @property
    def truncated(self) -> bool:
        """Whether there is at least one more match than the limit; known once the iteration has ended."""
        return self._matches.truncated

    async def __anext__(self) -> GrepMatch:
        if not self._ready:
            await self._threads.look(self._gather)
        try:
            return self._ready.popleft()
        except IndexError:
            raise StopAsyncIteration from None

    def _gather(self) -> None:
        """Make the next matches ready; none are lost where nobody waits for them any more."""
        until = time.monotonic() + _AHEAD_FOR
        for match in self._matches:
            self._ready.append(match)
            if time.monotonic() > until:
                return

    async def close(self) -> None:
        """End the search; there are no further matches. Twice is fine."""
        await self._threads.act(self._matches.close)
        self._ready.clear()


class AsyncExport(AsyncReader[Export]):
    """An archive, made while it is read."""

    @property
    def denied(self) -> int:
        """How many entries were left out; whole at the end."""
        return self._stream.denied

    async def save(self, local: str | PathLike[str]) -> None:
        """Write what is left to a file of the host, which is made, or replaced whole in the end.

        Raises:
            OSError: the host refuses.
            ArchiveError, SandboxError: as for reading; a file that was there stays as it was.
        """
        await self._threads.act(lambda: _save(self._stream, Path(local)))


def _save(archive: Export, target: Path) -> None:
    cancellation = current()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".sandbox-kit-") as scratch:
        fresh = Path(scratch, "copy")
        with fresh.open("xb") as out:
            while chunk := archive.read(CHUNK):
                cancellation.check()
                out.write(chunk)
        os.replace(fresh, target)
