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

from sandbox_kit.errors import (
    NotRegularFileError,
    PathEscapeError,
    PathNotDirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxConflictError,
    SandboxError,
    printable,
)
from sandbox_kit.host.prefixes import Prefixes
from sandbox_kit.host.system import Descriptor, open_beneath, told_of
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW, PATH, WALK, descend
from sandbox_kit.paths import climbs, join, left_behind, normalise, parts, within
from sandbox_kit.types import Identity

__all__ = ["DIRECTORY", "NOFOLLOW", "Root", "Spot", "lookup", "of_its_kind"]

_MAX_LINKS = 40
_HELD = 64
_OTHER_KIND = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL)


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


Ask = Callable[[str], None]
"""Called with an absolute name; raises where the name may not be looked at."""


def _ignore(name: str) -> None:
    """Ask nobody."""


class Root:
    """A directory that paths are confined to.

    Attributes:
        given: its name as the caller gave it, absolute.
        name: its real name.
        fd: a descriptor of it.
        prefixes: resolves what rules mention.
    """

    def __init__(self, given: str) -> None:
        self.name = os.path.realpath(given)
        self.given = self.name if ".." in parts(given) else normalise(given)
        with told_of(self.given):
            self._descriptor = Descriptor.open(self.name, DIRECTORY)
        self.fd = self._descriptor.fd
        self.prefixes = Prefixes(self.name)
        self._given_parts = parts(self.given)
        self._name_parts = parts(self.name)

    @cached_property
    def case_sensitive(self) -> bool:
        """Whether two names that differ in case are two files.

        Judged by an entry of the root, and for want of one by the root's own name in its parent:
        an empty root where a file system is mounted is told by the parent's.
        """
        try:
            with os.scandir(self.fd) as entries:
                name = next((entry.name for entry in entries if _swapped(entry.name) != entry.name), None)
            if name is not None:
                return not _same(self.fd, name, _swapped(name)) or _swapped(name) in os.listdir(self.fd)
            above, name = os.path.split(self.name)
            with Descriptor.open(above, DIRECTORY) as parent:
                return _swapped(name) == name or not _same(parent.fd, name, _swapped(name))
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

    def open_plain(self, components: list[str], flags: int) -> Descriptor | None:
        """Open a path without links on it; None when it has to be walked, as one with ``..`` always has.

        Raises:
            OSError: the system's own word on the path.
        """
        if ".." in components:
            return None
        try:
            return open_beneath(self.fd, "/".join(components) or ".", flags)
        except OSError as error:
            if error.errno in WALK:
                return None
            raise

    def open_path(self, path: str, flags: int) -> tuple[Descriptor, str] | None:
        """Open *path* and return its real name with it; None when :meth:`find` has to tell where it leads.

        Raises:
            OSError: the system's own word on the path.
        """
        try:
            components = self.beneath(path)
        except PathEscapeError:
            return None
        opened = self.open_plain(components, flags)
        return None if opened is None else (opened, join(self.name, "/".join(components)) if components else self.name)

    def find(self, path: str, hop: Ask, ask: Ask = _ignore, *, follow: bool = True) -> Spot:
        """Pin *path*, which need not exist.

        Args:
            path: as typed.
            hop: called with the real name of each link on the way, and of what each ``..`` leaves.
            ask: called, before an error tells what is there, with each real name of what *path* leads to:
                as far as it is known, with the rest as text.
            follow: whether a final link is followed.

        Raises:
            PathError: of the kind that the system tells.
            PathEscapeError: it leads outside, as typed or through a link.
        """
        try:
            components = self.beneath(path)
        except PathEscapeError:
            _each(ask, _outside_names(join(self.name, path) if not path.startswith("/") else path))
            raise
        with told_of(path):
            return self._find_plain(components, follow) or _Walk(self, path, hop, follow).pinned(components, ask)

    def _find_plain(self, components: list[str], follow: bool) -> Spot | None:
        if not components or ".." in components:
            return None
        *above, name = components
        parent = self._descriptor
        if above:
            try:
                opened = self.open_plain(above, PATH)
            except FileNotFoundError:
                return None
            if opened is None:
                return None
            parent = opened
        info = lookup(parent.fd, name)
        if info is not None and stat.S_ISLNK(info.st_mode) and follow:
            return None
        return Spot(parent, join(self.name, "/".join(above)) if above else self.name, (name,), info)

    def top(self) -> Spot:
        """The root itself."""
        return Spot(self._descriptor, self.name, (".",), os.fstat(self.fd))


