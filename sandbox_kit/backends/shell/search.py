"""Grep over a directory of the sandbox by its own grep: the stream is judged file by file as it comes.

GNU grep prints records that no name can forge. Another grep only tells in which files a text
occurs that every match has; those files, and those whose names a list of lines cannot hold, are
then read and searched here.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence

from attrs import frozen

from sandbox_kit.backends.shell.flow import Flow
from sandbox_kit.backends.shell.line import Line
from sandbox_kit.backends.shell.questions import Questions, names_of
from sandbox_kit.backends.shell.spots import Spot, call, parse_spot
from sandbox_kit.errors import PathAccessError, RemoteProtocolError
from sandbox_kit.host.unfinished import is_unfinished
from sandbox_kit.paths import display, join
from sandbox_kit.primitives import Authorize, Query
from sandbox_kit.search.filter import GrepFilter
from sandbox_kit.search.matches import SearchReport
from sandbox_kit.search.records import grep_options
from sandbox_kit.search.runs import Found, Run
from sandbox_kit.types import GrepMatch, Identity, Operation, Skipped
from sandbox_kit.walk import wanted

__all__ = ["Narrowed", "Tree", "functions", "search"]

QUIET = 600.0
"""How long a search may print nothing, in seconds: a big tree without a match is quiet while it is read."""

_BEGUN = b"b\0"
_CLOSED = PathAccessError("").reason
_SOME_UNREAD = 2
_SPECIAL = re.compile(rb"[.\[*^$\\]")
"""What a basic regular expression needs a backslash before."""

_GREP = r"""
# DIRECTORY COMMAND: run a search in it
k_grep() {
	k_at "$1" || return
	shift
	printf 'b\0'
	LC_ALL=C "$@" 2>&9
}
# DIRECTORY: tell what in it cannot be read
k_unread() {
	k_at "$1" || return 0
	find . -type d ! -readable -printf 'd%P\0' -o -type f ! -readable -printf 'f%P\0'
}
"""


def functions() -> str:
    """Return the shell functions of this module."""
    return _GREP


@frozen
class Tree:
    """Where a search starts: a directory that was judged.

    Attributes:
        line: reaches the sandbox.
        work_dir: where shown paths start.
        typed: its name as typed, absolute.
        spot: the place.
    """

    line: Line
    work_dir: str
    typed: str
    spot: Spot

    def names(self, name: bytes) -> tuple[str, ...]:
        """Return the names of what grep calls *name*, as typed and real."""
        below = name.removeprefix(b"./").decode("utf-8", "surrogateescape")
        return names_of(join(self.typed, below), join(self.spot.real, below))

    def shown(self, name: bytes) -> str:
        """Return what results call it."""
        return display(self.names(name)[0], self.work_dir)


def search(
    query: Query, tree: Tree, questions: Questions, report: SearchReport
) -> Generator[Sequence[GrepMatch], None, None]:
    """Yield the matches that may be seen, some at a time, as GNU grep finds them; closing it ends the search.

    Raises:
        SandboxTimeoutError: grep was silent for too long.
        SandboxConflictError: another directory has the name by now.
        RemoteProtocolError: it failed, or printed something else than records.
    """
    options = grep_options(query.dialect, context=query.context, hidden=query.hidden)
    flow = Flow(tree.line, call("k_grep", tree.spot.real, "grep", *options, "."), QUIET)
    found = GrepFilter(_Judged(query, tree, questions), context=query.context)
    chunks = _begun(flow.chunks(), tree)
    try:
        for chunk in chunks:
            yield from _matches(found.feed(chunk), tree)
        yield from _matches(found.close(), tree)
    finally:
        chunks.close()
    if flow.code == _SOME_UNREAD:
        report.skipped += _unread(query, tree, questions)
    elif flow.code not in (0, 1):
        raise RemoteProtocolError(f"the search program in the sandbox failed with exit code {flow.code}")


def _begun(chunks: Generator[bytes, None, None], tree: Tree) -> Generator[bytes, None, None]:
    """Yield what comes after the mark that the search has begun."""
    head = b""
    try:
        for chunk in chunks:
            if head != _BEGUN:
                head += chunk
                if head.startswith(_BEGUN):
                    chunk, head = head[len(_BEGUN) :], _BEGUN
                else:
                    continue
            yield chunk
    finally:
        chunks.close()
    if head != _BEGUN:
        raise parse_spot(head.decode("utf-8", "surrogateescape").split("\0")).error(tree.typed)


def _matches(found: Iterable[Found], tree: Tree) -> Generator[Sequence[GrepMatch], None, None]:
    for each in found:
        path = tree.shown(each.name)
        yield _of_run(each, path) if isinstance(each, Run) else (each.to_match(path),)


def _of_run(run: Run, path: str) -> list[GrepMatch]:
    return [
        GrepMatch(path, int(number), line[:-1] if line.isascii() else _decoded(line)) for number, _, line in run.rows
    ]


def _decoded(line: str) -> str:
    return line[:-1].encode("latin-1").decode("utf-8", "replace")


class _Judged:
    """Whether a file that grep names may be seen."""

    def __init__(self, query: Query, tree: Tree, questions: Questions) -> None:
        self._query = query
        self._tree = tree
        self._questions = questions

    def __call__(self, name: bytes) -> bool:
        names = self._tree.names(name)
        if is_unfinished(names[0].rpartition("/")[2]) or not wanted(self._query, names[0], self._tree.typed):
            return False
        questions = self._questions
        return questions.free or all(
            questions.authorize(operation, names, found=True) for operation in questions.operations
        )


def _unread(query: Query, tree: Tree, questions: Questions) -> list[Skipped]:
    """Return what of the tree the shell cannot read."""
    judged = _Judged(query, tree, questions)
    records = tree.line.look(call("k_unread", tree.spot.real)).records()
    names = [record[1:].encode("utf-8", "surrogateescape") for record in records if record[:1] in ("d", "f")]
    return [Skipped(tree.shown(name), _CLOSED) for name in names if judged(name)]


class Narrowed:
    """Refuses the files, met in a walk and about to be opened, that a search need not read.

    A walk's own questions come with an identity, so only those of opening are answered.

    Args:
        authorize: who is asked for the others.
        needle: a text that every match has.
        tree: what is searched, once the first file is about to be opened.
    """

    def __init__(self, authorize: Authorize, needle: bytes, tree: Tree) -> None:
        self._authorize = authorize
        self._needle = needle
        self._tree = tree
        self._names: frozenset[str] | None = None

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        if found and identity is None and not hop and not self._may_match(names[0]):
            return False
        return self._authorize(operation, names, identity=identity, found=found, hop=hop)

    def _may_match(self, name: str) -> bool:
        if self._names is None:
            self._names = self._found()
        return not self._names or name in self._names or "\n" in name

    def _found(self) -> frozenset[str]:
        """Return the files that hold the text, and the start; nothing at all where not every file could be read."""
        needle = _SPECIAL.sub(rb"\\\g<0>", self._needle).decode("utf-8", "surrogateescape")
        command = ("find", ".", "-type", "f", "-exec", "grep", "-l", "-e", needle, "--", "{}", "+")
        reply = self._tree.line.look(call("k_grep", self._tree.spot.real, *command), QUIET)
        if reply.aside or not reply.out.startswith(_BEGUN):
            return frozenset()
        names = bytes(reply.out[len(_BEGUN) :]).split(b"\n")
        return frozenset(self._tree.names(name)[0] for name in names)
