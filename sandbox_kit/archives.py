"""What an archive is: the files that sessions left, readable with nothing running.

All methods raise, beside what each one names:

===========================  =========================================================
error                        when
===========================  =========================================================
``InvalidArgumentError``     a bad session id, before any I/O; a path that no call could use
``PathNotFoundError``        no session of that id has files here, or nothing has that path
``PathNotDirectoryError``    a file stands where a directory belongs
``PathAccessError``          the file system, not a rule, refused
``PathError``                it could not serve: a name too long, a failing device
``PathEscapeError``          the path is absolute, or leads outside the workspace
``PermissionDeniedError``    a rule refused, or would ask: there is nobody to ask
``ArchiveError``             what has the session's name is no directory, or a link
``SandboxUnavailableError``  what holds the files is gone or cannot be reached
===========================  =========================================================
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator
from datetime import datetime
from itertools import islice
from types import TracebackType
from typing import BinaryIO, Literal, NoReturn, Self

from sandbox_kit import arguments, streams
from sandbox_kit.contract import Backend
from sandbox_kit.exports import Export
from sandbox_kit.paths import SandboxPath
from sandbox_kit.search.matches import failing
from sandbox_kit.types import FileInfo, Listing, Skipped

__all__ = ["Archive", "Entries"]


class Entries(Iterator[FileInfo]):
    """What a walk finds, while it is asked for: parents first, each directory's entries sorted by name.

    It is an iterator and a context manager; ending it, by :meth:`close`, ``with`` or exhaustion,
    ends the walk. Several threads may take entries from it, one at a time.

    Args:
        source: yields what the walk meets; closing it ends the walk.
    """

    def __init__(self, source: Generator[FileInfo | Skipped, None, None]) -> None:
        self._source = source
        self._ahead: deque[FileInfo] = deque()
        self._skipped: list[Skipped] = []
        self._lock = threading.RLock()

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What could not be looked at; whole once the iteration has ended."""
        return tuple(self._skipped)

    def __repr__(self) -> str:
        return f"<Entries, found while they are asked for; skipped {len(self._skipped)}>"

    def _repr_html_(self) -> str:
        """The first entries that are still to be taken; they stay so."""
        from sandbox_kit.html import records
        from sandbox_kit.html.fragments import ROWS

        found, more = self._peek(ROWS)
        return records.files(found, self.skipped, more=more)

    def _peek(self, count: int) -> tuple[list[FileInfo], bool]:
        """Walk on until *count* entries are found, and return them, and whether there is another one.

        An error of the walk passes through, now and when its turn comes.
        """
        with self._lock:
            try:
                while len(self._ahead) <= count:
                    self._ahead.append(self._find())
            except StopIteration:
                pass
            except BaseException as error:
                self._source = failing(error)
                raise
            return list(islice(self._ahead, count)), len(self._ahead) > count

    def __bool__(self) -> NoReturn:
        raise TypeError("a walk has no truth value: take its entries, as next(entries, None) does")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FileInfo:
        with self._lock:
            return self._ahead.popleft() if self._ahead else self._find()

    def _find(self) -> FileInfo:
        for entry in self._source:
            if isinstance(entry, FileInfo):
                return entry
            self._skipped.append(entry)
        raise StopIteration

    def close(self) -> None:
        """End the walk; there are no further entries. Twice is fine."""
        with self._lock:
            self._source.close()
            self._ahead.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Archive(ABC):
    """The files of sessions, by session id, read-only.

    Paths are relative to a session's workspace, ``""`` and ``"."`` are the workspace itself; those in
    results are too, and read back as they stand. No result and no message names a path of the host.
    Every method may be called from several threads at once.

    What sandboxed code planted never leads outside. A link that leads out of the workspace is left
    out of ls, walk and changes, and refused by name; one that dangles inside is listed as the link
    that it is. A FIFO, socket or device is listed by name and refused when it is read.
    """

    max_read_bytes: int = Backend.max_read_bytes
    """The most bytes that read and read_bytes take in."""

    @abstractmethod
    def sessions(self) -> list[str]:
        """Return the ids of the sessions that have files here, sorted."""

    @abstractmethod
    def ls(self, session_id: str, path: SandboxPath = ".") -> Listing:
        """List a directory's entries, or the file itself, sorted by path; dot files too."""

    @abstractmethod
    def walk(self, session_id: str, path: SandboxPath = ".") -> Entries:
        """List everything beneath a directory, or the file itself, lazily; links are not followed.

        Memory does not grow with the number of files, but with that of the directories still to be read.
        """

    @abstractmethod
    def stat(self, session_id: str, path: SandboxPath) -> FileInfo:
        """Describe an entry; of a symbolic link the link itself.

        Raises:
            PathEscapeError: it is a link that leads outside.
        """

    @abstractmethod
    def open_read(self, session_id: str, path: SandboxPath) -> BinaryIO:
        """Open a file of any size for reading; the result is a context manager.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
        """

    def read(self, session_id: str, path: SandboxPath, *, offset: int = 0, limit: int | None = None) -> str:
        """Return a file's text, or some of its lines, with their ends as they are.

        Args:
            session_id: whose file.
            path: a regular file.
            offset: the first line wanted, from 0.
            limit: how many lines; None for all. A line ends at ``\\n``.

        Returns:
            UTF-8 decoded, undecodable bytes as U+FFFD, a byte order mark dropped. Past the end
            of the file it is empty.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
            ReadLimitError: the lines, or one before them, hold more than ``max_read_bytes``, also when the file
                grows meanwhile.
            SandboxTimeoutError: it takes too long to come to the first line.
            InvalidArgumentError: *offset* or *limit* is negative or no integer.
        """
        arguments.check_count(offset, "offset")
        if limit is not None:
            arguments.check_count(limit, "limit")
        with self.open_read(session_id, path) as stream:
            return streams.read_lines(stream, offset, limit, self.max_read_bytes)

    def read_bytes(self, session_id: str, path: SandboxPath) -> bytes:
        """Return a file's bytes, all of them.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
            ReadLimitError: it holds more than ``max_read_bytes``, also when it grows meanwhile.
        """
        with self.open_read(session_id, path) as stream:
            return streams.read_bounded(stream, self.max_read_bytes)

    @abstractmethod
    def export(
        self,
        session_id: str,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "zip"] = "tar",
        denied: Literal["error", "skip"] = "error",
    ) -> Export:
        """Return a file or tree as a stream of one archive file; see :meth:`Backend.export`.

        Raises:
            ArchiveError: the tree holds a special file or a link that leads outside it.
            InvalidArgumentError: another *format* or *denied*.
        """

    @abstractmethod
    def changes(self, session_id: str, since: float | datetime, path: SandboxPath = ".") -> Entries:
        """List what was made or changed at *since* or later, lazily; directories whose names changed too.

        What was removed is not told, but by its directory. The time of a change is not the one that
        a program can set back: an entry may be told too often, never too seldom.

        Args:
            session_id: whose files.
            since: seconds since the epoch, or an aware datetime.
            path: where to look.

        Raises:
            InvalidArgumentError: *since* is no finite number and no aware datetime.
        """
