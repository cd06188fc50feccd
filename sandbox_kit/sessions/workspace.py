"""The files of one session, pinned by descriptor."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.errors import (
    ArchiveError,
    PathNotFoundError,
    SandboxConflictError,
    SandboxUnavailableError,
)
from sandbox_kit.host.pin import DIRECTORY, NOFOLLOW, Root
from sandbox_kit.host.system import Descriptor, path_error
from sandbox_kit.paths import display
from sandbox_kit.primitives import Authorize, Operations, allow
from sandbox_kit.sessions.ids import WORKSPACE
from sandbox_kit.types import FileInfo

__all__ = ["Workspace", "open_root"]

_LOOK: Operations = ("ls",)


class Workspace(LocalBackend):
    """The directory ``base/<session_id>/workspace``, neither part of which may be a link; opened at once.

    Args:
        base: the real name of the directory that sessions lie in.
        session_id: checked before.

    Raises:
        PathNotFoundError: the session has no workspace there.
        ArchiveError: a link, or another thing that is no directory, has its name.
        SandboxConflictError: it was replaced while it was being opened.
        SandboxUnavailableError: *base* is missing.
    """

    def __init__(self, base: str, session_id: str) -> None:
        super().__init__(os.path.join(base, session_id, WORKSPACE))
        self._session_id = session_id
        self._opened = _pinned(base, session_id)

    def __repr__(self) -> str:
        return f"<workspace of session {self._session_id}>"

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        """Describe an entry by the name that results show, so that an error does: an export asks by the real one."""
        return super()._stat(display(path, self.work_dir), operations=operations, authorize=authorize)

    @property
    def device(self) -> int:
        """Which file system it is on."""
        return os.fstat(self._held().fd).st_dev

    def changed_at(self, path: str) -> float:
        """Return when an entry itself last changed, in seconds since the epoch; a program cannot set that back.

        Raises:
            PathNotFoundError: it is gone.
        """
        _, _, info = self._existing(path, _LOOK, allow, follow=False)
        return max(info.st_mtime, info.st_ctime)


def open_root(base: str) -> Descriptor:
    """Open the directory that sessions lie in.

    Raises:
        SandboxUnavailableError: it is missing, or cannot be opened.
    """
    try:
        return Descriptor.open(base, DIRECTORY)
    except OSError as error:
        raise SandboxUnavailableError(f"the root of the archive cannot be opened: {error.strerror}") from None


def _pinned(base: str, session_id: str) -> Root:
    """Open the workspace without a link on the way, and prove that its name leads to the same directory."""
    top = open_root(base)
    name = os.path.join(base, session_id, WORKSPACE)
    with _telling_of(session_id):
        own = Descriptor.open(session_id, DIRECTORY | NOFOLLOW, top.fd)
        place = Descriptor.open(WORKSPACE, DIRECTORY | NOFOLLOW, own.fd)
        root = Root(name)
        if root.name != name or not os.path.samestat(os.fstat(root.fd), os.fstat(place.fd)):
            raise SandboxConflictError(f"session {session_id}: its workspace was replaced while it was being opened")
        return root


@contextmanager
def _telling_of(session_id: str) -> Iterator[None]:
    """Raise what the system says of a session's directories, without any name of the host."""
    try:
        yield
    except FileNotFoundError:
        raise PathNotFoundError(session_id, "no session of that id has a workspace") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ArchiveError(f"session {session_id}: its workspace is a link, or no directory") from None
        raise path_error(error, session_id) from None
