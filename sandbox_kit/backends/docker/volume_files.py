"""The files of a volume as a backend that changes nothing."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import BinaryIO, NoReturn

from attrs import define, field, frozen

from sandbox_kit import walk
from sandbox_kit.backends.docker.volumes import Content, Node, Volume, node_of
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathEscapeError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
    SandboxError,
    printable,
)
from sandbox_kit.paths import display, join, left_behind, normalise, parts, relative, within
from sandbox_kit.primitives import Authorize, Entry, Operations, Query, allow, settle
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import Capabilities, FileInfo, Identity

__all__ = ["VolumeFiles"]

_MOST_LINKS = 40


@frozen
class _Place:
    """Where a path leads: a real name, and what has it; None for nothing."""

    name: str
    node: Node | None

    @property
    def identity(self) -> Identity:
        """What tells it from another one: the engine tells no inode."""
        node = self.node
        if node is None:
            return Identity(self.name, 0, 0)
        told = f"{node.is_dir} {node.is_link} {node.is_dir or node.size} {int(node.mtime)}"
        return Identity(self.name, 1, zlib.crc32(told.encode()) or 1)


class VolumeFiles(Backend):
    """What a volume holds. Links lead nowhere but into it; an absolute one as where the volume is mounted.

    Each look at a path costs a request for each of its components, and one that lists or reads streams a tar, in
    which times are whole seconds and no socket is told.

    Args:
        volume: the volume.
        whole: keep what a walk meets, and read files in its order from one stream: for an export.
    """

    def __init__(self, volume: Volume, *, whole: bool = False) -> None:
        self._volume = volume
        self._known: dict[str, Node] | None = {} if whole else None
        self._stream: _Stream | None = None

    def __repr__(self) -> str:
        return f"<files of a volume at {self.work_dir}>"

    @property
    def id(self) -> str:
        return f"volume-{id(self):x}"

    @property
    def work_dir(self) -> str:
        return self._volume.place

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(symlinks=True, case_sensitive=True)

    def _node(self, name: str) -> Node | None:
        known = None if self._known is None else self._known.get(name)
        return self._volume.node(name) if known is None else known

    def _target(self, name: str, node: Node) -> str:
        return self._volume.target(name) if node.target is None else node.target

    def _typed(self, path: str, operations: Operations, authorize: Authorize) -> str:
        """Ask for the name as typed, and for what each ``..`` in it leaves; return the name, normalised."""
        typed = normalise(path, self.work_dir)
        if not within(typed, self.work_dir):
            raise PathEscapeError(path)
        for operation in operations:
            authorize(operation, (typed,))
        for name in left_behind(path, self.work_dir) if ".." in path else ():
            _hop(operations, authorize, name)
        return typed

    def _locate(self, path: str, hop: Callable[[str], object], *, follow: bool = True) -> _Place:
        """Follow *path* as a file system does, never out of the volume."""
        way = _Way(path, self.work_dir)
        with _as_typed(path):
            while (name := way.step()) is not None:
                node = self._node(name)
                if node is None:
                    return _Place(way.rest(name), None)
                if node.is_link and (way.ahead or follow):
                    hop(name)
                    way.follow(self._target(name, node))
                elif way.ahead and not node.is_dir:
                    raise PathNotDirectoryError(path)
                else:
                    way.enter(name)
            return _Place(way.here, self._node(way.here))

    def _find(
        self, path: str, operations: Operations, authorize: Authorize, *, follow: bool = True
    ) -> tuple[str, _Place]:
        typed = self._typed(path, operations, authorize)
        return typed, self._locate(path, lambda name: _hop(operations, authorize, name), follow=follow)

    def _existing(
        self, path: str, operations: Operations, authorize: Authorize, *, follow: bool = True
    ) -> tuple[str, _Place, Node]:
        typed, place = self._find(path, operations, authorize, follow=follow)
        if place.node is None:
            raise PathNotFoundError(path)
        return typed, place, place.node

    def _leads_to(self, name: str, node: Node, authorize: Authorize) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The hops of a link, and the real name of what it leads to, where anybody asks."""
        hops, names = list[str](), list[str]()
        if node.is_link and authorize is not allow:
            with suppress(SandboxError):
                names.append(self._locate(name, hops.append).name)
        return tuple(hops), tuple(names)

    def _resolve(
        self, paths: Sequence[str], *, operations: Operations, authorize: Authorize, follow: bool = True
    ) -> tuple[Identity, ...]:
        found: list[Identity] = []
        for path in paths:
            typed, place = self._find(path, operations, authorize, follow=follow)
            settle(operations, authorize, _names(typed, place.name), place.identity)
            found.append(place.identity)
        return tuple(found)

    def _as_given(self) -> str:
        return self.work_dir

    def _resolve_prefixes(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self._real, prefixes))

    def _real(self, prefix: str) -> str:
        """The real name of what lies in the volume; nothing else of a sandbox is there."""
        if not within(prefix, self.work_dir):
            return prefix
        try:
            place = self._locate(prefix, str)
        except SandboxError:
            return prefix
        return prefix if place.node is None else place.name

    def _entry(self, path: str, operations: Operations, authorize: Authorize) -> tuple[str, _Place, Node]:
        """Find an entry itself, with every question put: a link is asked for with where it leads."""
        typed, place, node = self._existing(path, operations, authorize, follow=False)
        hops, names = self._leads_to(place.name, node, authorize)
        for name in hops:
            _hop(operations, authorize, name)
        settle(operations, authorize, _names(typed, place.name, *names), place.identity)
        return typed, place, node

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        typed, _, node = self._entry(path, operations, authorize)
        return self._info(typed, node)

    def _info(self, name: str, node: Node) -> FileInfo:
        shown = display(name, self.work_dir)
        last = shown.rpartition("/")[2] or shown
        return FileInfo(last, shown, node.is_dir, node.size, node.mtime, node.mode, node.is_link)

    def _readlink(self, path: str, *, operations: Operations, authorize: Authorize) -> str:
        _, place, node = self._entry(path, operations, authorize)
        if not node.is_link:
            raise InvalidArgumentError(f"{printable(path)}: not a symbolic link")
        return self._target(place.name, node)

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        typed, place, node = self._existing(path, operations, authorize)
        settle(operations, authorize, _names(typed, place.name), place.identity)
        if not node.is_dir:
            raise PathNotDirectoryError(path)
        return self._walk(typed, place.name, operations, authorize, depth)

    def _walk(
        self, typed: str, real: str, operations: Operations, authorize: Authorize, depth: int | None
    ) -> Generator[Entry, None, None]:
        if self._known is not None:
            self._stream = _Stream(self._volume, real)
        with closing(self._volume.members(real)) as members:
            for info, _ in members:
                rest = info.name.partition("/")[2]
                if not rest or (depth is not None and rest.count("/") >= depth):
                    continue
                name = join(real, rest)
                node = self._whole(name, node_of(info))
                if self._known is not None:
                    self._known[name] = node
                _, leads = self._leads_to(name, node, authorize)
                names = _names(join(typed, rest), name, *leads)
                identity = _Place(name, node).identity
                asked = (authorize(operation, names, identity=identity, found=True) for operation in operations)
                yield self._info(join(typed, rest), node) if all(asked) else None

    def _whole(self, name: str, node: Node) -> Node:
        """What a member is; one that is another name of a file told before is asked for by itself."""
        return (self._volume.node(name) or node) if node.is_linked else node

    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        typed, place, node = self._existing(path, operations, authorize)
        settle(operations, authorize, _names(typed, place.name), place.identity)
        if expect is not None and expect != place.identity:
            raise SandboxConflictError(f"{printable(path)}: something else has the name by now")
        if node.is_dir:
            raise PathIsDirectoryError(path)
        if not node.is_regular:
            raise NotRegularFileError(path)
        with _as_typed(path):
            opened = None if self._stream is None else self._stream.open(place.name)
            return self._volume.open(place.name) if opened is None else opened

    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        return walk.grep(self, query, path, operations, authorize)

    def _refuse(self, path: str, operations: Operations, authorize: Authorize) -> NoReturn:
        self._typed(path, operations, authorize)
        raise PathAccessError(path, "the volume is only read")

    def _open_write(
        self,
        path: str,
        *,
        operations: Operations,
        authorize: Authorize,
        expect: Identity | None = None,
        mode: int | None = None,
    ) -> AbstractContextManager[BinaryIO]:
        self._refuse(path, operations, authorize)

    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize, mode: int | None = None) -> None:
        self._refuse(path, operations, authorize)

    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        self._refuse(path, operations, authorize)

    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        self._refuse(path, operations, authorize)

    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        self._refuse(source, operations, authorize)


