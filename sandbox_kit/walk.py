"""Listing, glob and grep over the primitives of any backend."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING
from unicodedata import normalize

from sandbox_kit.answers import is_answer, is_refusal
from sandbox_kit.arguments import check_count
from sandbox_kit.calls import Call
from sandbox_kit.errors import (
    ApprovalRequiredError,
    LimitExceededError,
    PathError,
    PathEscapeError,
    PathNotDirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxConflictError,
    SandboxError,
)
from sandbox_kit.paths import display, named, normalise, relative
from sandbox_kit.primitives import Authorize, Entry, Operations, Query
from sandbox_kit.rules.globs import WalkGlob, compile_filter_glob, compile_walk_glob
from sandbox_kit.search.dialect import parse
from sandbox_kit.search.matches import Matches, SearchReport
from sandbox_kit.search.scan import Scanner
from sandbox_kit.types import FileInfo, GrepMatch, Identity, Listing, Operation, Skipped

if TYPE_CHECKING:
    from sandbox_kit.contract import Backend

__all__ = ["glob", "grep", "listing", "query", "shown", "wanted"]

_GLOB: Operations = ("glob",)

_Found = Generator[tuple[GrepMatch], None, None]


def _name_of(backend: Backend, path: str) -> str:
    """Return a path as typed, absolute and normalised, with the work directory's real name."""
    return named(path, backend.work_dir, backend._as_given())


def shown(backend: Backend, path: str) -> str:
    """Return a path as typed in the form that results have."""
    return display(_name_of(backend, path), backend.work_dir)


def listing(entries: Generator[Entry, None, None]) -> Listing:
    """Return what a walk found, sorted by path."""
    found: list[FileInfo] = []
    skipped: list[Skipped] = []
    with closing(entries):
        for entry in entries:
            if isinstance(entry, FileInfo):
                found.append(entry)
            elif entry is not None:
                skipped.append(entry)
    return Listing(sorted(found, key=_path), sorted(skipped, key=_path))


def _path(entry: FileInfo | Skipped) -> str:
    return entry.path


def glob(backend: Backend, pattern: str, path: str) -> Listing:
    """Return what *pattern* matches beneath *path*; see :meth:`Backend.glob`."""
    work_dir, given = backend.work_dir, backend._as_given()
    start = named(path, work_dir, given)
    parsed = compile_walk_glob(pattern, start, named(start, given, work_dir))
    state, names = _literal_start(parsed)
    call = _Asked()
    base = "/".join([path or ".", *names])
    entries = _beneath(backend, path, base, parsed.depth, len(names), call) if names else None
    if entries is None:
        state, base = parsed.start, path
        entries = backend._scandir(path, operations=_GLOB, authorize=call, depth=parsed.depth)
    found = listing(entries)
    selected = _Selection(parsed, state, named(base, work_dir, given), work_dir)
    return Listing(filter(selected, found), found.skipped)


def _beneath(
    backend: Backend, path: str, base: str, depth: int | None, level: int, call: _Asked
) -> Generator[Entry, None, None] | None:
    """Walk from where a pattern's literal start leads; None where a rule hides that place.

    It may lead across links. Both places are asked for at once, and who then says no is not asked
    again; *path* must be a directory.
    """
    try:
        start, place = backend._resolve((path, base), operations=_GLOB, authorize=call)
        if not (start.inode and place.inode):
            raise PathNotFoundError(base)
        below = None if depth is None else depth - level
        return backend._scandir(base, operations=_GLOB, authorize=call, depth=below)
    except PermissionDeniedError as error:
        if is_refusal(error) or (call.targets > 1 and not isinstance(error, ApprovalRequiredError)):
            raise
        return None
    except (PathNotFoundError, PathNotDirectoryError) as error:
        if is_answer(error):
            raise
        backend._scandir(path, operations=_GLOB, authorize=call).close()
        return _nothing()


class _Asked(Call):
    """Counts the targets whose every name was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.targets = 0

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        self.targets += identity is not None
        return True


def _nothing() -> Generator[Entry, None, None]:
    yield from ()


def _literal_start(parsed: WalkGlob) -> tuple[int, list[str]]:
    """Return the state beneath the pattern's leading literal components, and these."""
    state, names = parsed.start, []
    while (only := parsed.literals(state)) and len(only) == 1:
        entered = parsed.enter(state, only[0], link=True)
        if parsed.selects(entered, is_dir=True) or not parsed.continues(entered):
            break
        names.append(only[0])
        state = entered
    return state, names


