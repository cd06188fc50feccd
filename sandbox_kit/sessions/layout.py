"""Where sessions lie beneath a workspace root: ``<id>/workspace``, and the library's own ``.sandbox_kit``."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sandbox_kit.errors import PathNotFoundError, SandboxConflictError, SandboxUnavailableError
from sandbox_kit.host.private import make_directory, private_directory
from sandbox_kit.host.trash import Trash
from sandbox_kit.sessions.filesystems import mounts_beneath
from sandbox_kit.sessions.ids import WORKSPACE

__all__ = ["OWN", "Layout", "check_opened"]

OWN = ".sandbox_kit"
"""No session has this name: ids begin with a letter or digit."""


def check_opened(root: str | os.PathLike[str]) -> None:
    """Check that a manager has opened sessions beneath *root*, which may be mistyped.

    Raises:
        PathNotFoundError: none has.
    """
    if not Path(root, OWN).is_dir():
        raise PathNotFoundError(os.fspath(root), "no sessions were ever opened beneath it")


class Layout:
    """The directories beneath one root, which is made if it is missing. Ids are checked before.

    Args:
        root: a path of the host.

    Attributes:
        root: its real name.

    Raises:
        SandboxUnavailableError: it cannot be made, or is no directory.
        SandboxConflictError: what the library keeps there is not this user's alone.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        try:
            Path(root).mkdir(mode=0o700, parents=True, exist_ok=True)
            self.root = Path(root).resolve(strict=True)
        except FileExistsError as error:
            raise SandboxUnavailableError(f"the workspace root {root} is no directory") from error
        except OSError as error:
            raise SandboxUnavailableError(f"the workspace root {root} cannot be used: {error.strerror}") from error
        private_directory(self.own)
        private_directory(self.owners)

    @property
    def own(self) -> Path:
        """The library's own directory, outside every workspace."""
        return self.root / OWN

    @property
    def owners(self) -> Path:
        """Where the owners' lock files are."""
        return self.own / "owners"

    def workspace(self, session: str) -> Path:
        """Return where the files of a session are, or will be."""
        return self.root / session / WORKSPACE

    def has(self, session: str) -> bool:
        """Whether something has the name of a session here."""
        return os.path.lexists(self.root / session)

    def make(self, session: str, *, for_others: bool = False) -> Path:
        """Make the workspace of a session, unless it is there, and return it.

        Args:
            for_others: let every user write in one that is made: its parent lets no other user of this machine in,
                so that is for those who get at it by a mount. A parent that lets others in keeps it closed.

        Raises:
            SandboxConflictError: a link, or something else, has its name.
            SandboxUnavailableError: it cannot be made.
        """
        parent, workspace = make_directory(self.root / session), self.workspace(session)
        is_private = parent.st_uid == os.geteuid() and not parent.st_mode & 0o077
        if for_others and is_private and not os.path.lexists(workspace):
            _make_open(workspace)
        make_directory(workspace)
        return workspace

    def remove_empty(self, session: str) -> None:
        """Remove the workspace of a session, if it holds nothing."""
        with suppress(OSError):
            self.workspace(session).rmdir()
            (self.root / session).rmdir()

    def check_removable(self, session: str) -> None:
        """Check that what is beneath a session's directory is the session's own.

        Raises:
            SandboxConflictError: a file system is mounted there.
        """
        if mounts := mounts_beneath(self.root / session):
            raise SandboxConflictError(f"session {session} cannot be purged: {mounts[0]} is mounted")

    def remove(self, session: str) -> None:
        """Remove all that a session has here: first its name, at once, then its files.

        What cannot be removed is logged, and tried again by :meth:`empty_trash`.

        Raises:
            SandboxConflictError: a file system is mounted there.
            SandboxUnavailableError: its name cannot be taken away.
        """
        self.check_removable(session)
        private_directory(self._trash)
        self._in_trash(lambda trash: trash.throw(self.root / session))

    def empty_trash(self) -> None:
        """Remove what removals that were cut short left; another process may do the same.

        Raises:
            SandboxUnavailableError: it cannot be looked at.
        """
        self._in_trash(Trash.empty)

    @property
    def _trash(self) -> Path:
        return self.own / "trash"

    def _in_trash(self, act: Callable[[Trash], None]) -> None:
        try:
            act(Trash(self._trash))
        except OSError as error:
            raise SandboxUnavailableError(f"the files of a session cannot be removed: {error}") from error


def _make_open(workspace: Path) -> None:
    """Make a directory that has its name from the moment on that every user may write in it."""
    unfinished = workspace.with_name(f".{workspace.name}")
    make_directory(unfinished)
    try:
        unfinished.chmod(0o777)
        unfinished.rename(workspace)
    except OSError as error:
        raise SandboxUnavailableError(f"{workspace} cannot be made: {error.strerror}") from error
