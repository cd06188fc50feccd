"""The walk of a tree that finds what must be masked, by descriptor and never through a link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Literal

from attrs import define, field, frozen

from sandbox_kit.errors import PolicyError, UnsupportedError, printable
from sandbox_kit.host.system import Descriptor, open_beneath
from sandbox_kit.joint_masks import JointMasks

__all__ = [
    "DIRECTORY",
    "Found",
    "Kind",
    "Mount",
    "Walker",
    "changed",
    "identity",
    "pinned",
    "walk",
]

Kind = Literal["hide-file", "hide-dir", "read-only", "read-write"]

MAX_DEPTH = 256
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PINNED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_OPENAT2 = (errno.ENOSYS, errno.EPERM)
_CHANGED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)


@frozen
class Mount:
    """Something to mount over a name in the workspace.

    Attributes:
        kind: an empty unreadable file or directory, or the thing itself once more.
        name: absolute.
        pin: open on what is mounted over, so that nothing else gets its inode; None until all are known.
    """

    kind: Kind
    name: str
    pin: Descriptor | None = field(default=None, eq=False, repr=False)


@define
class Found:
    """What a walk finds.

    Attributes:
        mounts: parents before children.
        parents: each directory that a mount lies in -> its device and inode.
        all_hidden: directories that hold nothing but what is hidden, deepest first.
        kept: what cannot be changed by a mount on what it lies in, though another mask keeps that.
    """

    mounts: list[Mount]
    parents: dict[str, tuple[int, int]]
    all_hidden: list[str]
    kept: list[str] = field(factory=list)

    def close(self) -> None:
        """Close every descriptor; closing twice is fine."""
        for mount in self.mounts:
            if mount.pin is not None:
                mount.pin.close()
        self.mounts = []


def walk(root_fd: int, work_dir: str, rules: JointMasks) -> Found:
    """Find what of the workspace to mask.

    A link is never followed: what it leads to is judged by its own name. A directory that
    this user cannot look into is hidden whole, since its owner could open it to commands.

    Args:
        root_fd: the workspace.
        work_dir: its real name.

    Raises:
        PolicyError: the workspace changes under the walk.
        UnsupportedError: the work directory itself is hidden, or directories nest too deep.
    """
    if rules.hidden_whole(work_dir):
        raise UnsupportedError(f"a rule hides the work directory itself, {printable(work_dir)}, from commands")
    walker = Walker(rules)
    try:
        with Descriptor.open(".", DIRECTORY, root_fd) as root:
            frozen_root = rules.read_only(work_dir)
            if frozen_root:
                walker.found.mounts.append(Mount("read-only", work_dir, Descriptor.open(".", _PINNED, root.fd)))
            walker.enter(root.fd, work_dir.rstrip("/") + "/", frozen_root, 0)
    except BaseException:
        walker.found.close()
        raise
    return walker.found


class Walker:
    """A walk of one tree, depth first.

    Attributes:
        found: what it has found so far.
    """

    def __init__(self, rules: JointMasks) -> None:
        self.rules = rules
        self.found = Found([], {}, [])

    def entries(self, scan: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """What of one directory to judge: all of it."""
        return scan

    def enter(self, directory: int, prefix: str, frozen_here: bool, depth: int) -> bool:
        """Judge every entry of *directory*; whether all of them are hidden, and there is one.

        Args:
            directory: an open descriptor.
            prefix: its name, with a slash at its end.
            frozen_here: whether it is read-only by what is mounted so far.
        """
        hidden, read_only = self.rules.hidden, self.rules.read_only
        mounts = len(self.found.mounts)
        everything, seen = True, False
        with os.scandir(directory) as scan:
            for entry in self.entries(scan):
                seen = True
                name = prefix + entry.name
                if entry.is_symlink():
                    everything = everything and hidden(name)
                elif entry.is_dir(follow_symlinks=False):
                    everything = self.directory(directory, entry.name, name, frozen_here, depth) and everything
                elif hidden(name):
                    self.found.mounts.append(Mount("hide-file", name))
                else:
                    everything = False
                    self._keep(directory, entry.name, name, frozen_here, read_only(name))
        if len(self.found.mounts) > mounts:
            status = os.fstat(directory)
            self.found.parents[prefix.rstrip("/") or "/"] = status.st_dev, status.st_ino
        return everything and seen

    def directory(self, parent: int, entry: str, name: str, frozen_here: bool, depth: int) -> bool:
        """Judge a directory and what is beneath; whether nothing of it is left to see."""
        if self.rules.hidden(name) and self.rules.hidden_whole(name):
            self.found.mounts.append(Mount("hide-dir", name))
            return True
        if depth >= MAX_DEPTH:
            raise UnsupportedError(
                f"{printable(name)}: directories nest too deep to be masked ({MAX_DEPTH}): move or remove it"
            )
        try:
            directory = open_to_search(entry, parent)
        except FileNotFoundError:
            return True
        except PermissionError:
            self.found.mounts.append(Mount("hide-dir", name))
            return True
        except OSError as error:
            raise changed(name) from error
        with directory:
            frozen_there = self.rules.read_only(name)
            self._keep(parent, entry, name, frozen_here, frozen_there)
            all_hidden = self.enter(directory.fd, name + "/", frozen_there, depth + 1)
        if all_hidden:
            self.found.all_hidden.append(name)
        return all_hidden

    def _keep(self, parent: int, entry: str, name: str, frozen_here: bool, frozen_there: bool) -> None:
        if frozen_there != frozen_here:
            self._again(parent, entry, name, frozen_there)
        elif frozen_there and self.rules.set_apart(name, name.rpartition("/")[0]):
            self.found.kept.append(name)

    def _again(self, parent: int, entry: str, name: str, frozen: bool) -> None:
        """Mount the thing over itself, so that it can, or cannot, be changed."""
        try:
            pin = Descriptor.open(entry, _PINNED, parent)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(os.fstat(pin.fd).st_mode):
            raise changed(name)
        self.found.mounts.append(Mount("read-only" if frozen else "read-write", name, pin))


def open_to_search(entry: str, parent: int) -> Descriptor:
    """Open a directory to list what it holds and to open that.

    Raises:
        PermissionError: this user may do one of both at most.
        OSError: it is gone, or no directory.
    """
    directory = Descriptor.open(entry, DIRECTORY, parent)
    os.stat(".", dir_fd=directory.fd)
    return directory


def pinned(root_fd: int, work_dir: str, name: str, *, directory: bool = False) -> Descriptor:
    """Open a file or directory of the workspace for its identity alone, through no link.

    Args:
        name: absolute, *work_dir* or beneath it.
        directory: whether it must be one.

    Raises:
        PolicyError: it is gone, is of another kind, or a link stands there or on the way.
    """
    flags = _PINNED | os.O_DIRECTORY if directory else _PINNED
    try:
        pin = _open_beneath(root_fd, name[len(work_dir) :].strip("/") or ".", flags)
    except OSError as error:
        if error.errno not in _CHANGED:
            raise
        raise changed(name) from error
    if stat.S_ISLNK(os.fstat(pin.fd).st_mode):
        raise changed(name)
    return pin


def _open_beneath(root_fd: int, path: str, flags: int) -> Descriptor:
    try:
        return open_beneath(root_fd, path, flags)
    except OSError as error:
        if error.errno not in _NO_OPENAT2:
            raise
    return _step_down(root_fd, path.split("/"), flags)


def _step_down(root_fd: int, parts: Sequence[str], flags: int) -> Descriptor:
    """Open by one descriptor after the other, where the kernel has no openat2."""
    at = Descriptor.open(".", _PINNED | os.O_DIRECTORY, root_fd)
    for part in parts[:-1]:
        at = Descriptor.open(part, _PINNED | os.O_DIRECTORY, at.fd)
    return Descriptor.open(parts[-1], flags, at.fd)


def identity(pin: Descriptor) -> tuple[int, int]:
    """The device and inode that *pin* is open on."""
    status = os.fstat(pin.fd)
    return status.st_dev, status.st_ino


def changed(name: str) -> PolicyError:
    """The error of a walk that finds *name* to be another thing than it was a moment ago."""
    return PolicyError([f"{printable(name)} changed while its mask was made: it is gone, or became a link"])
