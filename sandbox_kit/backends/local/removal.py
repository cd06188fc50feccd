"""Trees whose entries were judged one by one, and their removal: of each, no more than what was judged."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress

from attrs import field, frozen

from sandbox_kit.calls import is_free
from sandbox_kit.errors import PathIsDirectoryError, SandboxConflictError, printable
from sandbox_kit.host.pin import Spot, of_its_kind
from sandbox_kit.host.system import Descriptor
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW, Trail
from sandbox_kit.primitives import Authorize, Operations
from sandbox_kit.types import Identity, Operation

__all__ = ["Judged", "judge_tree", "refuse_others", "remove"]


@frozen
class Judged:
    """The entries of one directory that were judged.

    Attributes:
        path: the directory, beneath the one that the tree starts with; empty for that one itself.
        entries: what is no directory: the inode by the name.
        directories: the names of its directories.
    """

    path: str
    entries: dict[str, int] = field(factory=dict)
    directories: list[str] = field(factory=list)


def judge_tree(
    spot: Spot,
    path: str,
    operations: Operations,
    authorize: Authorize,
    names: tuple[str, ...],
    new: tuple[str, ...] = (),
    enter: Callable[[str], Descriptor] | None = None,
) -> list[Judged]:
    """Ask for every entry beneath a directory, and for the name that it would get, each with its identity.

    Args:
        names: the directory as typed, and its real name where that is another.
        new: the same of its new name, where it is being moved.
        enter: opens a directory by its path beneath this one, after its name has been judged.

    Returns:
        What was judged, each directory after the one that it is in.

    Raises:
        SandboxConflictError: a directory was replaced by something else meanwhile.
    """
    for operation in operations:
        authorize(operation, names)
    asked = [(operation, names) for operation in operations] + ([("write", new)] if new else [])
    questions = None if is_free(authorize) else _Questions(authorize, asked)
    tree: list[Judged] = []
    pending = [""]
    with of_its_kind(path):
        enter = enter or Trail(Descriptor.open(spot.name, DIRECTORY | NOFOLLOW, spot.parent.fd)).enter
        while pending:
            here = Judged(pending.pop())
            tree.append(here)
            _judge(here, enter(here.path), questions)
            pending += [f"{here.path}/{name}" if here.path else name for name in here.directories]
    return tree


def _judge(here: Judged, at: Descriptor, questions: _Questions | None) -> None:
    inside = f"/{here.path}/" if here.path else "/"
    with os.scandir(at.fd) as entries:
        for entry in entries:
            if questions is not None:
                questions.ask(entry, inside + entry.name)
            if entry.is_dir(follow_symlinks=False):
                here.directories.append(entry.name)
            else:
                here.entries[entry.name] = entry.inode()


@frozen
class _Questions:
    """Who answers for the entries of a tree.

    Attributes:
        authorize: as in a primitive.
        asked: operations, each with the names of the top that it is asked for.
    """

    authorize: Authorize
    asked: list[tuple[Operation, tuple[str, ...]]]

    def ask(self, entry: os.DirEntry[str], below: str) -> None:
        """Ask for an entry of a directory, by its names alone where it is gone; *below* is what these end with."""
        identity = None
        with suppress(FileNotFoundError):
            info = entry.stat(follow_symlinks=False)
            identity = Identity(self.asked[0][1][-1] + below, info.st_dev, info.st_ino)
        for operation, tops in self.asked:
            names = (tops[0] + below,) if len(tops) == 1 else (tops[0] + below, tops[1] + below)
            self.authorize(operation, names, identity=identity)


def remove(spot: Spot, path: str, judged: list[Judged], *, strict: bool) -> None:
    """Remove an entry, and of what is beneath it no more than was judged.

    Args:
        strict: whether another file by a name that was judged is something else: no file of a directory
            is removed before all of them were compared.

    Raises:
        PathIsDirectoryError: the directory holds something else.
        SandboxConflictError: what was judged is another by now.
    """
    with of_its_kind(path):
        try:
            _remove(spot, path, judged, strict)
        except FileExistsError as error:
            raise PathIsDirectoryError(path, "directory is not empty") from error


def refuse_others(spot: Spot, path: str, judged: list[Judged]) -> None:
    """See that an entry, and what was judged beneath it, are still what they were.

    Raises:
        SandboxConflictError: one is another by now.
    """
    with of_its_kind(path):
        _refuse_another(spot, path)
        if judged:
            trail = Trail(Descriptor.open(spot.name, DIRECTORY | NOFOLLOW, spot.parent.fd))
            for directory in judged:
                with suppress(FileNotFoundError):
                    _refuse_others(trail.enter(directory.path), path, directory)


def _refuse_another(spot: Spot, path: str) -> None:
    if spot.info is not None and not os.path.samestat(os.lstat(spot.name, dir_fd=spot.parent.fd), spot.info):
        raise SandboxConflictError(f"{printable(path)}: replaced since it was judged")


def _remove(spot: Spot, path: str, judged: list[Judged], strict: bool) -> None:
    if strict:
        _refuse_another(spot, path)
    if spot.info is None or not stat.S_ISDIR(spot.info.st_mode):
        os.unlink(spot.name, dir_fd=spot.parent.fd)
        return
    if judged:
        with Descriptor.open(spot.name, DIRECTORY | NOFOLLOW, spot.parent.fd) as top:
            trail = Trail(top)
            for directory in reversed(judged):
                _empty(trail, path, directory, strict)
    os.rmdir(spot.name, dir_fd=spot.parent.fd)


def _empty(trail: Trail, path: str, judged: Judged, strict: bool) -> None:
    """Remove what was judged of one directory; what is gone by now is fine."""
    with suppress(FileNotFoundError):
        at = trail.enter(judged.path)
        if strict:
            _refuse_others(at, path, judged)
        for name in judged.entries:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=at.fd)
        for name in judged.directories:
            with suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=at.fd)


def _refuse_others(at: Descriptor, path: str, judged: Judged) -> None:
    with os.scandir(at.fd) as entries:
        for entry in entries:
            inode = entry.inode()
            if judged.entries.get(entry.name, inode) != inode:
                name = "/".join(filter(None, (path, judged.path, entry.name)))
                raise SandboxConflictError(f"{printable(name)}: replaced since it was judged")
