"""A shell that stays: one script after the other over one stream, in place of a new process in the sandbox each.

The shell reads its scripts from standard input. Each reply stands between two marks, on
standard output and standard error both, and what a script starts gets neither the marks nor
the shell's own descriptors: 8 and 9 are opened by the shell for itself alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox_kit.backends.shell.duplex import Duplex
from sandbox_kit.backends.shell.markers import Bounds, Reader
from sandbox_kit.cancelling import NEVER, Cancellation
from sandbox_kit.errors import SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.output import Stream

__all__ = ["Call", "Loop", "Take", "encode"]

Take = Callable[[Stream, bytes], None]

_OPENING = b"exec 8>/proc/self/fd/1 9>/proc/self/fd/2 >/dev/null 2>/dev/null\n"
_FRAME = """\
{{
c=0 s=0; echo {begin} >&8; echo {begin} >&9
{body}
echo {end} $c >&8 && echo {end} $s >&9 || exit
}}
"""

_SILENCE = 5.0
"""After so many silent seconds it is seen to that a shell can answer: a command may have stopped it."""


def encode(script: str) -> bytes:
    """*script* as bytes; undecodable bytes of names come back as they were."""
    return script.encode("utf-8", "surrogateescape")


class Loop:
    """One shell, used by one thread at a time.

    Args:
        duplex: its streams; closed with the loop.

    Attributes:
        lost: whether it can take no more scripts.
        prelude: the functions that it was taught, which later scripts may call.
    """

    def __init__(self, duplex: Duplex) -> None:
        self._duplex = duplex
        self._opening = _OPENING
        self.lost = False
        self.prelude = ""

    def call(
        self,
        body: str,
        take: Take,
        deadline: float | None = None,
        *,
        on_silence: Callable[[], None] | None = None,
        cancellation: Cancellation = NEVER,
    ) -> Call:
        """Begin to run a script.

        Args:
            body: shell code that leaves its exit code in ``c`` and, where there is more to tell, a number in ``s``.
                What it prints is to go to descriptors 8 and 9.
            take: called with each piece of output, as it arrives.
            deadline: on the clock of :func:`time.monotonic`.
            on_silence: called after each 5 seconds in which nothing arrived, to see whether the shell can answer.
            cancellation: looked at while it runs; the shell is given up.

        Raises:
            SandboxUnavailableError: the shell is gone.
            SandboxTimeoutError: the deadline has come; the shell is given up.
        """
        opening, self._opening = self._opening, b""
        call = Call(self, self._duplex, take, deadline, on_silence, cancellation)
        call.send(opening + call.framed(body))
        return call

    def run(self, body: str, take: Take, deadline: float | None = None) -> int:
        """Run a script to its end and return its exit code; arguments and errors are those of :meth:`call`."""
        return self.call(body, take, deadline).finish()

    def close(self) -> None:
        """Let go of the shell, which then ends once it has done what it was told."""
        self.lost = True
        self._duplex.close()

    def abandon(self) -> None:
        """Let go of it in a forked child."""
        self.lost = True
        self._duplex.abandon()


class Call:
    """A script that runs in a :class:`Loop`.

    An error, an interrupt among them, gives the loop up: what the shell would still say belongs to nobody.

    Attributes:
        deadline: on the clock of :func:`time.monotonic`; it may be moved while the script runs.
    """

    def __init__(
        self,
        loop: Loop,
        duplex: Duplex,
        take: Take,
        deadline: float | None,
        on_silence: Callable[[], None] | None = None,
        cancellation: Cancellation = NEVER,
    ) -> None:
        bounds = Bounds()
        self._loop = loop
        self._duplex = duplex
        self.deadline = deadline
        self._bounds = bounds
        self._on_silence = on_silence
        self._cancellation = cancellation
        self._silent_at = time.monotonic() + _SILENCE
        self._readers = {
            "stdout": Reader(bounds, lambda data: take("stdout", data)),
            "stderr": Reader(bounds, lambda data: take("stderr", data)),
        }

    @property
    def done(self) -> bool:
        """Whether all of its output has arrived, and its exit code."""
        return self._code is not None and self._readers["stderr"].exit_code is not None

    @property
    def told(self) -> int:
        """What the script left in ``s``, after its end."""
        return self._readers["stderr"].exit_code or 0

    @property
    def begun(self) -> bool:
        """Whether the shell has read the whole script and runs it: what is sent now, the script reads."""
        return self._readers["stdout"].begun

    @property
    def _code(self) -> int | None:
        return self._readers["stdout"].exit_code

    def framed(self, body: str) -> bytes:
        """The script between its marks."""
        begin, end = self._bounds.begin.decode(), self._bounds.end.decode()
        return encode(_FRAME.format(begin=begin, end=end, body=body))

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes that the script reads, and take what arrives meanwhile; stops at the script's end.

        Raises:
            as :meth:`Loop.call`
        """
        rest = memoryview(data)
        while rest and not self.done:
            with _giving_up(self._loop):
                sent = self._duplex.send(rest)
            rest = rest[sent:]
            if not sent:
                self.step(to_send=True)

    def send_when_begun(self, data: bytes | bytearray | memoryview) -> None:
        """As :meth:`send`, once the shell runs the script: the first bytes must not be taken for a part of it."""
        while not self.begun:
            self.step()
        self.send(data)

    def finish(self) -> int:
        """Take all that arrives until the end; return the exit code."""
        while not self.done:
            self.step()
        assert self._code is not None
        return self._code

    def step(self, *, to_send: bool = False) -> None:
        """Wait for something to arrive, or *to_send* for room, and take what there is."""
        with _giving_up(self._loop):
            self._duplex.wait(self._cancellation.pause(self._patience()), to_send=to_send)
            pieces = self._duplex.receive()
            if pieces is None:
                raise SandboxUnavailableError("the shell in the sandbox ended before the command did")
            for stream, data in pieces:
                self._readers[stream].feed(data)
            if pieces:
                self._silent_at = time.monotonic() + _SILENCE
            else:
                self._be_patient()

    def _patience(self) -> float | None:
        """How many seconds to wait at most for something to arrive."""
        left = self._left()
        if self._on_silence is None:
            return left
        silence = max(0.0, self._silent_at - time.monotonic())
        return silence if left is None else min(left, silence)

    def _be_patient(self) -> None:
        self._left()
        if self._on_silence is not None and time.monotonic() >= self._silent_at:
            self._on_silence()
            self._silent_at = time.monotonic() + _SILENCE

    def _left(self) -> float | None:
        """Seconds until the deadline."""
        if self.deadline is None:
            return None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise SandboxTimeoutError("the sandbox did not answer in time")
        return left


@contextmanager
def _giving_up(loop: Loop) -> Iterator[None]:
    """Close *loop* if the block ends with an error.

    Raises:
        SandboxUnavailableError: it was given up before.
    """
    if loop.lost:
        raise SandboxUnavailableError("the shell in the sandbox is gone")
    try:
        yield
    except BaseException:
        loop.close()
        raise
