"""LocalBackend: the files of one directory of the host, confined to it."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from os import PathLike
from typing import Any, BinaryIO
from uuid import uuid4

from sandbox_kit import walk
from sandbox_kit.arguments import check_timeout
from sandbox_kit.backends.local import change, removal, scan, search
from sandbox_kit.backends.local.closed import Opened
from sandbox_kit.calls import is_approved, is_free
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
    SandboxError,
    SandboxUnavailableError,
    printable,
)
from sandbox_kit.host.pin import Root, Spot, of_its_kind
from sandbox_kit.host.prefixes import Prefixes
from sandbox_kit.host.system import Descriptor, host_name, rename_noreplace, told_of
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW
from sandbox_kit.paths import join, left_behind, within
from sandbox_kit.primitives import Authorize, Entry, Operations, Query, settle
from sandbox_kit.search.matches import Matches, SearchReport
from sandbox_kit.types import Capabilities, FileInfo, Identity, parse_size

__all__ = ["LocalBackend"]

_READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class LocalBackend(Backend):
    """The files beneath one directory.

    No path leads outside it, whatever symbolic links say and however they change meanwhile.
    Names are the host's own: ``work_dir`` is the directory's real path, and an absolute path
    under the directory as given is taken as beneath it. A file that is being written is in no
    listing and no search, where the file system cannot keep it without a name either.

    Args:
        root: the directory; itself a symbolic link or not. It is opened on first use.
        max_read_bytes: the most bytes that read, read_bytes and edit take in; bytes, or as ``"50m"``.
        file_timeout: how long the search of one file may take, in seconds. Ripgrep and GNU grep take
            linear time for it; where they search a tree, the search ends after ten minutes of silence.

    Raises:
        InvalidArgumentError: *root* is no path or empty, *max_read_bytes* no size, *file_timeout* not positive.
        PathNotFoundError: on first use: *root* is missing.
        SandboxUnavailableError: later: *root* was removed.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        max_read_bytes: int | str = Backend.max_read_bytes,
        file_timeout: float = Backend.file_timeout,
    ) -> None:
        self._given = host_name(root, "root")
        self.max_read_bytes = parse_size(max_read_bytes, "max_read_bytes")
        self.file_timeout = _seconds(file_timeout)
        self._id = f"local-{uuid4().hex[:12]}"
        self._opening = threading.Lock()
        self._opened: Root | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_opening", "_opened")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._opening = threading.Lock()
        self._opened = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._given!r})"

    @property
    def id(self) -> str:
        return self._id

    @property
    def work_dir(self) -> str:
        return self._held().name

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(symlinks=True, case_sensitive=self._held().case_sensitive)

    @property
    def _root(self) -> Root:
        """The root, as long as it is there."""
        root = self._held()
        if os.fstat(root.fd).st_nlink == 0:
            raise SandboxUnavailableError(f"the root of {self!r} was removed")
        return root

    def _held(self) -> Root:
        """The root, there or not; opened on first use."""
        if self._opened is None:
            with self._opening:
                if self._opened is None:
                    self._opened = Root(self._given)
        return self._opened

    def _find(
        self, path: str, operations: Operations, authorize: Authorize, *, follow: bool = True
    ) -> tuple[str, Spot]:
        """Return the name as typed and the place, both asked for; the last question is still to be put."""
        return self._typed(path, operations, authorize), self._pin(path, operations, authorize, follow)

    def _typed(self, path: str, operations: Operations, authorize: Authorize) -> str:
        """Ask for the name as typed, and for what each ``..`` in it leaves; return the name, normalised."""
        root = self._root
        typed = root.typed(path)
        _ask(operations, authorize, typed)
        if ".." in path:
            for name in left_behind(path, root.name):
                _hop(operations, authorize, root.typed(name))
        return typed

    def _pin(self, path: str, operations: Operations, authorize: Authorize, follow: bool) -> Spot:
        hop, ask = partial(_hop, operations, authorize), partial(_ask, operations, authorize)
        return self._root.find(path, hop, ask, follow=follow)

    def _existing(
        self, path: str, operations: Operations, authorize: Authorize, *, follow: bool = True
    ) -> tuple[str, Spot, os.stat_result]:
        typed, spot = self._find(path, operations, authorize, follow=follow)
        return typed, spot, _described(spot, path, operations, authorize)

    def _resolve(
        self, paths: Sequence[str], *, operations: Operations, authorize: Authorize, follow: bool = True
    ) -> tuple[Identity, ...]:
        found: list[Identity] = []
        for path in paths:
            typed, spot = self._find(path, operations, authorize, follow=follow)
            _ask_parents(spot, operations, authorize)
            settle(operations, authorize, _names(typed, spot.real), spot.identity)
            found.append(spot.identity)
        return tuple(found)

    def _as_given(self) -> str:
        return self._held().given

    def _resolve_prefixes(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        root = self._opened
        return tuple(map((Prefixes(self.work_dir) if root is None else root.prefixes).real, prefixes))

    def _target(self, spot: Spot, info: os.stat_result) -> scan.Leads:
        if not stat.S_ISLNK(info.st_mode):
            return scan.NOWHERE
        hops, names = list[str](), list[str]()
        with suppress(SandboxError):
            names.append(self._held().find(spot.real, hops.append, names.append).real)
        return scan.Leads(tuple(hops), tuple(names))

    def _entry(self, path: str, operations: Operations, authorize: Authorize) -> tuple[str, Spot, os.stat_result]:
        """Find an entry itself, with every question put: a link is asked for with where it leads."""
        typed, spot, info = self._existing(path, operations, authorize, follow=False)
        leads = scan.NOWHERE if is_free(authorize) else self._target(spot, info)
        for hop in leads.hops:
            _hop(operations, authorize, hop)
        settle(operations, authorize, _names(typed, spot.real, *leads.names), spot.identity)
        return typed, spot, info

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        typed, _, info = self._entry(path, operations, authorize)
        return scan.file_info(typed, self._held().name, info)

    def _readlink(self, path: str, *, operations: Operations, authorize: Authorize) -> str:
        _, spot, info = self._entry(path, operations, authorize)
        if not stat.S_ISLNK(info.st_mode):
            raise InvalidArgumentError(f"{printable(path)}: not a symbolic link")
        return _link_text(spot, path)

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        typed, spot, info = self._existing(path, operations, authorize)
        settle(operations, authorize, _names(typed, spot.real), spot.identity)
        if not stat.S_ISDIR(info.st_mode):
            raise PathNotDirectoryError(path)
        directory = self._open_same(spot, path, DIRECTORY)
        target = None if is_free(authorize) else self._target
        return scan.Scan(self._held().name, operations, authorize, target).walk(directory, typed, spot.real, depth)

    def _open_same(self, spot: Spot, path: str, flags: int) -> Descriptor:
        """Open what *spot* describes; another object by that name is refused."""
        with of_its_kind(path):
            opened = Descriptor.open(spot.name, flags | NOFOLLOW, spot.parent.fd)
        info = os.fstat(opened.fd)
        if Identity(spot.real, info.st_dev, info.st_ino) != spot.identity:
            opened.close()
            raise SandboxConflictError(f"{printable(path)}: replaced while it was being opened")
        return opened

    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        typed = self._typed(path, operations, authorize)
        with told_of(path):
            plain = self._held().open_path(path, _READ)
        if plain is not None:
            opened, real = plain
            return _reader(path, opened, (typed, real), operations, authorize, expect)
        spot = self._pin(path, operations, authorize, follow=True)
        _described(spot, path, operations, authorize)
        _ask(operations, authorize, typed, spot.real)
        with of_its_kind(path):
            opened = Descriptor.open(spot.name, _READ | NOFOLLOW, spot.parent.fd)
        return _reader(path, opened, (typed, spot.real), operations, authorize, expect)

    def _open_write(
        self,
        path: str,
        *,
        operations: Operations,
        authorize: Authorize,
        expect: Identity | None = None,
        mode: int | None = None,
    ) -> AbstractContextManager[BinaryIO]:
        typed, spot = self._find(path, operations, authorize)
        _ask_parents(spot, operations, authorize)
        if expect is not None and expect != spot.identity:
            raise SandboxConflictError(f"{printable(path)}: replaced since it was judged")
        settle(operations, authorize, _names(typed, spot.real), spot.identity)
        if spot.info is not None:
            _refuse_irregular(path, spot.info)
        return change.writing(spot, path, mode, strict=expect is not None or is_approved(authorize))

    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize, mode: int | None = None) -> None:
        typed, spot = self._find(path, operations, authorize)
        _ask_parents(spot, operations, authorize)
        settle(operations, authorize, _names(typed, spot.real), spot.identity)
        if spot.info is None:
            change.make_directories(spot, spot.rest, path, mode)
        elif not stat.S_ISDIR(spot.info.st_mode):
            raise PathExistsError(path)
        elif mode is not None:
            with self._open_same(spot, path, DIRECTORY) as directory, told_of(path):
                change.set_mode(directory, mode)

    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        typed, spot = self._find(path, operations, authorize, follow=False)
        settle(operations, authorize, _names(typed, spot.real), spot.identity)
        if spot.info is not None:
            raise PathExistsError(path)
        if len(spot.rest) > 1:
            raise PathNotFoundError(path)
        with told_of(path):
            os.symlink(target, spot.name, dir_fd=spot.parent.fd)

    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        typed, spot, info = self._existing(path, operations, authorize, follow=False)
        self._refuse_root(path, spot)
        judged: list[removal.Judged] = []
        opened = Opened(spot.parent, spot.name)
        try:
            if recursive and stat.S_ISDIR(info.st_mode):
                names = _names(typed, spot.real)
                judged = removal.judge_tree(spot, path, operations, authorize, names, enter=opened.enter)
            settle(operations, authorize, _names(typed, spot.real), spot.identity)
            removal.remove(spot, path, judged, strict=is_approved(authorize))
        finally:
            opened.close()

    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        new_typed = self._typed(target, ("write",), authorize)
        typed = self._typed(source, operations, authorize)
        new = self._pin(target, ("write",), authorize, follow=False)
        spot = self._pin(source, operations, authorize, follow=False)
        info = _described(spot, source, operations, authorize)
        authorize("write", _names(new_typed, new.real))
        judged = []
        if stat.S_ISDIR(info.st_mode):
            names, new_names = _names(typed, spot.real), _names(new_typed, new.real)
            judged = removal.judge_tree(spot, source, operations, authorize, names, new_names)
        settle(operations, authorize, _names(typed, spot.real), spot.identity)
        self._refuse_root(source, spot)
        if within(new.real, spot.real) and new.real != spot.real:
            raise InvalidArgumentError(f"{printable(source)}: cannot be moved beneath itself, to {printable(target)}")
        if new.info is not None:
            raise PathExistsError(target)
        if len(new.rest) > 1:
            raise PathNotFoundError(target)
        if is_approved(authorize):
            removal.refuse_others(spot, source, judged)
        with told_of(source):
            try:
                rename_noreplace(spot.parent.fd, spot.name, new.parent.fd, new.name)
            except FileExistsError as error:
                raise PathExistsError(target) from error

    def _refuse_root(self, path: str, spot: Spot) -> None:
        if spot.rest == (".",):
            raise InvalidArgumentError(f"{printable(path)}: the root itself can be neither moved nor removed")

    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        argv = search.command(query, self._held().name) if sys.platform == "linux" else None
        if argv is None:
            return walk.grep(self, query, path, operations, authorize)
        typed, spot, info = self._existing(path, operations, authorize)
        if not stat.S_ISDIR(info.st_mode):
            return walk.grep(self, query, path, operations, authorize)
        settle(operations, authorize, _names(typed, spot.real), spot.identity)
        directory = self._open_same(spot, path, DIRECTORY)
        tree = search.Tree(self._held(), directory, typed, spot.real)
        report = SearchReport()
        found = search.Search(query, tree, operations, authorize, report, self.file_timeout).run(argv)
        return Matches(found, report, limit=query.limit)