class _Selection:
    """Tells which entries of one walk a pattern selects."""

    def __init__(self, parsed: WalkGlob, state: int, base: str, work_dir: str) -> None:
        self._parsed = parsed
        self._base = base
        self._work_dir = work_dir
        self._states = {"": state}

    def __call__(self, info: FileInfo) -> bool:
        name = relative(normalise(info.path, self._work_dir), self._base)
        return self._parsed.selects(self._state(name), is_dir=info.is_dir)

    def _state(self, name: str) -> int:
        state = self._states.get(name)
        if state is None:
            parent, _, last = name.rpartition("/")
            state = self._states[name] = self._parsed.enter(self._state(parent), normalize("NFC", last))
        return state


def query(
    pattern: str,
    work_dir: str,
    given: str,
    *,
    glob: str | None,
    fixed: bool,
    ignore_case: bool,
    hidden: bool,
    context: int,
    limit: int | None,
) -> Query:
    """Return the checked arguments of a grep; *given* is the operator's name for *work_dir*.

    Raises:
        PatternError: *pattern* or *glob* cannot be used.
        InvalidArgumentError: *context* or *limit* is negative or no integer.
    """
    return Query(
        dialect=parse(pattern, fixed=fixed, ignore_case=ignore_case),
        glob=None if glob is None else compile_filter_glob(glob, work_dir, given),
        hidden=hidden,
        context=check_count(context, "context"),
        limit=None if limit is None else check_count(limit, "limit"),
    )


def wanted(query: Query, name: str, start: str) -> bool:
    """Whether a file met in a walk from *start* is one to look into, by its absolute *name*."""
    if not query.hidden and "/." in "/" + relative(name, start):
        return False
    return query.glob is None or query.glob.matches(normalize("NFC", name))


def grep(backend: Backend, query: Query, path: str, operations: Operations, authorize: Authorize) -> Matches:
    """Search file by file, within this process; judged at the call, lazy after it."""
    report = SearchReport()
    name = _name_of(backend, path)
    search = _Search(backend, query, operations, authorize, report)
    try:
        entries = backend._scandir(path, operations=operations, authorize=authorize, depth=None)
    except PathNotDirectoryError as error:
        if is_answer(error):
            raise
        backend._resolve((path,), operations=operations, authorize=authorize)
        return Matches(search.file(path, name), report, limit=query.limit)
    return Matches(search.tree(entries, name), report, limit=query.limit)


class _Search:
    """One search over a backend's files."""

    def __init__(
        self, backend: Backend, query: Query, operations: Operations, authorize: Authorize, report: SearchReport
    ) -> None:
        self._backend = backend
        self._query = query
        self._operations = operations
        self._authorize = authorize
        self._report = report
        self._scanner = Scanner(query.dialect, context=query.context, time_limit=backend.file_timeout)

    def tree(self, entries: Generator[Entry, None, None], start: str) -> _Found:
        with closing(entries):
            for entry in entries:
                if isinstance(entry, Skipped):
                    self._report.skipped.append(entry)
                elif entry is not None and not entry.is_dir and not entry.is_symlink:
                    name = normalise(entry.path, self._backend.work_dir)
                    if wanted(self._query, name, start):
                        yield from self._lenient(entry.path, name)

    def _met(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        """Answer for a file that was judged before: nobody is asked amidst the iteration."""
        if not self._authorize(operation, names, identity=identity, found=True, hop=hop):
            raise PermissionDeniedError(operation, names[0])
        return True

    def _lenient(self, path: str, name: str) -> _Found:
        """Search a file met in the walk: what went, or was refused, since then is left out."""
        try:
            yield from self.file(path, name)
        except (PathNotFoundError, PathEscapeError, PermissionDeniedError, SandboxConflictError):
            return
        except (PathError, LimitExceededError) as error:
            self._report.skipped.append(Skipped(path, _reason(error)))

    def file(self, path: str, name: str) -> _Found:
        if self._query.glob is not None and not self._query.glob.matches(normalize("NFC", name)):
            return
        shown = display(name, self._backend.work_dir)
        with self._backend._open_read(path, operations=self._operations, authorize=self._met) as stream:
            for hit in self._scanner.scan(stream):
                yield (hit.to_match(shown),)


def _reason(error: SandboxError) -> str:
    return error.reason if isinstance(error, PathError) else str(error)