class _Walk:
    """One walk: where it stands, and what is still to come.

    Attributes:
        pending: the components to come, the next one last.
        target: what the last link holds, where that is a name outside the root.
    """

    def __init__(self, root: Root, path: str, hop: Ask, follow: bool) -> None:
        self.root, self.path, self.hop, self.follow = root, path, hop, follow
        self.stack = [root._descriptor]
        self.names: list[str] = []
        self.links = self.changes = 0
        self.pending: list[str] = []
        self.target = ""

    def pinned(self, components: list[str], ask: Ask) -> Spot:
        """Walk *components*, and *ask* for what they lead to before an error tells anything of it."""
        failure: OSError | SandboxError
        try:
            return self._to(components)
        except PermissionDeniedError:
            raise
        except (OSError, SandboxError) as error:
            failure = error
        whole = "/".join([self.target or self._here(), *reversed(self.pending)])
        _each(self.hop, left_behind(whole))
        _each(ask, _outside_names(whole) if isinstance(failure, PathEscapeError) else [normalise(whole)])
        try:
            raise failure
        finally:
            del failure

    def _to(self, components: list[str]) -> Spot:
        pending = self.pending = components[::-1]
        while pending:
            part = pending[-1]
            if part == "..":
                self._up()
                continue
            info = lookup(self.stack[-1].fd, part)
            if info is None:
                return self._missing()
            if stat.S_ISLNK(info.st_mode) and (len(pending) > 1 or self.follow):
                self._link(part)
            elif len(pending) == 1:
                return Spot(self.stack[-1], self._here(), (part,), info)
            else:
                self._down(part, info)
        return self._directory()

    def _here(self) -> str:
        return join(self.root.name, "/".join(self.names)) if self.names else self.root.name

    def _up(self) -> None:
        if not self.names:
            raise PathEscapeError(self.path)
        self.hop(self._here())
        self.pending.pop()
        self.names.pop()
        self._pop()

    def _pop(self) -> None:
        """Take the last directory off the stack, and put back the one above if the stack let go of it."""
        self.stack.pop()
        if len(self.stack) == 1 and self.names:
            self.stack.append(descend(self.root._descriptor, "/".join(self.names), PATH))

    def _down(self, part: str, info: os.stat_result) -> None:
        if not stat.S_ISDIR(info.st_mode):
            raise PathNotDirectoryError(self.path)
        try:
            self.stack.append(Descriptor.open(part, PATH | NOFOLLOW, self.stack[-1].fd))
        except OSError as error:
            self._again(error)
            return
        self.names.append(part)
        self.pending.pop()
        if len(self.stack) > _HELD:
            del self.stack[1]

    def _link(self, part: str) -> None:
        """Put what a link holds in the place of its name."""
        if self.links == _MAX_LINKS:
            raise NotRegularFileError(self.path, "too many symbolic links, or a loop of them")
        self.hop(join(self._here(), part))
        try:
            target = os.readlink(part, dir_fd=self.stack[-1].fd)
        except OSError as error:
            self._again(error)
            return
        self.links += 1
        self.pending.pop()
        if not target.startswith("/"):
            self.pending += parts(target)[::-1]
            return
        inside = self.root._inside(parts(target))
        if inside is None:
            self.target = target
            raise PathEscapeError(self.path)
        del self.stack[1:], self.names[:]
        self.pending += inside[::-1]

    def _again(self, error: OSError) -> None:
        """Look at the next component anew where it is of another kind by now, as often as links are followed.

        Raises:
            OSError: *error*, where it tells something else.
            SandboxConflictError: it was looked at too often.
        """
        if error.errno not in _OTHER_KIND:
            raise error
        self.changes += 1
        if self.changes > _MAX_LINKS:
            raise SandboxConflictError(f"{printable(self.path)}: replaced over and over while it was looked up")

    def _missing(self) -> Spot:
        if ".." in self.pending:
            raise PathNotFoundError(self.path)
        return Spot(self.stack[-1], self._here(), tuple(reversed(self.pending)), None)

    def _directory(self) -> Spot:
        """The walk ended in a directory that it entered: the place is its name in the one above."""
        if not self.names:
            return self.root.top()
        name = self.names.pop()
        self._pop()
        return Spot(self.stack[-1], self._here(), (name,), lookup(self.stack[-1].fd, name))


class of_its_kind(told_of):
    """A block that acts on an entry as what it was when it was pinned: a link, a directory, or neither.

    Raises:
        SandboxConflictError: it is another by now.
        PathError: of the kind that the system tells.
    """

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, SandboxError) and error.errno in _OTHER_KIND:
            told = f"{printable(self._path)}: replaced by another kind of entry meanwhile"
            raise SandboxConflictError(told) from error
        super().__exit__(kind, error, trace)


def lookup(directory: int, name: str) -> os.stat_result | None:
    """Describe an entry itself, or return None when there is none."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _outside_names(path: str) -> list[str]:
    """Return every name of what an absolute path of the host leads to: as text, and as each last link has it."""
    names = [normalise(path)]
    for _ in range(_MAX_LINKS):
        above, name = os.path.split(path.rstrip("/"))
        path = os.path.realpath(path) if name in ("", ".", "..") else join(os.path.realpath(above), name)
        names.append(path)
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            break
    return list(dict.fromkeys(names))


def _each(ask: Ask, names: list[str]) -> None:
    for name in names:
        ask(name)


def _swapped(name: str) -> str:
    return name.swapcase() if name.isascii() else name


def _same(directory: int, name: str, other: str) -> bool:
    """Whether two names in a directory are there, and one entry."""
    one, two = lookup(directory, name), lookup(directory, other)
    return one is not None and two is not None and os.path.samestat(one, two)