def _seconds(file_timeout: float) -> float:
    seconds = check_timeout(file_timeout, "file_timeout")
    if seconds is None:
        raise InvalidArgumentError("file_timeout: every wait has an end: None is not one")
    return seconds


def _link_text(spot: Spot, path: str) -> str:
    with of_its_kind(path):
        return os.readlink(spot.name, dir_fd=spot.parent.fd)


def _names(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _ask(operations: Operations, authorize: Authorize, *names: str) -> None:
    unique = _names(*names)
    for operation in operations:
        authorize(operation, unique)


def _hop(operations: Operations, authorize: Authorize, name: str) -> None:
    for operation in operations:
        authorize(operation, (name,), hop=True)


def _described(spot: Spot, path: str, operations: Operations, authorize: Authorize) -> os.stat_result:
    """Return what is at *spot*; that nothing is there is told where its real name may be asked for."""
    if spot.info is None:
        _ask(operations, authorize, spot.real)
        raise PathNotFoundError(path)
    return spot.info


def _ask_parents(spot: Spot, operations: Operations, authorize: Authorize) -> None:
    """Ask for *spot*, and to write each directory that would have to be made above it."""
    if "write" in operations and not is_free(authorize) and len(spot.rest) > 1:
        _ask(operations, authorize, spot.real)
        for depth in range(1, len(spot.rest)):
            authorize("write", (join(spot.parent_name, "/".join(spot.rest[:depth])),))


def _refuse_irregular(path: str, info: os.stat_result) -> None:
    if stat.S_ISDIR(info.st_mode):
        raise PathIsDirectoryError(path)
    if not stat.S_ISREG(info.st_mode):
        raise NotRegularFileError(path)


def _reader(
    path: str,
    descriptor: Descriptor,
    names: tuple[str, str],
    operations: Operations,
    authorize: Authorize,
    expect: Identity | None,
) -> BinaryIO:
    """Ask for what was opened, under its *names* as typed and real, and return it as a file."""
    info = os.fstat(descriptor.fd)
    identity = Identity(names[1], info.st_dev, info.st_ino)
    if expect is not None and expect != identity:
        raise SandboxConflictError(f"{printable(path)}: replaced since it was judged")
    settle(operations, authorize, _names(*names), identity)
    _refuse_irregular(path, info)
    fd, descriptor.fd = descriptor.fd, -1
    return io.BufferedReader(io.FileIO(fd))
