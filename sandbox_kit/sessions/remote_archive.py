"""RemoteWorkspaceArchive: the files that sessions of a sandbox service left, with nothing running."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Generator
from datetime import datetime
from typing import BinaryIO, Literal, NoReturn

from sandbox_kit.archives import Archive, Entries
from sandbox_kit.arguments import check_denied
from sandbox_kit.backends.remote.service import ANSWER_WITHIN, CONNECT_WITHIN, Service
from sandbox_kit.backends.remote.stored import Stored
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathEscapeError,
    PathNotFoundError,
    ReadLimitError,
    UnsupportedError,
)
from sandbox_kit.exports import FORMATS
from sandbox_kit.paths import SandboxPath, check_path
from sandbox_kit.sessions.archive import seconds_since
from sandbox_kit.sessions.ids import check_session_id
from sandbox_kit.types import FileInfo, Listing, Skipped, parse_size

__all__ = ["RemoteWorkspaceArchive"]


class RemoteWorkspaceArchive(Archive):
    """The files that the sandbox service at *url* keeps of its sessions, open or not; nothing is started.

    The service tells neither modes nor times nor links: ``mode`` and ``mtime`` are 0, and a link is what it
    leads to; one that leads outside, or nowhere, is left out. As a link to a file cannot be told from the
    file, no rules can be held here. ``sessions``, ``export`` and ``changes`` are what the service does not
    offer. A file comes whole, and the service has a ceiling of its own, ``max_read_bytes`` of its policy.

    Args:
        url, token, connect_timeout, answer_timeout: as for :class:`~sandbox_kit.RemoteSandbox`.
        max_read_bytes: the most bytes of a file that is read; bytes, or as ``"50m"``.

    Raises:
        InvalidArgumentError: an argument that no service could be asked with.
        RemoteProtocolError: of every call: what answers is no sandbox service.
        UnsupportedError: of every call: the service keeps no files.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str] = "$SANDBOXD_TOKEN",
        max_read_bytes: int | str = Backend.max_read_bytes,
        connect_timeout: float = CONNECT_WITHIN,
        answer_timeout: float = ANSWER_WITHIN,
    ) -> None:
        self._service = Service(url, token, connect_timeout=connect_timeout, answer_timeout=answer_timeout)
        self.max_read_bytes = parse_size(max_read_bytes, "max_read_bytes")

    def __repr__(self) -> str:
        return f"RemoteWorkspaceArchive('{self._service.place}')"

    def sessions(self) -> NoReturn:
        """Refuse: the service lists what is open, not what it keeps.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("sessions: the service does not tell which sessions it keeps files of")

    def ls(self, session_id: str, path: SandboxPath = ".") -> Listing:
        stored, typed = self._files(session_id, path)
        try:
            _, found = stored.entries(typed)
        except PathNotFoundError:
            return Listing([stored.info(typed)])
        return Listing(found)

    def walk(self, session_id: str, path: SandboxPath = ".") -> Entries:
        stored, typed = self._files(session_id, path)
        info = stored.info(typed)
        if not info.is_dir:
            return Entries(_only(info))
        return Entries(_beneath(stored, typed, stored.entries(typed)[1]))

    def stat(self, session_id: str, path: SandboxPath) -> FileInfo:
        stored, typed = self._files(session_id, path)
        return stored.info(typed)

    def open_read(self, session_id: str, path: SandboxPath) -> BinaryIO:
        """Read a file whole, and return it as a stream.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket or device.
            ReadLimitError: it holds more than ``max_read_bytes``, or than the service gives.
        """
        stored, typed = self._files(session_id, path)
        data = stored.read(typed, self.max_read_bytes)
        if len(data) > self.max_read_bytes:
            raise ReadLimitError(f"{typed}: more than {self.max_read_bytes} bytes", self.max_read_bytes)
        return io.BytesIO(data)

    def export(
        self,
        session_id: str,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "zip"] = "tar",
        denied: Literal["error", "skip"] = "error",
    ) -> NoReturn:
        """Refuse: the service tells neither modes nor links; ``walk`` and ``read_bytes`` give what there is.

        Raises:
            UnsupportedError: always, where the arguments are right.
        """
        check_denied(denied)
        if format not in FORMATS:
            raise InvalidArgumentError(f"format: {format!r} is none of {', '.join(FORMATS)}")
        stored, typed = self._files(session_id, path)
        stored.info(typed)
        raise UnsupportedError("export: the service does not tell modes and links: use walk() and read_bytes()")

    def changes(self, session_id: str, since: float | datetime, path: SandboxPath = ".") -> NoReturn:
        """Refuse: the service tells no times.

        Raises:
            UnsupportedError: always, where the arguments are right.
        """
        seconds_since(since)
        stored, typed = self._files(session_id, path)
        stored.info(typed)
        raise UnsupportedError("changes: the service does not tell when files changed")

    def _files(self, session_id: str, path: SandboxPath) -> tuple[Stored, str]:
        """Return the files of a session, and the path as typed, cleaned of what says nothing."""
        stored, typed = Stored(self._service, check_session_id(session_id)), check_path(path)
        if typed.startswith("/"):
            raise PathEscapeError(typed, "is absolute: paths in an archive are relative to the workspace")
        clean = posixpath.normpath(typed or ".")
        if clean == ".." or clean.startswith("../"):
            raise PathEscapeError(typed)
        return stored, clean


def _beneath(stored: Stored, top: str, found: list[FileInfo]) -> Generator[FileInfo | Skipped, None, None]:
    """Yield what a directory holds, and what is beneath; a directory that turns out to be a link is not entered."""
    for info in found:
        yield info
        if not info.is_dir:
            continue
        try:
            real, inner = stored.entries(info.path)
        except (PathNotFoundError, PathEscapeError) as error:
            yield Skipped(info.path, error.reason)
            continue
        if real == info.path:
            yield from _beneath(stored, top, inner)


def _only(info: FileInfo) -> Generator[FileInfo | Skipped, None, None]:
    yield info
