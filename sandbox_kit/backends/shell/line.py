"""Scripts for whichever loop is free: each trip with its prelude, its deadline and its reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from attrs import frozen

from sandbox_kit.backends.shell.loop import Call, Loop, Take
from sandbox_kit.errors import SandboxClosedError, SandboxUnavailableError
from sandbox_kit.output import Stream

__all__ = ["CHUNK", "Check", "Drain", "Lease", "Line", "Reply"]

Drain = Callable[[], None]
"""Called by any thread: brings the call in flight to its end. Afterwards its holder leaves the loop alone,
though the context that lent it ends only later."""

Lease = Callable[[Drain | None], AbstractContextManager[Loop]]
"""Lends a loop to the calling thread alone until the context ends."""

Check = Callable[[Sequence[str]], None]
"""Raises where records tell of a failure."""

CHUNK = 2**24
"""The most bytes that go to the sandbox within one time limit."""

_READY = b"g\0"


class Reply:
    """What a script printed.

    Attributes:
        out: on standard output: records, each ended by a NUL.
        aside: on standard error.
        code: its exit code.
    """

    def __init__(self) -> None:
        self.out = bytearray()
        self.aside = bytearray()
        self.code = 0

    def take(self, stream: Stream, data: bytes) -> None:
        """Keep a piece."""
        if stream == "stdout":
            self.out += data
        else:
            self.aside += data

    def records(self) -> list[str]:
        """Return the records, in order; undecodable bytes are surrogate escapes."""
        return self.out.decode("utf-8", "surrogateescape").split("\0")[:-1]


@frozen
class Line:
    """How a backend reaches its files.

    Attributes:
        lease: lends loops.
        teach: returns the functions that a new loop has to know.
        timeout: how long one trip may take, in seconds.
        path: where the tools are looked for, quoted: no directory that commands could put one into.
        fixed: device and inode of the files that no new one may take the place of.
    """

    lease: Lease
    teach: Callable[[Loop], str]
    timeout: float
    path: str
    fixed: frozenset[tuple[int, int]] = frozenset()

    def look(self, script: str, timeout: float | None = None) -> Reply:
        """Run what changes nothing, once more where the loop turns out to be gone.

        Args and raises are those of :meth:`act`.
        """
        try:
            return self.act(script, timeout)
        except SandboxClosedError:
            raise
        except SandboxUnavailableError:
            return self.act(script, timeout)

    def act(self, script: str, timeout: float | None = None) -> Reply:
        """Run one of the functions, its arguments quoted, to its end.

        Args:
            timeout: in seconds; None is the line's own.

        Raises:
            SandboxUnavailableError: the loop is gone; what happened until then is not known.
            SandboxTimeoutError: it took too long.
        """
        with self.lease(None) as loop:
            reply = Reply()
            reply.code = self.begin(loop, script, reply.take, timeout).finish()
            return reply

    def give(self, script: str, pieces: Sequence[bytes | bytearray], check: Check) -> Reply:
        """Run a function that says when it is ready for bytes, and give it those of *pieces*.

        Args:
            script: the function's call.
            pieces: what it reads; an error leaves none of it to be taken for a script.
            check: looks at the records until now, between two parts of the bytes.

        Raises are those of :meth:`act` and of *check*.
        """
        reply = Reply()
        with self.lease(None) as loop:
            sent = self.begin(loop, script, reply.take)
            try:
                while not (reply.out.startswith(_READY) or sent.done):
                    sent.step()
                for part in _parts(pieces):
                    check(reply.records())
                    sent.deadline = time.monotonic() + self.timeout
                    sent.send(part)
                while not sent.done:
                    check(reply.records())
                    sent.step()
            except BaseException:
                loop.close()
                raise
        return reply

    def begin(self, loop: Loop, script: str, take: Take, timeout: float | None = None) -> Call:
        """Begin to run one of the functions on a loop that was lent.

        Its standard output is the reply's, and so is descriptor 9; what it reads is on descriptor 5.
        """
        prelude = "" if loop.prelude else self.teach(loop)
        body = f"{prelude}\nPATH={self.path}\n{script} 5<&0 </dev/null >&8 2>/dev/null\nc=$?; PATH=$k_path; cd /"
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        call = loop.call(body, take, deadline)
        loop.prelude = loop.prelude or prelude
        return call


def _parts(pieces: Sequence[bytes | bytearray]) -> Iterator[memoryview]:
    """Yield *pieces* in parts, each of which goes within one time limit."""
    for piece in pieces:
        for start in range(0, len(piece), CHUNK):
            yield memoryview(piece)[start : start + CHUNK]
