"""What a service gives of the files that a session left, with nothing running."""

from __future__ import annotations

import base64
import binascii
import posixpath

from attrs import frozen

from sandbox_kit.backends.remote.service import Refused, Service, Terms, the
from sandbox_kit.errors import (
    NotRegularFileError,
    PathEscapeError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    ReadLimitError,
    RemoteProtocolError,
    SandboxError,
    UnsupportedError,
)
from sandbox_kit.types import FileInfo

__all__ = ["Stored"]

_BAD, _MISSING, _CONFLICT = 400, 404, 409
_ENVELOPE = 2**20


@frozen
class Stored:
    """The files of one session.

    Attributes:
        service: has them.
        session_id: of the session.
    """

    service: Service
    session_id: str

    def entries(self, path: str) -> tuple[str, list[FileInfo]]:
        """Return the real name of a directory, as far as its entries tell it, and these, sorted by name.

        Raises:
            PathNotFoundError: there is no such directory.
            PathEscapeError: it leads outside.
        """
        answer = self._ask("ls", path)
        if not isinstance(answer, list):
            raise RemoteProtocolError("the service answered with what is no list of files")
        found = sorted((the(str, told, "path"), told) for told in answer)
        real = posixpath.dirname(found[0][0]) or "." if found else path
        return real, [
            _info(posixpath.normpath(posixpath.join(path, posixpath.basename(name))), told) for name, told in found
        ]

    def info(self, path: str) -> FileInfo:
        """Describe a file or directory.

        Raises:
            PathNotFoundError: there is none.
            PathNotDirectoryError: a file stands where a directory belongs.
            PathEscapeError: it leads outside.
        """
        if path == ".":
            self.entries(path)
            return FileInfo(".", ".", True, 0, 0.0, 0)
        parent = posixpath.dirname(path) or "."
        try:
            _, found = self.entries(parent)
        except PathNotFoundError:
            self._explain(path, parent)
            raise PathNotFoundError(path) from None
        name = posixpath.basename(path)
        info = next((each for each in found if each.name == name), None)
        if info is None:
            self._ask("ls", path)
            raise PathNotFoundError(path)
        return info

    def read(self, path: str, most: int) -> bytes:
        """Return the bytes of a file.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is no regular file.
            ReadLimitError: it holds more than *most*, or than the service gives.
        """
        try:
            answer = self._ask("read_bytes", path, 2 * most + _ENVELOPE)
        except PathNotFoundError:
            raise _no_file(path, self.info(path)) from None
        try:
            return base64.b64decode(the(str, answer, "content_b64"), validate=True)
        except binascii.Error as error:
            raise RemoteProtocolError(f"what the service says a file holds is no base64: {error}") from error

    def _explain(self, path: str, parent: str) -> None:
        """Say what is wrong with *path* where *parent* is no directory but something else."""
        if parent != "." and not self.info(parent).is_dir:
            raise PathNotDirectoryError(path)

    def _ask(self, call: str, path: str, limit: int = 2**24) -> object:
        where = f"/workspaces/{self.session_id}/{call}"
        try:
            return self.service.attempt("POST", where, {"path": path}, Terms(repeats=True, limit=limit))
        except Refused as error:
            raise self._meant(error, path) from None

    def _meant(self, error: Refused, path: str) -> SandboxError:
        if error.status == _MISSING and "No workspace" in error.detail:
            return PathNotFoundError(self.session_id, "no session of that id has files")
        if error.status == _MISSING:
            return PathNotFoundError(path)
        if error.status == _CONFLICT:
            return UnsupportedError("the service keeps no files of sessions that have ended")
        if error.status == _BAD and "limit" in error.detail:
            return ReadLimitError(error.detail)
        return PathEscapeError(path) if error.status == _BAD else error.meaning(self.service.place)


def _info(path: str, told: object) -> FileInfo:
    size = told.get("size") if isinstance(told, dict) else None
    is_dir = the(bool, told, "is_dir")
    return FileInfo(posixpath.basename(path), path, is_dir, 0 if is_dir or not isinstance(size, int) else size, 0.0, 0)


def _no_file(path: str, info: FileInfo) -> SandboxError:
    return PathIsDirectoryError(path) if info.is_dir else NotRegularFileError(path)
