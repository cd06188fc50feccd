"""What a command line says it will touch, held to the rules before the command runs.

This catches mistakes. It is no boundary: a command can name a file in ways that no reader of its
text can foresee, and only the kernel holds against that.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import closing

from sandbox_kit.answers import is_answer
from sandbox_kit.calls import Approver, Call
from sandbox_kit.errors import PathError, PathEscapeError, PermissionDeniedError
from sandbox_kit.judge import Judge
from sandbox_kit.paths import join, normalise, relative, within
from sandbox_kit.primitives import FilePrimitives, Operations
from sandbox_kit.rules.commands import HOME, CommandLine, PathClaim
from sandbox_kit.rules.shellglob import compile_shell_glob
from sandbox_kit.types import FileInfo, Identity, Operation

__all__ = ["inspect"]

_READ: Operations = ("read",)
_BOTH: Operations = ("read", "write")
_WRITE: Operations = ("write",)
_STREAMS = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty")
)
_MOST_NAMES = 10_000
_WILD = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def inspect(
    files: FilePrimitives,
    line: CommandLine,
    cwd: str,
    home: str,
    judge: Judge,
    *,
    confined: bool,
    known: Collection[str] = (),
) -> None:
    """Ask *judge* for every path that *line* names.

    Args:
        files: whose file system the command will see.
        line: the command, split.
        cwd: where it starts: absolute, as typed.
        home: what ``~`` stands for: absolute.
        confined: the kernel holds what the command itself does: only redirections count as writes, and
            words outside *home* name what commands see there, not what the host has.
        known: absolute paths that rules name; a shell glob stands for them where no directory can be listed.

    Raises:
        PermissionDeniedError: a rule refuses a path, or the line names too many to look at.
    """
    seen: set[tuple[str, bool, bool]] = set()
    if line.overflow:
        raise _too_many(judge)
    for claim in line.claims:
        writes = claim.write and (claim.redirection or not confined)
        for path in _paths(files, claim, cwd, home, known):
            key = path, writes, claim.redirection
            if path in _STREAMS or key in seen:
                continue
            if confined and not claim.redirection and not within(normalise(path), home):
                continue
            if len(seen) >= _MOST_NAMES:
                raise _too_many(judge)
            seen.add(key)
            judge.about(claim.path if claim.pattern else path)
            _ask(files, path, _operations(claim, writes), judge, claim.redirection)


def _too_many(judge: Judge) -> PermissionDeniedError:
    return PermissionDeniedError("execute", judge.target, message="the command names too many files to check")


def _operations(claim: PathClaim, writes: bool) -> Operations:
    if not writes:
        return _READ
    return _WRITE if claim.redirection else _BOTH


def _ask(files: FilePrimitives, path: str, operations: Operations, judge: Judge, redirection: bool) -> None:
    authorize = _Mention(judge, redirection)
    try:
        files._resolve((path,), operations=operations, authorize=authorize)
    except PermissionDeniedError:
        raise
    except (PathError, PathEscapeError) as error:
        if is_answer(error):
            raise
    judge.know(None)


class _Mention(Approver):
    """Answers for one path that a command line mentions; no call ends with its identity.

    Guards beneath stay out of it: they are asked for the command line itself.

    Args:
        judge: of the command.
        redirection: it is where the line redirects to or from, and held to defaults too; other
            words are held to rules alone.
    """

    def __init__(self, judge: Judge, redirection: bool) -> None:
        self._judge = judge
        self._redirection = redirection

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        allowed = self._judge(operation, names, hop=hop or not self._redirection)
        if identity is not None:
            self._judge.know(identity)
        return allowed

    @property
    def call(self) -> Call:
        return self._judge.call

    @property
    def aside(self) -> bool:
        return True


def _paths(files: FilePrimitives, claim: PathClaim, cwd: str, home: str, known: Collection[str]) -> Iterator[str]:
    path = _at_home(claim.path, home)
    for base in claim.bases:
        whole = path if path.startswith("/") else join(normalise(_at_home(base, home), cwd), path)
        if claim.pattern:
            yield from _expand(files, whole, known)
        else:
            yield whole


def _at_home(path: str, home: str) -> str:
    return home + path[len(HOME) :] if path == HOME or path.startswith(HOME + "/") else path


def _expand(files: FilePrimitives, pattern: str, known: Collection[str]) -> Iterator[str]:
    """Yield what the shell would put in the place of an absolute *pattern*, or the text itself."""
    found = [""]
    for part in pattern.split("/"):
        if not part:
            continue
        if _WILD.search(part):
            found = [join(path, name) for path in found for name in _children(files, path or "/", part, known)]
        else:
            literal = _ESCAPED.sub(r"\1", part)
            found = [f"{path}/{literal}" for path in found]
    yield from found or [_ESCAPED.sub(r"\1", pattern)]


def _children(files: FilePrimitives, directory: str, pattern: str, known: Collection[str]) -> Iterator[str]:
    """Yield the names that *pattern* stands for; where they cannot be listed, those that rules name, and itself."""
    compiled = compile_shell_glob(pattern)
    try:
        entries = files._scandir(directory, operations=("ls",), authorize=Call(aside=True))
    except PathEscapeError as error:
        if is_answer(error):
            raise
        (where,) = files._resolve_prefixes((normalise(directory),))
        yield from (name for name in sorted(_beneath(where, known)) if compiled.fullmatch(name))
        yield _ESCAPED.sub(r"\1", pattern)
        return
    except PathError as error:
        if is_answer(error):
            raise
        return
    with closing(entries):
        for entry in entries:
            if isinstance(entry, FileInfo) and compiled.fullmatch(entry.name) and _shows(pattern, entry.name):
                yield entry.name


def _beneath(directory: str, known: Collection[str]) -> set[str]:
    """The names in *directory* on the way to each of the *known* paths."""
    inside = (relative(path, directory) for path in known if within(path, directory))
    return {rest.partition("/")[0] for rest in inside if rest}


def _shows(pattern: str, name: str) -> bool:
    """Whether the shell lets *pattern* stand for *name*: a leading dot has to be written."""
    return not name.startswith(".") or pattern.startswith((".", "\\."))
