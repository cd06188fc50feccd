"""From a path as typed to one pinned place beneath the root, whatever links do meanwhile.

``openat2`` resolves a path without links in one call. Where it meets a link, or is missing, the
path is walked component by component over a stack of descriptors: links are read, never
followed by the kernel, and ``..`` takes a descriptor off the stack. The stack is bounded: a
directory that it let go of is opened anew by its real name, without a link on the way.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from functools import cached_property

from attrs import frozen

from sandbox_kit.backends.local.system import Descriptor, open_beneath, told_of
from sandbox_kit.errors import (
    NotRegularFileError,
    PathEscapeError,
    PathNotDirectoryError,
    PathNotFoundError,
)
from sandbox_kit.paths import climbs, join, normalise, parts, within
from sandbox_kit.types import Identity

__all__ = ["Root", "Spot", "descend", "lookup"]

DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_PATH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
_MAX_LINKS = 40
_HELD = 64
_PATH_MAX = 4096
_WALK = (errno.ELOOP, errno.ENOSYS, errno.EPERM, errno.EAGAIN)


@frozen
class Spot:
    """One place: a name in a directory that is held open.

    Attributes:
        parent: the deepest directory on the way that exists.
        parent_name: its real name.
        rest: what is missing beneath it: one name, or more when parents are missing too.
        info: the entry itself when it exists, and *rest* is then its one name; else None.
    """

    parent: Descriptor
    parent_name: str
    rest: tuple[str, ...]
    info: os.stat_result | None

    @property
    def name(self) -> str:
        """The last component; ``.`` for the root."""
        return self.rest[-1]

    @property
    def real(self) -> str:
        """The real name."""
        if self.rest == (".",):
            return self.parent_name
        return join(self.parent_name, "/".join(self.rest))

    @property
    def identity(self) -> Identity:
        """Which object it is; device 0 and inode 0 for nothing yet."""
        if self.info is None:
            return Identity(self.real, 0, 0)
        return Identity(self.real, self.info.st_dev, self.info.st_ino)


Hop = Callable[[str], None]


class Root:
    """A directory that paths are confined to.

    Attributes:
        given: its name as the caller gave it, absolute.
        name: its real name.
        fd: a descriptor of it.
    """

    def __init__(self, given: str) -> None:
        self.given = normalise(given)
        self.name = os.path.realpath(given)
        with told_of(self.given):
            self._descriptor = Descriptor(os.open(self.name, DIRECTORY))
        self.fd = self._descriptor.fd
        self._given_parts = parts(self.given)
        self._name_parts = parts(self.name)

    @cached_property
    def case_sensitive(self) -> bool:
        """Whether two names that differ in case are two files, judged by the root's own name."""
        swapped = self.name.swapcase()
        try:
            return swapped == self.name or not os.path.samefile(self.name, swapped)
        except OSError:
            return True

    def typed(self, path: str) -> str:
        """Return *path* absolute and normalised as text; the root as given becomes its real name."""
        if not path.startswith("/"):
            return normalise(path, self.name)
        whole = normalise(path)
        if self.given != self.name and within(whole, self.given):
            return normalise(whole[len(self.given) :].lstrip("/"), self.name)
        return whole

    def beneath(self, path: str) -> list[str]:
        """Return the components of *path* beneath the root, each ``..`` kept.

        Raises:
            PathEscapeError: it leads outside, as typed.
        """
        rest = parts(path)
        if path.startswith("/"):
            inside = self._inside(rest)
            if inside is None:
                inside = self._inside(parts(normalise(path)))
            if inside is None:
                raise PathEscapeError(path)
            rest = inside
        if climbs(rest):
            raise PathEscapeError(path)
        return rest

    def _inside(self, components: list[str]) -> list[str] | None:
        for root in (self._name_parts, self._given_parts):
            if components[: len(root)] == root:
                return components[len(root) :]
        return None

    def open_plain(self, components: list[str], flags: int) -> int | None:
        """Open a path without links on it; None when it has to be walked, as one with ``..`` always has.

        Raises:
            OSError: the system's own word on the path.
        """
        if ".." in components:
            return None
        try:
            return open_beneath(self.fd, "/".join(components) or ".", flags)
        except OSError as error:
            if error.errno in _WALK:
                return None
            raise

    def find(self, path: str, hop: Hop, *, follow: bool = True) -> Spot:
        """Pin *path*, which need not exist.

        Args:
            path: as typed.
            hop: called with the real name of each link on the way.
            follow: whether a final link is followed.

        Raises:
            PathError: of the kind that the system tells.
            PathEscapeError: it leads outside, as typed or through a link.
        """
        components = self.beneath(path)
        with told_of(path):
            return self._find_plain(components, follow) or _Walk(self, path, hop, follow).to(components)

    def _find_plain(self, components: list[str], follow: bool) -> Spot | None:
        if not components or ".." in components:
            return None
        *above, name = components
        parent = self._descriptor
        if above:
            try:
                fd = self.open_plain(above, _PATH)
            except FileNotFoundError:
                return None
            if fd is None:
                return None
            parent = Descriptor(fd)
        info = lookup(parent.fd, name)
        if info is not None and stat.S_ISLNK(info.st_mode) and follow:
            return None
        return Spot(parent, join(self.name, "/".join(above)) if above else self.name, (name,), info)

    def top(self) -> Spot:
        """The root itself."""
        return Spot(self._descriptor, self.name, (".",), os.fstat(self.fd))


