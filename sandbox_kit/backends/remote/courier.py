"""Scripts for a session, each by one call: what they read and print goes with it, or by files beside."""

from __future__ import annotations

import posixpath
import shlex
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress

from attrs import frozen

from sandbox_kit.backends.remote.session import Ran, Session
from sandbox_kit.backends.remote.wire import Pause, whole
from sandbox_kit.backends.shell.duplex import Piece
from sandbox_kit.backends.shell.line import CHUNK
from sandbox_kit.backends.shell.packing import LONGEST, Package, inline, is_short
from sandbox_kit.errors import SandboxError, SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.unfinished import new_name

__all__ = ["Courier", "Trip"]

_TIMED_OUT = (124, 137, 143)
"""What a program ends with that ``timeout`` ended."""

_TIDY_WITHIN = 10.0


@frozen
class Trip:
    """One script.

    Attributes:
        script: shell code.
        stdin: what it reads, in pieces.
        seconds: how long the service is to let it run.
        limit: how many bytes of each stream are wanted; None for all.
        pause: called while it runs.
        label: by which others in the sandbox can find it.
    """

    script: bytes
    stdin: Iterable[bytes | bytearray]
    seconds: float
    limit: int | None = None
    pause: Pause = whole
    label: str = ""


@frozen
class Courier:
    """Runs scripts in a session.

    Attributes:
        session: the session.
        directory: where files may lie meanwhile: the service's own file calls reach it, and nobody looks there.
        piece: how many bytes of a file the service gives at once.
    """

    session: Session
    directory: str
    piece: int

    def run(self, trip: Trip) -> Generator[Piece, None, None]:
        """Run a script to its end, and yield what it printed.

        Raises:
            SandboxTimeoutError: the service ended it at its time limit.
            SandboxUnavailableError: it ended before its end, or whether it ran is not known.
            RemoteProtocolError: what came back is not what it printed.
        """
        package = Package(self.directory, self.piece, trip.limit)
        with ExitStack() as staged:
            source = self._source(trip.stdin, staged)
            line = staged.enter_context(self._short(package.wrap(trip.script, source, trip.label)))
            began = time.monotonic()
            ran = self.session.run(line, trip.seconds, trip.pause)
            took = time.monotonic() - began
        streams = package.unwrap(ran.output)
        if streams is None:
            raise _broken(ran, trip.seconds, took)
        try:
            for stream, packed in streams.items():
                yield stream, packed.first
                for part in packed.parts:
                    yield stream, self.session.fetch(part.path, part.size)
                yield stream, packed.last
        finally:
            if any(packed.parts for packed in streams.values()):
                self._tidy(package.parked)

    def _source(self, stdin: Iterable[bytes | bytearray], staged: ExitStack) -> str:
        """Return what stands before a group that reads *stdin*."""
        paths: list[str] = []
        held: list[bytes] = []
        for part in _parts(stdin):
            if sum(map(len, held)) + len(part) > CHUNK:
                paths.append(staged.enter_context(self._staged(held)))
                held = []
            held.append(part)
        if not paths and is_short(held):
            return inline(held)
        paths.append(staged.enter_context(self._staged(held)))
        return f"cat {shlex.join(paths)} |"

    @contextmanager
    def _short(self, line: str) -> Generator[str, None, None]:
        """Yield a command line that does what *line* does, and is short enough."""
        if len(line.encode()) <= LONGEST:
            yield line
            return
        with self._staged([line.encode()]) as path:
            yield f". {shlex.quote(path)}"

    @contextmanager
    def _staged(self, pieces: Sequence[bytes | bytearray]) -> Generator[str, None, None]:
        """Yield the path of a file of the sandbox that holds *pieces*, for as long as it is needed."""
        path = posixpath.join(self.directory, new_name())
        self.session.put(path, pieces)
        try:
            yield path
        finally:
            self._tidy(path)

    def _tidy(self, path: str) -> None:
        with suppress(SandboxError):
            self.session.run(f"rm -rf {shlex.quote(path)}", _TIDY_WITHIN)


def _parts(pieces: Iterable[bytes | bytearray]) -> Generator[bytes, None, None]:
    """Yield *pieces*, long ones in parts."""
    for piece in pieces:
        for start in range(0, len(piece), CHUNK):
            yield bytes(piece[start : start + CHUNK])


def _broken(ran: Ran, seconds: float, took: float) -> SandboxError:
    """Return the error for a script that has not come to its end."""
    if ran.code in _TIMED_OUT and took >= seconds:
        return SandboxTimeoutError("what ran in the sandbox took too long, and was ended by the service", seconds)
    if ran.code == 0 and not ran.output:
        return SandboxUnavailableError("the service lost what was printed in the sandbox: what was done is not known")
    said = " ".join(ran.output.split())[:200]
    return SandboxUnavailableError(f"what ran in the sandbox ended before its end, with exit code {ran.code}: {said}")
