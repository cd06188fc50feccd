"""A tree of files and directories in memory, and how a name is found in it; no rules, no locks."""

from __future__ import annotations

import itertools
import time
import unicodedata
from collections.abc import Iterator

from attrs import define, field, frozen

from sandbox_kit.errors import PathError, PathNotDirectoryError, PathNotFoundError
from sandbox_kit.paths import join, parts
from sandbox_kit.types import Identity

__all__ = ["DIRECTORY_MODE", "FILE_MODE", "Directory", "File", "Node", "Place", "Tree", "beneath"]

FILE_MODE = 0o644
DIRECTORY_MODE = 0o755
_DEVICE = 1
_NAME_MAX = 255
_PATH_MAX = 4096


@define(eq=False)
class File:
    """A file; new content comes as a new file under the same name."""

    inode: int
    mode: int
    mtime: float
    data: bytes


@define(eq=False)
class Directory:
    """Entries by folded name: each the name as it was given, and what has it."""

    inode: int
    mode: int
    mtime: float
    entries: dict[str, tuple[str, Node]] = field(factory=dict)

    def children(self, name: str) -> list[tuple[str, Node]]:
        """Return each entry's whole name and node, sorted; *name* is the directory's own."""
        return sorted(((join(name, child), node) for child, node in self.entries.values()), key=_name)


Node = File | Directory


def _name(entry: tuple[str, Node]) -> str:
    return entry[0]


@frozen
class Place:
    """Where a path leads.

    Attributes:
        name: the real name, or the one that it would have.
        node: what has that name; None for nothing.
        parent: the directory that it is in, or the deepest one on the way; of the root the root itself.
        missing: the real names that do not exist, outermost first; the last is *name*.
    """

    name: str
    node: Node | None
    parent: Directory
    missing: tuple[str, ...] = ()

    @property
    def basename(self) -> str:
        """The last component of the name."""
        return self.name.rpartition("/")[2]

    @property
    def identity(self) -> Identity:
        """Which object it is; device and inode are 0 where nothing is."""
        return identity_of(self.name, self.node)


def identity_of(name: str, node: Node | None) -> Identity:
    """Return the identity of what has a real name; None for nothing."""
    return Identity(name, 0, 0) if node is None else Identity(name, _DEVICE, node.inode)


class Tree:
    """Directories from ``/`` down.

    Args:
        case_sensitive: whether names that differ in case, or in Unicode normal form, are two.
    """

    def __init__(self, case_sensitive: bool) -> None:
        self.case_sensitive = case_sensitive
        self._inodes = itertools.count(1)
        self.root = self._directory()

    def locate(self, path: str, shown: str) -> Place:
        """Follow *path* as a file system does: a ``..`` needs the directory that it leaves.

        Args:
            path: absolute.
            shown: what errors call it.

        Raises:
            PathNotDirectoryError: a file is on the way.
            PathNotFoundError: a ``..`` leaves something that is not there.
            PathError: a name is longer than 255 bytes, or the path than 4,095.
        """
        _check_length(path, _PATH_MAX - 1, shown)
        walk = _Walk(self, shown)
        for part in parts(path):
            walk.step(part)
        return walk.place()

    def key(self, name: str) -> str:
        """Return what the spellings of one name have in common."""
        return name if self.case_sensitive else unicodedata.normalize("NFC", name).casefold()

    def make_directories(self, parent: Directory, names: tuple[str, ...]) -> Directory:
        """Make *names* beneath *parent*, each in the one before; return the innermost."""
        for name in names:
            fresh = self._directory()
            self._link(parent, name.rpartition("/")[2], fresh)
            parent = fresh
        return parent

    def put(self, place: Place, data: bytes, mode: int | None = None) -> File:
        """Make a file at *place*, and its parents, or take the place of the one that is there."""
        old = FILE_MODE if place.node is None else place.node.mode
        fresh = File(next(self._inodes), old if mode is None else mode, time.time(), data)
        self._link(self.make_directories(place.parent, place.missing[:-1]), place.basename, fresh)
        return fresh

    def unlink(self, place: Place) -> Node:
        """Take what is at *place* away, with everything beneath, and return it."""
        place.parent.mtime = time.time()
        return place.parent.entries.pop(self.key(place.basename))[1]

    def rename(self, source: Place, target: Place) -> None:
        """Give what is at *source* the last name of *target*, in that one's parent."""
        self._link(target.parent, target.basename, self.unlink(source))

    def _link(self, parent: Directory, name: str, node: Node) -> None:
        parent.entries[self.key(name)] = (name, node)
        parent.mtime = time.time()

    def _directory(self) -> Directory:
        return Directory(next(self._inodes), DIRECTORY_MODE, time.time())


class _Walk:
    """One path on its way: the directories passed, then a file or the names that are missing."""

    def __init__(self, tree: Tree, shown: str) -> None:
        self._key = tree.key
        self._shown = shown
        self._passed: list[tuple[str, Directory]] = [("/", tree.root)]
        self._file: tuple[str, File] | None = None
        self._missing: list[str] = []

    def step(self, part: str) -> None:
        if self._file is not None:
            raise PathNotDirectoryError(self._shown)
        if part == "..":
            self._up()
        else:
            _check_length(part, _NAME_MAX, self._shown)
            self._down(part)

    def _up(self) -> None:
        if self._missing:
            raise PathNotFoundError(self._shown)
        if len(self._passed) > 1:
            self._passed.pop()

    def _down(self, part: str) -> None:
        above, directory = self._passed[-1]
        found = None if self._missing else directory.entries.get(self._key(part))
        if found is None:
            self._missing.append(join(self._missing[-1] if self._missing else above, part))
        elif isinstance(found[1], Directory):
            self._passed.append((join(above, found[0]), found[1]))
        else:
            self._file = (join(above, found[0]), found[1])

    def place(self) -> Place:
        name, directory = self._passed[-1]
        if self._missing:
            return Place(self._missing[-1], None, directory, tuple(self._missing))
        if self._file is not None:
            return Place(*self._file, directory)
        return Place(name, directory, self._passed[max(0, len(self._passed) - 2)][1])


def _check_length(text: str, limit: int, shown: str) -> None:
    if len(text) > limit or len(text.encode("utf-8", "surrogateescape")) > limit:
        raise PathError(shown, "file name too long")


def beneath(name: str, node: Node | None) -> Iterator[tuple[str, Node]]:
    """Yield the name and node of every entry below *node*, parents first; *name* is its own."""
    pending = [(name, node)]
    while pending:
        above, parent = pending.pop()
        if isinstance(parent, Directory):
            inside = parent.children(above)
            yield from inside
            pending += reversed(inside)
