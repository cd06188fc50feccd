"""Grep over a directory of the host by ripgrep or GNU grep, and what its answers are worth.

The program is only an index of candidates. It opens files by name, and names may change under
it; so every line that is released is compared with the same place of a file that was opened
here, beneath the root and without a link on its way, after its real name was judged.
"""

from __future__ import annotations

import functools
import os
import select
import shutil
import stat
import subprocess
from collections.abc import Generator, Iterator, Sequence

from attrs import frozen

from sandbox_kit.backends.local.pin import Root
from sandbox_kit.backends.local.scan import Scan
from sandbox_kit.backends.local.system import Descriptor
from sandbox_kit.errors import PathAccessError, RemoteProtocolError, SandboxTimeoutError
from sandbox_kit.paths import display, join, normalise, parts, relative
from sandbox_kit.primitives import Authorize, Operations, Query, allow
from sandbox_kit.search.dialect import GREP_ENV
from sandbox_kit.search.filter import GrepFilter
from sandbox_kit.search.hits import Hit, confirm
from sandbox_kit.search.matches import SearchReport
from sandbox_kit.search.records import grep_options, ripgrep_options
from sandbox_kit.types import GrepMatch, Skipped
from sandbox_kit.walk import wanted

__all__ = ["Tree", "command", "search"]

_READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CHUNK = 2**18
_PIPE = 2**20
_WHOLE = 4 * 2**20
_PARTS = (2**20, 2**23, 2**26)
_SILENCE = 600.0


@frozen
class Tree:
    """Where a search starts: a directory, pinned and judged.

    Attributes:
        directory: a descriptor of it.
        typed: its name as typed, absolute.
        real: its real name.
    """

    directory: Descriptor
    typed: str
    real: str

    def typed_name(self, name: bytes) -> str:
        """Return a name as the program prints it, as one that the caller could type: absolute."""
        return join(self.typed, os.fsdecode(name.removeprefix(b"./")))


