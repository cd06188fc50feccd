"""StateBackend: the file primitives over a tree in memory.

A lock guards the tree. No question is asked while it is held, so an act finds its names anew
and refuses where they lead to something that was not asked for.
"""

from __future__ import annotations

import io
import threading
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO, NoReturn, Self

from sandbox_kit import streams, walk
from sandbox_kit.backends.state import document
from sandbox_kit.backends.state.questions import ask_each, ask_entries, moved, names_of
from sandbox_kit.backends.state.tree import Directory, File, Node, Place, Tree, beneath, identity_of
from sandbox_kit.calls import is_approved
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
    UnsupportedError,
    printable,
)
from sandbox_kit.paths import check_path, display, join, left_behind, normalise, within
from sandbox_kit.primitives import Authorize, Entry, Operations, Query, settle
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import Capabilities, FileInfo, Identity, Skipped, parse_size

__all__ = ["StateBackend"]


class StateBackend(Backend):
    """Files in memory, on any platform; there are no symbolic links.

    Args:
        files: content by path; relative paths start at *work_dir*, parents are made.
        work_dir: an absolute path; a directory of that name is made.
        case_sensitive: whether names that differ in case are two. If not, a name keeps the
            spelling that it was made with.
        max_read_bytes: the most that read, read_bytes and edit take in, in bytes or as ``"50m"``.

    Raises:
        InvalidArgumentError: a path or content that no file could have.
        PathNotDirectoryError: one of *files* lies beneath another.
        PathIsDirectoryError: one of *files* is where another's parent is.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        work_dir: str = "/",
        case_sensitive: bool = True,
        *,
        max_read_bytes: int | str = Backend.max_read_bytes,
    ) -> None:
        if not check_path(work_dir).startswith("/"):
            raise InvalidArgumentError(f"work_dir: {work_dir!r} is not an absolute path")
        self._work_dir = normalise(work_dir)
        self._id = f"state-{uuid.uuid4().hex}"
        self._lock = threading.Lock()
        self._tree = Tree(case_sensitive)
        self._capabilities = Capabilities(case_sensitive=case_sensitive)
        self.max_read_bytes = parse_size(max_read_bytes, "max_read_bytes")
        base = self._find(self._work_dir)
        self._tree.make_directories(base.parent, base.missing)
        if files is not None and not isinstance(files, Mapping):
            raise InvalidArgumentError(f"files: is a mapping of content by path, not {type(files).__name__}")
        for path, content in (files or {}).items():
            self._put(check_path(path), streams.as_bytes(content, f"files[{path!r}]"))

    def _put(self, path: str, data: bytes) -> None:
        place = self._find(path)
        if isinstance(place.node, Directory):
            raise PathIsDirectoryError(path)
        self._tree.put(place, data)

    @property
    def id(self) -> str:
        return self._id

    @property
    def work_dir(self) -> str:
        return self._work_dir

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a document for JSON: all bytes, empty directories, modes and times.

        Content is readable text where it is UTF-8, else base64.
        """
        with self._lock:
            entries = document.dump_entries(self._tree)
        return {
            "format": document.FORMAT,
            "work_dir": document.dump_text(self._work_dir),
            "case_sensitive": self._tree.case_sensitive,
            "max_read_bytes": self.max_read_bytes,
            "entries": entries,
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Return a new backend with what :meth:`to_dict` wrote down.

        Raises:
            InvalidArgumentError: the document is not of that form; the message names the place.
        """
        options, entries = document.load(d)
        backend = cls(**options)
        document.load_entries(entries, backend._tree)
        return backend

    def __repr__(self) -> str:
        return f"<StateBackend {self.id} at {self._work_dir}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    # Judging: the questions that come before an act.

    def _judge_typed(self, path: str, operations: Operations, authorize: Authorize) -> str:
        """Ask for the name as typed, and for what each ``..`` in it leaves; return the name, normalised."""
        typed = normalise(path, self._work_dir)
        passed = left_behind(path, self._work_dir) if ".." in path else []
        for operation in operations:
            authorize(operation, (typed,))
        for name in passed:
            for operation in operations:
                authorize(operation, (name,), hop=True)
        return typed

    def _find(self, path: str) -> Place:
        return self._tree.locate(path if path.startswith("/") else join(self._work_dir, path), path)

    def _locate(self, path: str) -> Place:
        with self._lock:
            return self._find(path)

    def _present(self, path: str) -> tuple[Place, Node]:
        place = self._locate(path)
        if place.node is None:
            raise PathNotFoundError(path)
        return place, place.node

    def _entries(self, place: Place) -> list[Identity]:
        with self._lock:
            return [identity_of(name, node) for name, node in beneath(place.name, place.node)]

    def _find_again(self, path: str, judged: Place, *, exist: bool) -> Place:
        """Find what was judged, for the act; the lock is held.

        Raises:
            PathNotFoundError: it, or a parent of it, is gone.
            SandboxConflictError: its real name is another by now.
        """
        now = self._find(path)
        if now.name != judged.name:
            _refuse_changed(path)
        if (exist and now.node is None) or not {*now.missing} <= {*judged.missing, judged.name}:
            raise PathNotFoundError(path)
        return now

    def _refuse_unjudged(self, path: str, now: Place, judged: Sequence[Identity]) -> None:
        inodes = {entry.name: entry.inode for entry in judged}
        if any(inodes.get(name) != node.inode for name, node in beneath(now.name, now.node)):
            _refuse_changed(path)

    def _refuse_base(self, path: str, place: Place) -> None:
        if within(self._work_dir, place.name):
            raise InvalidArgumentError(f"{printable(path)}: the work directory and what it lies in stay in place")

    # Looking.

    def _resolve(
        self, paths: Sequence[str], *, operations: Operations, authorize: Authorize, follow: bool = True
    ) -> tuple[Identity, ...]:
        found: list[Identity] = []
        for path in paths:
            typed = self._judge_typed(path, operations, authorize)
            place = self._locate(path)
            if "write" in operations:
                ask_each(("write",), authorize, place.missing[:-1])
            settle(operations, authorize, names_of(typed, place.name), place.identity)
            found.append(place.identity)
        return tuple(found)

    def _as_given(self) -> str:
        return self._work_dir

    def _resolve_prefixes(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self._real, prefixes))

    def _real(self, prefix: str) -> str:
        try:
            place = self._locate(prefix)
        except PathError:
            return prefix
        return prefix if place.node is None else place.name

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        typed = self._judge_typed(path, operations, authorize)
        place, node = self._present(path)
        settle(operations, authorize, names_of(typed, place.name), place.identity)
        return self._info(typed, node)

    def _info(self, name: str, node: Node) -> FileInfo:
        shown = display(name, self._work_dir)
        size = len(node.data) if isinstance(node, File) else 0
        is_dir = isinstance(node, Directory)
        return FileInfo(shown.rpartition("/")[2] or shown, shown, is_dir, size, node.mtime, node.mode)

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        typed = self._judge_typed(path, operations, authorize)
        place, node = self._present(path)
        settle(operations, authorize, names_of(typed, place.name), place.identity)
        if not isinstance(node, Directory):
            raise PathNotDirectoryError(path)
        return self._walk(typed, place.name, node, operations, authorize, depth)

    def _walk(
        self, typed: str, real: str, top: Directory, operations: Operations, authorize: Authorize, depth: int | None
    ) -> Generator[Entry, None, None]:
        pending = [(real, top, 1, True)]
        while pending:
            above, directory, level, is_shown = pending.pop()
            children = self._children(above, directory)
            if children is None:
                gone = Skipped(display(moved(above, real, typed), self._work_dir), "changed while it was walked")
                yield gone if is_shown else None
                continue
            shown_here: set[str] = set()
            for name, node in children:
                shown = moved(name, real, typed)
                names = names_of(shown, name)
                identity = identity_of(name, node)
                allowed = all(authorize(operation, names, identity=identity, found=True) for operation in operations)
                shown_here.update([name] if allowed else [])
                yield self._info(shown, node) if allowed else None
            if depth is None or level < depth:
                inner = [(name, node) for name, node in children if isinstance(node, Directory)]
                pending += [(name, node, level + 1, name in shown_here) for name, node in reversed(inner)]

    def _children(self, name: str, directory: Directory) -> list[tuple[str, Node]] | None:
        """Return a directory's entries, or None where it has not that name any more."""
        with self._lock:
            try:
                known = self._find(name).node is directory
            except PathError:
                known = False
            return directory.children(name) if known else None

    def _readlink(self, path: str, *, operations: Operations, authorize: Authorize) -> str:
        self._stat(path, operations=operations, authorize=authorize)
        raise InvalidArgumentError(f"{printable(path)}: not a symbolic link")

    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        return walk.grep(self, query, path, operations, authorize)

    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        typed = self._judge_typed(path, operations, authorize)
        place, node = self._present(path)
        settle(operations, authorize, names_of(typed, place.name), place.identity)
        _refuse_other(path, place, expect)
        if not isinstance(node, File):
            raise PathIsDirectoryError(path)
        return io.BufferedReader(io.BytesIO(node.data))

    # Changing.

    def _open_write(
        self,
        path: str,
        *,
        operations: Operations,
        authorize: Authorize,
        expect: Identity | None = None,
        mode: int | None = None,
    ) -> AbstractContextManager[BinaryIO]:
        typed = self._judge_typed(path, operations, authorize)
        place = self._locate(path)
        ask_each(("write",), authorize, place.missing[:-1])
        settle(operations, authorize, names_of(typed, place.name), place.identity)
        _refuse_other(path, place, expect)
        if isinstance(place.node, Directory):
            raise PathIsDirectoryError(path)
        return self._writing(path, place, place.identity if is_approved(authorize) else expect, mode)

    @contextmanager
    def _writing(self, path: str, judged: Place, expect: Identity | None, mode: int | None) -> Iterator[BinaryIO]:
        held = io.BytesIO()
        yield held
        with self._lock:
            now = self._find_again(path, judged, exist=False)
            _refuse_other(path, now, expect)
            if isinstance(now.node, Directory):
                raise PathIsDirectoryError(path)
            self._tree.put(now, held.getvalue(), mode)

    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize, mode: int | None = None) -> None:
        typed = self._judge_typed(path, operations, authorize)
        place = self._locate(path)
        ask_each(operations, authorize, place.missing[:-1])
        settle(operations, authorize, names_of(typed, place.name), place.identity)
        with self._lock:
            now = self._find_again(path, place, exist=False)
            if isinstance(now.node, File):
                raise PathExistsError(path)
            made = now.node or self._tree.make_directories(now.parent, now.missing)
            made.mode = made.mode if mode is None else mode

    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        self._judge_typed(path, operations, authorize)
        raise UnsupportedError(f"{printable(path)}: files in memory have no symbolic links")

    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        typed = self._judge_typed(path, operations, authorize)
        place, _ = self._present(path)
        self._refuse_base(path, place)
        entries = self._entries(place) if recursive else []
        ask_entries(operations, authorize, entries, place.name, typed, place.name)
        settle(operations, authorize, names_of(typed, place.name), place.identity)
        with self._lock:
            now = self._find_again(path, place, exist=True)
            if is_approved(authorize) and now.identity != place.identity:
                _refuse_changed(path)
            if not recursive and isinstance(now.node, Directory) and now.node.entries:
                raise PathIsDirectoryError(path, "directory is not empty")
            self._refuse_unjudged(path, now, entries)
            self._tree.unlink(now)

    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        new = self._judge_typed(target, ("write",), authorize)
        old = self._judge_typed(source, operations, authorize)
        self._locate(target)
        place, node = self._present(source)
        with self._lock:
            goal = self._goal(target, new, node)
        authorize("write", names_of(new, goal.name))
        entries = self._entries(place)
        ask_entries(operations, authorize, entries, place.name, old, place.name)
        ask_entries(("write",), authorize, entries, place.name, new, goal.name)
        settle(operations, authorize, names_of(old, place.name), place.identity)
        self._refuse_base(source, place)
        with self._lock:
            now = self._find_again(source, place, exist=True)
            if is_approved(authorize) and now.identity != place.identity:
                _refuse_changed(source)
            free = self._goal(target, new, now.node)
            _refuse_goal(source, target, now, free)
            self._refuse_unjudged(source, now, entries)
            if free.name != goal.name:
                _refuse_changed(target)
            self._tree.rename(now, free)

    def _goal(self, path: str, typed: str, node: Node | None) -> Place:
        """Find a new name for *node*, for which another spelling of its own name is free; the lock is held."""
        place = self._find(path)
        name = join(place.name.rpartition("/")[0], typed.rpartition("/")[2])
        return Place(name, None, place.parent, (name,)) if place.node is node and place.name != name else place


def _refuse_goal(old: str, path: str, source: Place, goal: Place) -> None:
    """Refuse a new name that is taken, lies beneath the old one, or has no parent."""
    if goal.node is not None:
        raise PathExistsError(path)
    if within(goal.name, source.name):
        raise InvalidArgumentError(f"{printable(old)}: cannot be moved beneath itself, to {printable(path)}")
    if len(goal.missing) > 1:
        raise PathNotFoundError(path)


def _refuse_other(path: str, place: Place, expect: Identity | None) -> None:
    if expect is not None and place.identity != expect:
        _refuse_changed(path)


def _refuse_changed(path: str) -> NoReturn:
    raise SandboxConflictError(f"{printable(path)}: something else has the name by now")
