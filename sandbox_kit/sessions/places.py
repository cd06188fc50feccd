"""Where a file may lie that decides what sandboxed code may do: nowhere that such code can write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandbox_kit.errors import PathError, PolicyError, printable
from sandbox_kit.sessions.files import Signature
from sandbox_kit.sessions.filesystems import location_of
from sandbox_kit.sessions.ids import WORKSPACE

__all__ = ["check_place"]

_IN_WORKSPACE = "lies in the workspace of a session, which its code can write"
_MOST_LINKS = 40


def check_place(path: str, workspace_root: str | None, outside: Sequence[str], opened: Signature | None) -> None:
    """Raise unless *path*, as typed, as resolved and at each link on the way, lies outside of every workspace.

    A workspace is known by its name, and as the same directory where it is mounted at a second place. A file
    that has another name by a hard link is refused: where that lies cannot be told.

    Args:
        path: absolute.
        workspace_root: its ``<session id>/workspace`` are workspaces.
        outside: further directories that the file may not be in; ``<session id>/workspace`` in one is a workspace.
        opened: what *path* led to when it was opened; None if there was nothing.

    Raises:
        PolicyError: it lies in one, or may; or it leads to another file by now.
        PathError: it cannot be resolved.
    """
    names = [os.path.abspath(path), *_hops(path)]
    for name in map(Path, names):
        if workspace_root is not None and _in_workspace(name, Path(workspace_root)):
            raise PolicyError([f"{printable(path)}: {_IN_WORKSPACE}"])
        inside = next((directory for directory in outside if _beneath(name, Path(directory)) is not None), None)
        if inside is not None:
            raise PolicyError([f"{printable(path)}: lies in {printable(inside)}, where it may not"])
    roots = [Path(root) for root in (workspace_root, *outside) if root is not None]
    if any(_is_workspace_mounted_at(Path(name), root) for name in names for root in roots):
        raise PolicyError([f"{printable(path)}: {_IN_WORKSPACE}"])
    status = _status(names[-1])
    if opened is not None and (status is None or _identity(status) != (opened.device, opened.inode)):
        raise PolicyError([f"{printable(path)}: is replaced while it is read"])
    if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise PolicyError([f"{printable(path)}: has another name, which may lie in the workspace of a session"])


def _in_workspace(name: Path, root: Path) -> bool:
    return _names_workspace(_beneath(name, root))


def _names_workspace(beneath: tuple[str, ...] | None) -> bool:
    """Whether the components of a name beneath a root lead into a workspace."""
    return beneath is not None and beneath[1:2] == (WORKSPACE,)


def _is_workspace_mounted_at(name: Path, root: Path) -> bool:
    """Whether *name* lies in a workspace beneath *root* that is mounted at a second place, whole or in part."""
    at, top = location_of(name), location_of(Path(os.path.realpath(root)))
    if at is not None and top is not None and _names_workspace(at.beneath(top)):
        return True
    above = {_identity(status) for parent in name.parents if (status := _status(os.fspath(parent))) is not None}
    return any(_identity(status) in above for status in _workspaces(root))


def _workspaces(root: Path) -> Iterator[os.stat_result]:
    """Yield what each workspace beneath *root* is; none where it cannot be listed."""
    try:
        with os.scandir(root) as entries:
            found = [_status(os.path.join(entry.path, WORKSPACE)) for entry in entries]
    except OSError:
        return
    yield from (status for status in found if status is not None)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _beneath(name: Path, directory: Path) -> tuple[str, ...] | None:
    """Return the components of *name* beneath *directory*, by name or as the same directory; None if it is not."""
    for parent in (name, *name.parents):
        if parent == directory or _same(parent, directory):
            return name.relative_to(parent).parts
    return None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _hops(path: str) -> Iterator[str]:
    """Yield the name of each link on the way of *path*, then the name without any."""
    here, links = os.sep, 0
    ahead = path.split(os.sep)[::-1]
    while ahead:
        part = ahead.pop()
        name = os.path.dirname(here) if part == os.pardir else os.path.normpath(os.path.join(here, part))
        target = _target(name)
        if target is None:
            here = name
            continue
        yield name
        links += 1
        if links > _MOST_LINKS:
            raise PathError(path, "too many links")
        here = os.sep if os.path.isabs(target) else here
        ahead += target.split(os.sep)[::-1]
    yield here


def _target(name: str) -> str | None:
    try:
        return os.readlink(name)
    except OSError:
        return None


def _status(name: str) -> os.stat_result | None:
    try:
        return os.lstat(name)
    except OSError:
        return None