class _Walk:
    """One walk: where it stands, and what is still to come."""

    def __init__(self, root: Root, path: str, hop: Hop, follow: bool) -> None:
        self.root, self.path, self.hop, self.follow = root, path, hop, follow
        self.stack = [root._descriptor]
        self.names: list[str] = []
        self.links = 0

    def to(self, components: list[str]) -> Spot:
        pending = components[::-1]
        while pending:
            part = pending.pop()
            if part == "..":
                self._up()
                continue
            info = lookup(self.stack[-1].fd, part)
            if info is None:
                return self._missing(part, pending)
            if stat.S_ISLNK(info.st_mode) and (pending or self.follow):
                pending += self._link(part)[::-1]
            elif not pending:
                return Spot(self.stack[-1], self._here(), (part,), info)
            else:
                self._down(part, info)
        return self._directory()

    def _here(self) -> str:
        return join(self.root.name, "/".join(self.names)) if self.names else self.root.name

    def _up(self) -> None:
        if not self.names:
            raise PathEscapeError(self.path)
        self.names.pop()
        self._pop()

    def _pop(self) -> None:
        """Take the last directory off the stack, and put back the one above if the stack let go of it."""
        self.stack.pop()
        if len(self.stack) == 1 and self.names:
            self.stack.append(descend(self.root._descriptor, "/".join(self.names), _PATH))

    def _down(self, part: str, info: os.stat_result) -> None:
        if not stat.S_ISDIR(info.st_mode):
            raise PathNotDirectoryError(self.path)
        self.stack.append(Descriptor(os.open(part, _PATH | NOFOLLOW, dir_fd=self.stack[-1].fd)))
        self.names.append(part)
        if len(self.stack) > _HELD:
            del self.stack[1]

    def _link(self, part: str) -> list[str]:
        self.links += 1
        if self.links > _MAX_LINKS:
            raise NotRegularFileError(self.path, "too many symbolic links, or a loop of them")
        self.hop(join(self._here(), part))
        target = os.readlink(part, dir_fd=self.stack[-1].fd)
        if not target.startswith("/"):
            return parts(target)
        inside = self.root._inside(parts(target))
        if inside is None:
            raise PathEscapeError(self.path)
        del self.stack[1:], self.names[:]
        return inside

    def _missing(self, part: str, pending: list[str]) -> Spot:
        rest = (part, *reversed(pending))
        if ".." in rest:
            raise PathNotFoundError(self.path)
        return Spot(self.stack[-1], self._here(), rest, None)

    def _directory(self) -> Spot:
        """The walk ended in a directory that it entered: the place is its name in the one above."""
        if not self.names:
            return self.root.top()
        name = self.names.pop()
        self._pop()
        return Spot(self.stack[-1], self._here(), (name,), lookup(self.stack[-1].fd, name))


def descend(top: Descriptor, path: str, flags: int = DIRECTORY) -> Descriptor:
    """Open a directory beneath another, where no link is on the way.

    Args:
        top: where *path* starts.
        path: relative, of any length, without ``..``.
        flags: as for ``os.open``.

    Raises:
        OSError: the system's own word on the path.
    """
    if len(os.fsencode(path)) < _PATH_MAX:
        try:
            return Descriptor(open_beneath(top.fd, path, flags))
        except OSError as error:
            if error.errno not in _WALK:
                raise
    at = top
    for name in parts(path):
        at = Descriptor(os.open(name, flags | NOFOLLOW, dir_fd=at.fd))
    return at


def lookup(directory: int, name: str) -> os.stat_result | None:
    """Describe an entry itself, or return None when there is none."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
