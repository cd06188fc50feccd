"""WorkspaceArchive: the files that local sessions left, with nothing running."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from os import PathLike
from pathlib import Path

from sandbox_kit.archives import Entries
from sandbox_kit.arguments import check_ruleset
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathError,
    PathEscapeError,
    PathNotDirectoryError,
    PathNotFoundError,
)
from sandbox_kit.host.system import host_name
from sandbox_kit.paths import SandboxPath
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.archive_rules import ArchiveRules
from sandbox_kit.sessions.clock import FILE_LAG
from sandbox_kit.sessions.files_archive import FilesArchive, ending, shown, tree
from sandbox_kit.sessions.ids import WORKSPACE, is_session_id
from sandbox_kit.sessions.workspace import Workspace, open_root
from sandbox_kit.types import FileInfo, Skipped, parse_size

__all__ = ["WorkspaceArchive", "seconds_since"]


class WorkspaceArchive(FilesArchive):
    """The files at ``root/<session_id>/workspace``, read in place, for running sessions too.

    Each call opens the workspace anew, by descriptor and through no link, and lets go of it at its end.
    A link that holds an absolute name leads outside, unless that is the workspace's own on this host.

    Args:
        root: the directory that sessions lie in; itself a symbolic link or not. It is opened by each call.
        max_read_bytes: the most bytes that read and read_bytes take in; bytes, or as ``"50m"``.
        ruleset: what may be read and listed; the work directory of its patterns is the workspace. What
            a rule would ask about is refused.

    Raises:
        InvalidArgumentError: *root* is no path or empty, *max_read_bytes* no size, *ruleset* no ruleset.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        max_read_bytes: int | str = Backend.max_read_bytes,
        ruleset: PermissionRuleset | None = None,
    ) -> None:
        check_ruleset(ruleset)
        self._given = host_name(root, "root")
        self.max_read_bytes = parse_size(max_read_bytes, "max_read_bytes")
        self._rules = None if ruleset is None else ArchiveRules(ruleset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._given!r})"

    @property
    def root(self) -> Path:
        """The directory that sessions lie in, absolute, as it was given."""
        return Path(self._given)

    def sessions(self) -> list[str]:
        root = open_root(self._given)
        with os.scandir(root.fd) as entries:
            names = [
                entry.name for entry in entries if is_session_id(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
        return sorted(name for name in names if _may_have_workspace(root.fd, name))

    def changes(self, session_id: str, since: float | datetime, path: SandboxPath = ".") -> Entries:
        """List what was made or changed at *since* or later; see :meth:`Archive.changes`.

        The time of an entry is the later one of its content's and its own (``mtime`` and ``ctime``). Files
        lag the clock by up to a tick of the kernel: what changed up to 10 ms before *since* is told as well.
        """
        earliest = seconds_since(since) - FILE_LAG
        with ExitStack() as open_still:
            typed, workspace, files = open_still.enter_context(self._opened(session_id, path))
            assert isinstance(workspace, Workspace)
            found = _changed(workspace, shown(workspace, tree(files, typed)), earliest)
            return Entries(ending(found, open_still.pop_all()))

    @contextmanager
    def _files(self, session_id: str, *, whole: bool = False) -> Iterator[tuple[Backend, Backend]]:
        workspace = Workspace(os.path.realpath(self._given), session_id)
        yield workspace, workspace if self._rules is None else self._rules.over(workspace)


def _may_have_workspace(root: int, session_id: str) -> bool:
    """Return whether a workspace is there, or cannot be looked for: opening it then tells why."""
    try:
        os.stat(f"{session_id}/{WORKSPACE}", dir_fd=root, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def seconds_since(since: float | datetime) -> float:
    """Return *since* in seconds since the epoch.

    Raises:
        InvalidArgumentError: it is no finite number and no aware datetime.
    """
    if isinstance(since, datetime):
        if since.utcoffset() is None:
            raise InvalidArgumentError(f"since: {since!r} has no time zone")
        return since.timestamp()
    if not isinstance(since, int | float) or isinstance(since, bool) or not abs(since) <= sys.float_info.max:
        raise InvalidArgumentError(f"since: {since!r} is neither seconds since the epoch nor a datetime")
    return float(since)


def _changed(
    workspace: Workspace, entries: Generator[FileInfo | Skipped, None, None], earliest: float
) -> Generator[FileInfo | Skipped, None, None]:
    """Yield the entries that changed at *earliest* or later, and what could not be looked at."""
    with closing(entries):
        for entry in entries:
            if isinstance(entry, Skipped) or _changed_at(workspace, entry) >= earliest:
                yield entry


def _changed_at(workspace: Workspace, info: FileInfo) -> float:
    """Return when an entry changed; long ago for one that is gone by now, this moment where that cannot be told."""
    try:
        return workspace.changed_at(info.path)
    except (PathNotFoundError, PathNotDirectoryError, PathEscapeError, NotRegularFileError):
        return -math.inf
    except PathError:
        return math.inf