@functools.cache
def _program() -> tuple[str, str] | None:
    """Return the search program and its kind; None when there is none whose answers are known."""
    ripgrep = shutil.which("rg")
    if ripgrep is not None:
        return ripgrep, "ripgrep"
    grep = shutil.which("grep")
    if grep is None:
        return None
    told = subprocess.run([grep, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=10, check=False)
    return (grep, "grep") if b"GNU grep" in told.stdout else None


def command(query: Query) -> list[str] | None:
    """Return the argument vector that searches the directory it starts in; None where no program can."""
    program = _program()
    if program is None:
        return None
    path, kind = program
    options = ripgrep_options if kind == "ripgrep" else grep_options
    return [path, *options(query.dialect, context=query.context, hidden=query.hidden), "."]


def search(
    root: Root,
    argv: Sequence[str],
    query: Query,
    tree: Tree,
    operations: Operations,
    authorize: Authorize,
    report: SearchReport,
) -> Generator[GrepMatch, None, None]:
    """Yield the matches beneath *tree* that may be seen; closing it ends the program.

    Raises:
        SandboxTimeoutError: the program was silent for too long.
        RemoteProtocolError: the program failed, or prints something else than records.
    """
    judged = _Judged(query, tree, operations, authorize)
    found = GrepFilter(judged, context=query.context)
    proof = _Proof(root, tree, query.context, report.skipped)
    with tree.directory:
        with _Running(argv, tree.directory.fd) as running:
            for chunk in running.output():
                yield from proof.matches(found.feed(chunk))
            whole = running.ended_well()
        yield from proof.matches(found.close())
        if not whole:
            report.skipped += _unsearched(root, tree, judged)


def _unsearched(root: Root, tree: Tree, judged: _Judged) -> Iterator[Skipped]:
    """Yield what of *tree* could not be read, where the program says that there is something."""
    directory = Descriptor(os.dup(tree.directory.fd))
    for entry in Scan(root.name, (), allow, None).walk(directory, tree.typed, tree.real, None):
        if isinstance(entry, Skipped):
            yield entry
        elif entry is not None and not entry.is_dir and not entry.is_symlink:
            name = relative(normalise(entry.path, root.name), tree.typed)
            try:
                opened(root, tree, name)
            except PermissionError:
                if judged(os.fsencode(name)):
                    yield Skipped(entry.path, PathAccessError(entry.path).reason)


class _Judged:
    """Whether a file that the program names may be seen."""

    def __init__(self, query: Query, tree: Tree, operations: Operations, authorize: Authorize) -> None:
        self._query = query
        self._tree = tree
        self._operations = operations
        self._authorize = None if authorize is allow else authorize

    def __call__(self, name: bytes) -> bool:
        typed = self._tree.typed_name(name)
        if not wanted(self._query, typed, self._tree.typed):
            return False
        if self._authorize is None:
            return True
        real = join(self._tree.real, relative(typed, self._tree.typed))
        names = (typed,) if typed == real else (typed, real)
        return all(self._authorize(operation, names, found=True) for operation in self._operations)


class _Proof:
    """The bytes that bear the program's answers out, of one file at a time."""

    def __init__(self, root: Root, tree: Tree, context: int, skipped: list[Skipped]) -> None:
        self._root = root
        self._tree = tree
        self._context = context
        self._skipped = skipped
        self._name: bytes | None = None
        self._shown = ""
        self._file: Descriptor | None = None
        self._part = b""
        self._base = 0
        self._ends = True

    def matches(self, hits: list[Hit]) -> list[GrepMatch]:
        """Return what is borne out of *hits*.

        A line of a small file that stands there as it was printed, and no more, needs no closer look.
        """
        sure: list[GrepMatch] = []
        for hit in hits:
            if hit[0] != self._name:
                self._open(hit[0])
            number, offset, line = hit[1:4]
            data, end = self._part, offset + len(line)
            if (
                data[offset:end] == line
                and data[end : end + 1] == b"\n"
                and (data[offset - 1 : offset] == b"\n" or not offset)
                and self._is_plain(hit)
            ):
                sure.append(GrepMatch(self._shown, number, line.decode("utf-8", "replace")))
            elif (confirmed := self._confirm(hit)) is not None:
                sure.append(confirmed.to_match(self._shown))
        return sure

    def _is_plain(self, hit: Hit) -> bool:
        return self._file is None and not self._context and not hit.binary

    def _confirm(self, hit: Hit) -> Hit | None:
        if self._file is not None and not self._covers(hit.offset) and not self._read_around(hit.offset):
            self._skipped.append(Skipped(self._shown, "a line is too long to be searched"))
            return None
        return confirm(hit, self._part, base=self._base, context=self._context)

    def _open(self, name: bytes) -> None:
        """Take up a file: a small one whole; nothing of one that is not there under that name any more."""
        self._name, self._file, self._part, self._base = name, None, b"", 0
        self._shown = display(self._tree.typed_name(name), self._root.name)
        file = opened(self._root, self._tree, os.fsdecode(name))
        if file is None:
            return
        size = os.fstat(file.fd).st_size
        if size > _WHOLE:
            self._file = file
            return
        with file:
            self._part = os.read(file.fd, size + 1)

    def _covers(self, offset: int) -> bool:
        """Whether the line at *offset* and its context are in the part at hand."""
        begin = end = offset - self._base
        if not 0 <= begin < len(self._part) or begin == 0 < self._base:
            return False
        for _ in range(self._context + 1):
            begin = self._part.rfind(b"\n", 0, max(begin, 0))
            end = self._part.find(b"\n", end) + 1 or len(self._part) + 1
        return (self._base == 0 or begin >= 0) and (self._ends or end <= len(self._part))

    def _read_around(self, offset: int) -> bool:
        assert self._file is not None
        for size in _PARTS:
            self._base = max(0, offset - (size if self._context else 1))
            wanted = offset - self._base + size
            self._part = os.pread(self._file.fd, wanted, self._base)
            self._ends = len(self._part) < wanted
            if self._covers(offset):
                return True
        return False


def opened(root: Root, tree: Tree, name: str) -> Descriptor | None:
    """Open a regular file beneath *tree* without a link on its way; None when there is none by now.

    Raises:
        PermissionError: the file system refuses.
    """
    try:
        fd = root.open_plain([*parts(relative(tree.real, root.name)), *parts(name)], _READ)
    except PermissionError:
        raise
    except OSError:
        return None
    if fd is None:
        return None
    file = Descriptor(fd)
    return file if stat.S_ISREG(os.fstat(fd).st_mode) else None


class _Running:
    """A search program that runs; leaving its ``with`` ends it."""

    def __init__(self, argv: Sequence[str], directory: int) -> None:
        self._process = subprocess.Popen(
            argv,
            cwd=f"/proc/self/fd/{directory}",
            env={"PATH": os.defpath, **GREP_ENV},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pipesize=_PIPE,
        )

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdout is not None
        self._process.kill()
        self._process.stdout.close()
        self._process.wait()

    def output(self) -> Generator[bytes, None, None]:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while True:
            if not poll.poll(_SILENCE * 1000):
                raise SandboxTimeoutError(f"the search found nothing for {_SILENCE} s", _SILENCE)
            if not (chunk := os.read(fd, _CHUNK)):
                return
            yield chunk

    def ended_well(self) -> bool:
        """Whether the program could read everything.

        Raises:
            RemoteProtocolError: it was ended from outside.
        """
        code = self._process.wait(_SILENCE)
        if code < 0:
            raise RemoteProtocolError(f"the search program was ended by signal {-code}")
        return code in (0, 1)
