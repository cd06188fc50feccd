"""What a command reads: bytes or a file, written to its standard input without blocking."""

from __future__ import annotations

import io
import os
import select
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from sandbox_kit.errors import InvalidArgumentError

CHUNK = 1 << 16


class Watch:
    """Descriptors to wait for."""

    def __init__(self) -> None:
        self._poller = select.poll()
        self._watched: set[int] = set()

    def add(self, fd: int, events: int) -> None:
        """Wait for *events* of *fd*, and for POLLERR and POLLHUP; replaces what was set for it."""
        self._watched.add(fd)
        self._poller.register(fd, events)

    def remove(self, fd: int) -> None:
        """Forget *fd*; one that is not there is no error."""
        if fd in self._watched:
            self._watched.discard(fd)
            self._poller.unregister(fd)

    def wait(self, timeout: float | None) -> list[tuple[int, int]]:
        """Wait until something is ready, at most *timeout* seconds; return each descriptor with its events."""
        return self._poller.poll(None if timeout is None else min(timeout, 3600.0) * 1000 + 1)


class Feed:
    """Writes *source* to *pipe* as the command reads it, then closes the pipe.

    A source that is a pipe, socket or terminal is read when it has something; any other is
    read when the command wants more, and then must not block for long.

    Args:
        watch: knows when *pipe* or *source* is ready; :meth:`handle` is to be called then.
        pipe: the write end; it must not block.
        source: all there is to read, or a binary file.
    """

    def __init__(self, watch: Watch, pipe: io.FileIO, source: bytes | BinaryIO) -> None:
        self._watch = watch
        self._pipe = pipe
        self._fd = pipe.fileno()
        self._take = None if isinstance(source, bytes) else _reader(source)
        self._source_fd = None if isinstance(source, bytes) else _pollable(source)
        self._rest = memoryview(source if isinstance(source, bytes) else b"")
        if self._rest:
            self._watch.add(self._fd, select.POLLOUT)
        else:
            self._refill()

    def handle(self, fd: int, event: int) -> None:
        """Go on, as *fd* has *event*; one that is neither end is left alone."""
        if fd == self._fd:
            self._write(event)
        elif fd == self._source_fd:
            self._read()

    def _write(self, event: int) -> None:
        if event & (select.POLLERR | select.POLLHUP):
            self.close()
            return
        try:
            written = os.write(self._fd, self._rest[:CHUNK])
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.close()
            return
        self._rest = self._rest[written:]
        if not self._rest:
            self._refill()

    def _refill(self) -> None:
        if self._take is None:
            self.close()
        elif self._source_fd is None:
            self._read()
        else:
            self._wait_for_source()

    def _read(self) -> None:
        if self._source_fd is not None:
            self._watch.remove(self._source_fd)
        chunk = b"" if self._take is None else self._take(CHUNK)
        if chunk is None:
            self._wait_for_source()
        elif chunk:
            self._rest = memoryview(chunk)
            self._watch.add(self._fd, select.POLLOUT)
        else:
            self.close()

    def _wait_for_source(self) -> None:
        if self._source_fd is None:
            raise InvalidArgumentError("stdin: a file that does not block must have a descriptor to wait for")
        self._watch.add(self._fd, 0)
        self._watch.add(self._source_fd, select.POLLIN)

    def close(self) -> None:
        """Write no more: the command sees the end of its input."""
        self._watch.remove(self._fd)
        if self._source_fd is not None:
            self._watch.remove(self._source_fd)
        self._pipe.close()


def _reader(source: BinaryIO) -> Callable[[int], bytes | None]:
    """What takes the next bytes of *source*: none at its end, None where there are none yet."""
    buffered: object = source
    return buffered.read1 if isinstance(buffered, io.BufferedIOBase) else source.read


def _pollable(source: BinaryIO) -> int | None:
    """The descriptor to wait for before *source* is read; None where a read cannot wait for long."""
    with suppress(AttributeError, OSError, ValueError):
        fd = source.fileno()
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
    return None
