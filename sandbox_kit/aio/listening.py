"""on_output for asyncio: called in the loop's thread, while the command's output waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, wait

from sandbox_kit.cancelling import current

__all__ = ["in_loop"]

OnOutput = Callable[[str, str], None]


def in_loop(loop: asyncio.AbstractEventLoop, on_output: OnOutput | None) -> OnOutput | None:
    """Return what has *on_output* called by *loop*, and waits for it; what it raises passes through.

    The wait ends when the calling thread's next command is cancelled.
    """
    if on_output is None:
        return None
    cancellation = current()

    def pass_on(stream: str, text: str) -> None:
        called = Future[None]()
        loop.call_soon_threadsafe(_call, called, on_output, stream, text)
        while not called.done():
            wait([called], cancellation.pause(None))
        called.result()

    return pass_on


def _call(called: Future[None], on_output: OnOutput, stream: str, text: str) -> None:
    try:
        on_output(stream, text)
    except BaseException as error:
        called.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        called.set_result(None)
