"""WorkspaceArchive: the files that local sessions left, with nothing running."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Generator
from contextlib import closing
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import BinaryIO, Literal

from sandbox_kit.archives import Archive, Entries
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
from sandbox_kit.exports import Export
from sandbox_kit.host.system import host_name
from sandbox_kit.paths import SandboxPath, check_path
from sandbox_kit.primitives import Entry, allow
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.archive_rules import ArchiveRules
from sandbox_kit.sessions.clock import FILE_LAG
from sandbox_kit.sessions.ids import WORKSPACE, check_session_id, is_session_id
from sandbox_kit.sessions.workspace import Workspace, open_root
from sandbox_kit.types import FileInfo, Listing, Skipped, parse_size

__all__ = ["WorkspaceArchive"]


class WorkspaceArchive(Archive):
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

    def ls(self, session_id: str, path: SandboxPath = ".") -> Listing:
        typed, workspace, files = self._open(session_id, path)
        found = files.ls(typed)
        return Listing((info for info in found if not workspace.leads_outside(info)), found.skipped)

    def walk(self, session_id: str, path: SandboxPath = ".") -> Entries:
        typed, workspace, files = self._open(session_id, path)
        return Entries(_shown(workspace, _tree(files, typed)))

    def stat(self, session_id: str, path: SandboxPath) -> FileInfo:
        typed, workspace, files = self._open(session_id, path)
        info = files.stat(typed)
        if workspace.leads_outside(info):
            raise PathEscapeError(typed)
        return info

    def open_read(self, session_id: str, path: SandboxPath) -> BinaryIO:
        typed, _, files = self._open(session_id, path)
        return files.open_read(typed)

    def export(
        self,
        session_id: str,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "zip"] = "tar",
        denied: Literal["error", "skip"] = "error",
    ) -> Export:
        typed, _, files = self._open(session_id, path)
        return files.export(typed, format=format, denied=denied)

    def changes(self, session_id: str, since: float | datetime, path: SandboxPath = ".") -> Entries:
        """List what was made or changed at *since* or later; see :meth:`Archive.changes`.

        The time of an entry is the later one of its content's and its own (``mtime`` and ``ctime``). Files
        lag the clock by up to a tick of the kernel: what changed up to 10 ms before *since* is told as well.
        """
        earliest = _seconds(since) - FILE_LAG
        typed, workspace, files = self._open(session_id, path)
        return Entries(_changed(workspace, _shown(workspace, _tree(files, typed)), earliest))

    def _open(self, session_id: str, path: SandboxPath) -> tuple[str, Workspace, Backend]:
        """Return the path as typed, and the session's files without and with the rules."""
        session_id, typed = check_session_id(session_id), check_path(path)
        if typed.startswith("/"):
            raise PathEscapeError(typed, "is absolute: paths in an archive are relative to the workspace")
        workspace = Workspace(os.path.realpath(self._given), session_id)
        return typed, workspace, workspace if self._rules is None else self._rules.over(workspace)


def _may_have_workspace(root: int, session_id: str) -> bool:
    """Return whether a workspace is there, or cannot be looked for: opening it then tells why."""
    try:
        os.stat(f"{session_id}/{WORKSPACE}", dir_fd=root, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _seconds(since: float | datetime) -> float:
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


def _tree(files: Backend, path: str) -> Generator[Entry, None, None]:
    """Walk what is beneath *path*, or give the file itself; judged at the call."""
    try:
        return files._scandir(path, operations=("ls",), authorize=allow, depth=None)
    except PathNotDirectoryError:
        return _only(files.stat(path))


def _only(info: FileInfo) -> Generator[Entry, None, None]:
    yield info


def _shown(workspace: Workspace, entries: Generator[Entry, None, None]) -> Generator[FileInfo | Skipped, None, None]:
    """Yield what a walk met, without what a rule hides and links that lead outside."""
    with closing(entries):
        for entry in entries:
            if isinstance(entry, Skipped) or (entry is not None and not workspace.leads_outside(entry)):
                yield entry


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
