"""ShellFiles: every file primitive over a POSIX shell that runs elsewhere.

A call asks for the name as typed before anything is sent. One trip then tells the real name and
which object has it; of a file's content no more than comes with that trip is held back until the
last answer. What changes something is another trip, which refuses where the real names are not
those that were judged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from shlex import quote
from typing import BinaryIO

from attrs import evolve

from sandbox_kit import walk
from sandbox_kit.backends.shell import changes, search
from sandbox_kit.backends.shell.line import Drain, Line
from sandbox_kit.backends.shell.listing import Listing, Walk
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.backends.shell.prelude import prelude
from sandbox_kit.backends.shell.questions import Questions
from sandbox_kit.backends.shell.ranged import open_file
from sandbox_kit.backends.shell.reading import Mounts, Reading
from sandbox_kit.backends.shell.sides import Side, across
from sandbox_kit.backends.shell.spots import Spot, apart, call, check_length, parse_spot
from sandbox_kit.backends.shell.tools import Tools, probe
from sandbox_kit.backends.shell.writing import writing
from sandbox_kit.calls import is_approved
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
    printable,
)
from sandbox_kit.paths import join, left_behind, named, relative, within
from sandbox_kit.primitives import Authorize, Entry, Operations, Query, settle
from sandbox_kit.search.matches import Matches, SearchReport
from sandbox_kit.types import FileInfo, Identity

__all__ = ["ShellFiles"]


class ShellFiles(Backend):
    """The files of whatever runs the shells that a subclass lends.

    It keeps no state but which tools the image has; a subclass that knows sets :attr:`_tools`.
    """

    _tools: Tools | None = None
    """What the image has; found out on first use."""

    _base: Identity | None = None
    """Which directory the work directory is: one that is mounted stays that. A new start sets it to None."""

    _entered: str = ""
    """The real name of the work directory, where that is known without a look."""

    _tool_path: str = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"
    """Where the tools are looked for, first to last: nowhere that commands could put one."""

    @cached_property
    def _mounts(self) -> Mounts:
        """What is known of the sandbox's mounts, since the last shell was opened: it may run anew."""
        return {}

    @abstractmethod
    def _lease(self, drain: Drain | None = None) -> AbstractContextManager[Loop]:
        """Lend a loop to the calling thread alone, until the context ends.

        Args:
            drain: given by what may keep the loop long. Called by any thread when the loop is needed or
                about to be killed, it brings the call in flight to its end. After it the holder leaves the
                loop alone, and its context ends later.
        """

    @property
    def _line(self) -> Line:
        return Line(self._lease, self._teach, self.file_timeout, quote(self._tool_path))

    def _line_to(self, name: str) -> Line:
        """The line that reaches what has an absolute real name: one for all, unless a subclass has several."""
        return self._line

    def _line_to_change(self, *names: str) -> Line:
        """The line by which what has one of *names* can be changed, or given the other.

        Raises:
            UnsupportedError: there is none.
        """
        return self._line_to(names[0])

    def _teach(self, loop: Loop) -> str:
        if self._tools is None:
            self._tools = probe(loop, self.file_timeout, quote(self._tool_path))
        self._mounts.clear()
        return prelude(self._tools)

    def _as_given(self) -> str:
        return self.work_dir

    def _typed(self, path: str, questions: Questions) -> str:
        """Ask for the name as typed, and for what each ``..`` in it leaves; return the name, normalised."""
        typed = named(path, self.work_dir, self._as_given())
        questions.ask(typed)
        if ".." in path:
            questions.pass_by(left_behind(path, self.work_dir))
        check_length(typed, path)
        return typed

    def _way(self, path: str, typed: str) -> str:
        """Return the absolute path to follow: as text only where that means the same."""
        if ".." not in path:
            return typed
        given, work_dir = self._as_given(), self.work_dir
        if not path.startswith("/"):
            return join(work_dir, path)
        return join(work_dir, relative(path, given)) if given != work_dir and within(path, given) else path

    def _look(self, function: str, path: str, typed: str, *, follow: bool) -> Spot:
        flags = [] if function == "k_entry" else ["1" if follow else ""]
        return self._look_at(function, self._way(path, typed), *flags)

    def _look_at(self, function: str, way: str, *flags: str) -> Spot:
        def look(side: Side, way: str) -> Spot:
            return side.here(parse_spot(side.line.look(call(function, way, *flags)).records()))

        return across(way, self._line_to, look)

    def _led(self, lead: Spot, line: Line) -> Spot:
        """Where a link leads, by the line that reaches that, after *line* told what it sees of it."""
        if self._line_to(lead.real) == line:
            return lead
        spot = self._look_at("k_look", lead.real, "1")
        return evolve(spot, hops=(*lead.hops, *spot.hops))

    def _entry(self, path: str, questions: Questions) -> tuple[str, Spot]:
        """Look at an entry itself, with every question put: a link is asked for with where it leads."""
        typed = self._typed(path, questions)
        spot = questions.present(path, self._look("k_entry", path, typed, follow=False))
        if questions.free or spot.leads is None:
            questions.settle(spot, typed)
            return typed, spot
        lead = self._led(spot.leads, self._line_to(spot.real))
        questions.pass_by(lead.hops)
        questions.settle(spot, typed, lead.real)
        return typed, spot

    def _resolve(
        self, paths: Sequence[str], *, operations: Operations, authorize: Authorize, follow: bool = True
    ) -> tuple[Identity, ...]:
        questions = Questions(operations, authorize)
        found: list[Identity] = []
        for path in paths:
            typed = self._typed(path, questions)
            spot = questions.arrive(path, self._look("k_look", path, typed, follow=follow))
            questions.parents(spot)
            questions.settle(spot, typed)
            found.append(spot.identity)
        return tuple(found)

    def _resolve_prefixes(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        if not prefixes:
            return ()
        lines = {prefix: self._line_to(prefix) for prefix in prefixes}
        found: dict[str, str] = {}
        for line in dict.fromkeys(lines.values()):
            mine = [prefix for prefix in prefixes if lines[prefix] == line]
            answers = apart(line.look(call("k_each", *mine)).records())
            found.update(zip(mine, map(partial(self._real, line), mine, answers), strict=True))
        return tuple(map(found.__getitem__, prefixes))

    def _real(self, line: Line, prefix: str, records: Sequence[str]) -> str:
        spot = self._led(parse_spot(records), line)
        return prefix if spot.fault else spot.real

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        typed, spot = self._entry(path, Questions(operations, authorize))
        assert spot.stat is not None
        return spot.stat.describe(typed, self.work_dir)

    def _readlink(self, path: str, *, operations: Operations, authorize: Authorize) -> str:
        _, spot = self._entry(path, Questions(operations, authorize))
        if spot.text is None:
            raise InvalidArgumentError(f"{printable(path)}: not a symbolic link")
        return spot.text

    def _settled(self, path: str, questions: Questions) -> tuple[str, Spot]:
        """Look where *path* leads, with every question put; return the name as typed, and the place."""
        typed = self._typed(path, questions)
        spot = questions.present(path, self._look("k_look", path, typed, follow=True))
        questions.settle(spot, typed)
        return typed, spot

    def _directory(self, path: str, authorize: Authorize) -> str:
        """Ask to list the directory that a command is to start in; return its real name.

        Raises:
            PathNotDirectoryError: it is no directory.
        """
        questions = Questions(("ls",), authorize)
        at_base = path == "."
        if at_base and self._entered and questions.free:
            return self._entered
        if at_base and self._base is not None:
            settle(
                ("ls",), authorize, tuple(dict.fromkeys((self._typed(path, questions), self._base.name))), self._base
            )
            return self._base.name
        _, spot = self._settled(path, questions)
        if spot.stat is None or not spot.stat.is_dir:
            raise PathNotDirectoryError(path)
        if at_base:
            self._base = spot.identity
        return spot.real

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        questions = Questions(operations, authorize)
        typed = self._typed(path, questions)
        line, listing = self._list(self._way(path, typed), depth)
        spot = questions.present(path, listing.spot)
        questions.settle(spot, typed)
        if spot.stat is None or not spot.stat.is_dir:
            raise PathNotDirectoryError(path)
        if not listing.is_open:
            raise PathAccessError(path)
        walks = [Walk(line, self.work_dir, questions, listing, typed, depth, self._led)]
        for part, left in self._parts(spot.real, depth):
            there = self._line_to(part)
            below = relative(part, spot.real)
            walks[0].leave_out(below)
            listing = Listing(there, part, left)
            walks.append(Walk(there, self.work_dir, questions, listing, join(typed, below), left, self._led))
        return _entries(walks)

    def _parts(self, directory: str, depth: int | None) -> list[tuple[str, int | None]]:
        """What of a walk of *directory* other lines reach: real names, and how many levels are left from there."""
        parts = [(part, None if depth is None else depth - len(_components(part, directory))) for part in self._apart()]
        return [
            (part, left)
            for part, left in parts
            if within(part, directory) and part != directory and (left is None or left > 0)
        ]

    def _apart(self) -> tuple[str, ...]:
        """Real names of directories beneath which another line sees things as they are; none for one line."""
        return ()

    def _list(self, way: str, depth: int | None) -> tuple[Line, Listing]:
        """List the directory where *way* leads."""

        def fetch(side: Side, way: str) -> tuple[Line, Listing]:
            listing = Listing(side.line, way, depth)
            listing.spot = side.here(listing.spot)
            return side.line, listing

        return across(way, self._line_to, fetch)

    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        questions = Questions(operations, authorize)
        typed, spot = self._settled(path, questions)
        if spot.stat is None or not spot.stat.is_dir or self._tools is None:
            return walk.grep(self, query, path, operations, authorize)
        if self._parts(spot.real, None):
            return walk.grep(self, query, path, operations, authorize)
        tree = search.Tree(self._line_to(spot.real), self.work_dir, typed, spot)
        if self._tools.grep and self._tools.printf:
            report = SearchReport()
            return Matches(search.search(query, tree, questions, report), report, limit=query.limit)
        needle = query.dialect.required_literal if self._tools.nul else None
        if needle is not None:
            authorize = search.Narrowed(authorize, needle, tree)
        return walk.grep(self, query, path, operations, authorize)

    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        questions = Questions(operations, authorize)
        typed = self._typed(path, questions)

        def read(side: Side, way: str) -> BinaryIO:
            def judge(found: Spot) -> None:
                spot = questions.present(path, side.here(found))
                _expected(path, spot, expect)
                questions.settle(spot, typed)
                _refuse_irregular(path, spot)

            reading = Reading(side.line, path, self._mounts)
            return open_file(reading, way, judge, judged=not questions.free, exact=expect is not None)

        return across(self._way(path, typed), self._line_to, read)

    def _open_write(
        self,
        path: str,
        *,
        operations: Operations,
        authorize: Authorize,
        expect: Identity | None = None,
        mode: int | None = None,
    ) -> AbstractContextManager[BinaryIO]:
        questions = Questions(operations, authorize)
        typed = self._typed(path, questions)
        spot = questions.arrive(path, self._look("k_place", path, typed, follow=True))
        questions.parents(spot)
        _expected(path, spot, expect)
        questions.settle(spot, typed)
        _refuse_irregular(path, spot)
        strict = expect is not None or is_approved(authorize)
        return writing(self._line_to_change(spot.real), path, spot, mode, strict=strict)

    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize, mode: int | None = None) -> None:
        questions = Questions(operations, authorize)
        typed = self._typed(path, questions)
        spot = questions.arrive(path, self._look("k_look", path, typed, follow=True))
        questions.parents(spot)
        questions.settle(spot, typed)
        if spot.stat is None:
            changes.make_directories(self._line_to_change(spot.real), path, spot.parent, spot.rest, mode)
        elif not spot.stat.is_dir:
            raise PathExistsError(path)
        elif mode is not None:
            changes.set_mode(self._line_to_change(spot.real), path, spot.real, mode)

    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        questions = Questions(operations, authorize)
        typed = self._typed(path, questions)
        spot = questions.arrive(path, self._look("k_look", path, typed, follow=False))
        questions.settle(spot, typed)
        if spot.stat is not None:
            raise PathExistsError(path)
        if len(spot.rest) > 1:
            raise PathNotFoundError(path)
        changes.link(self._line_to_change(spot.real), path, spot, target)

    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        questions = Questions(operations, authorize)
        typed = self._typed(path, questions)
        spot = questions.present(path, self._look("k_look", path, typed, follow=False))
        self._refuse_base(path, spot)
        if recursive:
            self._ask_beneath(path, typed, spot, questions)
        questions.settle(spot, typed)
        changes.remove(self._line_to_change(spot.real), path, spot, recursive=recursive)

    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        made, questions = Questions(("write",), authorize), Questions(operations, authorize)
        new_typed = self._typed(target, made)
        typed = self._typed(source, questions)
        new = made.arrive(target, self._look("k_look", target, new_typed, follow=False))
        spot = questions.present(source, self._look("k_look", source, typed, follow=False))
        made.ask(new_typed, new.real)
        self._refuse_base(source, spot)
        self._ask_beneath(source, typed, spot, questions, (new_typed, new.real))
        questions.settle(spot, typed)
        if within(new.real, spot.real) and new.real != spot.real:
            raise InvalidArgumentError(f"{printable(source)}: cannot be moved beneath itself, to {printable(target)}")
        if new.stat is not None:
            raise PathExistsError(target)
        if len(new.rest) > 1:
            raise PathNotFoundError(target)
        changes.rename(self._line_to_change(spot.real, new.real), source, spot, target, new)

    def _ask_beneath(
        self, path: str, typed: str, spot: Spot, questions: Questions, new: tuple[str, str] | None = None
    ) -> None:
        """Ask for every entry beneath a directory, and for the name that it would get.

        Raises:
            PathAccessError: what lies beneath cannot be seen, and somebody would have to be asked for it.
        """
        if spot.stat is None or not spot.stat.is_dir or questions.free:
            return
        questions.ask(typed, spot.real)
        listing = Listing(self._line_to(spot.real), spot.real, None)
        if listing.spot.identity != spot.identity:
            raise SandboxConflictError(f"{printable(path)}: replaced while it was being judged")
        if not listing.is_open:
            raise PathAccessError(path)
        for found in listing.found():
            if found.closed:
                raise PathAccessError(join(path, found.name))
            own = (join(typed, found.name), join(spot.real, found.name))
            identity = Identity(own[1], found.stat.device, found.stat.inode)
            questions.entry(own, identity)
            if new:
                questions.authorize("write", tuple(join(name, found.name) for name in new), identity=identity)

    def _refuse_base(self, path: str, spot: Spot) -> None:
        if within(self.work_dir, spot.real):
            raise InvalidArgumentError(f"{printable(path)}: the work directory and what it lies in stay in place")


def _entries(walks: Sequence[Walk]) -> Generator[Entry, None, None]:
    for each in walks:
        yield from each.entries()


def _components(name: str, directory: str) -> list[str]:
    """The components of *name* beneath *directory*."""
    return relative(name, directory).split("/")


def _expected(path: str, spot: Spot, expect: Identity | None) -> None:
    if expect is not None and expect != spot.identity:
        raise SandboxConflictError(f"{printable(path)}: replaced since it was judged")


def _refuse_irregular(path: str, spot: Spot) -> None:
    """Refuse what is there but no regular file."""
    if spot.stat is not None and spot.stat.is_dir:
        raise PathIsDirectoryError(path)
    if spot.stat is not None and not spot.stat.is_regular:
        raise NotRegularFileError(path)