@define
class _Way:
    """A path that is being followed.

    Attributes:
        path: as typed.
        top: what it may not leave.
        here: the real name of the directory, or in the end of anything, that it has come to.
        ahead: the components that are still to come, the next one last.
        links: how many were followed.
    """

    path: str
    top: str
    here: str = field(init=False)
    ahead: list[str] = field(init=False)
    links: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.here, self.ahead = self.top, []
        self._add(self.path)

    def _add(self, path: str) -> None:
        components, above = parts(path), parts(self.top)
        if path.startswith("/"):
            if components[: len(above)] != above:
                raise PathEscapeError(self.path)
            self.here, components = self.top, components[len(above) :]
        self.ahead += components[::-1]

    def step(self) -> str | None:
        """Return the name to look at next; None at the end."""
        while self.ahead:
            part = self.ahead.pop()
            if part != "..":
                return join(self.here, part)
            if self.here == self.top:
                raise PathEscapeError(self.path)
            self.here = self.here.rpartition("/")[0]
        return None

    def enter(self, name: str) -> None:
        """Go on from *name*."""
        self.here = name

    def follow(self, target: str) -> None:
        """Go on where a link leads that lies in the directory that was come to."""
        self.links += 1
        if self.links > _MOST_LINKS:
            raise NotRegularFileError(self.path)
        self._add(target)

    def rest(self, name: str) -> str:
        """Return the name that *name*, which is missing, and what is to come beneath it would have."""
        if ".." in self.ahead:
            raise PathNotFoundError(self.path)
        return "/".join((name, *self.ahead[::-1]))


class _Stream:
    """The files of a tree, in the order that a walk met them, from one tar; at first use.

    Args:
        top: the directory that was walked, a real name.
    """

    def __init__(self, volume: Volume, top: str) -> None:
        self._top = top
        self._members = volume.members(top)

    def open(self, name: str) -> BinaryIO | None:
        """Return a file that was not passed yet; None for one that was, or that has no content of its own here."""
        rest = relative(name, self._top)
        for info, content in self._members:
            if info.name.partition("/")[2] == rest:
                return None if content is None else io.BufferedReader(Content(content))
        return None


@contextmanager
def _as_typed(path: str) -> Iterator[None]:
    """Have an error about a path tell it as the caller does."""
    try:
        yield
    except PathError as error:
        raise type(error)(path, error.reason) from error


def _names(typed: str, *real: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((typed, *real)))


def _hop(operations: Operations, authorize: Authorize, name: str) -> None:
    for operation in operations:
        authorize(operation, (name,), hop=True)
