"""Any backend or sandbox for asyncio: every method of the contract as a coroutine, on threads of its own.

Nothing is implemented a second time: a coroutine calls the method of the same name, in a thread.
"""

from sandbox_kit.aio.files import AsyncBackend
from sandbox_kit.aio.lines import AsyncLines
from sandbox_kit.aio.process import AsyncInput, AsyncProcess
from sandbox_kit.aio.sandbox import AsyncSandbox
from sandbox_kit.aio.streams import AsyncExport, AsyncMatches, AsyncReader

__all__ = [
    "AsyncBackend",
    "AsyncExport",
    "AsyncInput",
    "AsyncLines",
    "AsyncMatches",
    "AsyncProcess",
    "AsyncReader",
    "AsyncSandbox",
]
