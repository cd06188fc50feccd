"""Grep over a directory of the host by ripgrep or GNU grep, and what its answers are worth.

The program is only an index of candidates. It opens files by name, and names may change under
it; so every line that is released is compared with the same place of a file that was opened
here, beneath the root and without a link on its way, after its real name was judged. A program
that fails is not taken to have found nothing: what it could not read is told, and where that
does not explain it, the files are searched here.
"""

from __future__ import annotations

import functools
import io
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from sandbox_kit.backends.local.proof import Proof, Tree, opened
from sandbox_kit.backends.local.scan import NOWHERE, Leads, Scan
from sandbox_kit.calls import is_approved
from sandbox_kit.errors import LimitExceededError, RemoteProtocolError, SandboxTimeoutError
from sandbox_kit.host.system import Descriptor, path_error
from sandbox_kit.host.unfinished import is_unfinished
from sandbox_kit.paths import join, normalise, relative, within
from sandbox_kit.primitives import Authorize, Operations, Query, allow
from sandbox_kit.search.dialect import GREP_ENV, parse
from sandbox_kit.search.filter import GrepFilter
from sandbox_kit.search.matches import SearchReport
from sandbox_kit.search.records import grep_options, ripgrep_options
from sandbox_kit.search.scan import Scanner
from sandbox_kit.types import GrepMatch, Identity, Skipped
from sandbox_kit.walk import wanted

__all__ = ["Search", "Tree", "command"]

_CHUNK = 2**18
_PIPE = 2**20
_ENV = {"PATH": os.defpath, **GREP_ENV}
_OPTIONS = {"rg": ripgrep_options, "grep": grep_options}
_SAMPLE = b"one\nneedle two\n"
_ANSWER = b"./.f\0001-0-one\n./.f\0002:4:needle two\n"

_TRIAL = 10.0
"""How long a trial of a program in a directory of one file or none may take, in seconds."""

_QUIET = 600.0
"""How long a program may print nothing, in seconds: a big tree without a match is quiet while it is read
from a slow disk, and only one that hangs, as on a dead network disk, is quiet for much longer."""


@functools.cache
def _program(root: str) -> tuple[str, str] | None:
    """Return the search program and its kind; None when there is none whose answers are known.

    It is one that passed a trial: that it has the name tells neither its kind nor its version. What
    lies beneath the directory *root* is not run: whoever writes there could have put it there.
    """
    for kind in _OPTIONS:
        for directory in _directories():
            path = shutil.which(kind, path=directory)
            real = None if path is None else os.path.realpath(path)
            if real is not None and not (within(directory, root) or within(real, root)) and _answers(real, kind):
                return real, kind
    return None


def _directories() -> list[str]:
    """Return where programs are looked for: the absolute directories of PATH, the system's own first."""
    names = [normalise(name) for name in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(name)]
    own = _ENV["PATH"].split(os.pathsep)
    return sorted(dict.fromkeys(names), key=lambda name: name not in own)


def _answers(path: str, kind: str) -> bool:
    argv = [path, *_OPTIONS[kind](parse("ne+dle"), context=1, hidden=True), "."]
    return _tried(argv, {".f": _SAMPLE}) == (0, _ANSWER)


def _tried(argv: Sequence[str], files: dict[str, bytes]) -> tuple[int, bytes] | None:
    """Run a search over *files* alone; return its exit code and output, None where it cannot be run."""
    try:
        with tempfile.TemporaryDirectory(prefix="sandbox-kit-") as directory:
            for name, data in files.items():
                Path(directory, name).write_bytes(data)
            done = subprocess.run(
                argv,
                cwd=directory,
                env=_ENV,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_TRIAL,
                check=False,
            )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.returncode, done.stdout


def command(query: Query, root: str) -> list[str] | None:
    """Return the argument vector that searches the directory it starts in; None where no program can.

    Args:
        root: the real name of the directory that no program is taken from.
    """
    program = _program(root)
    if program is None:
        return None
    path, kind = program
    return [path, *_OPTIONS[kind](query.dialect, context=query.context, hidden=query.hidden), "."]


class Search:
    """One search of a directory tree.

    Args:
        query: what to look for.
        tree: where; closed by the search.
        operations, authorize: as in a primitive.
        report: takes what could not be searched.
        file_timeout: for each file that is searched here, in seconds.
    """

    def __init__(
        self,
        query: Query,
        tree: Tree,
        operations: Operations,
        authorize: Authorize,
        report: SearchReport,
        file_timeout: float,
    ) -> None:
        self._query = query
        self._tree = tree
        self._operations = operations
        self._authorize = authorize
        self._report = report
        self._file_timeout = file_timeout
        self._silent = True

    def run(self, argv: Sequence[str]) -> Generator[Sequence[GrepMatch], None, None]:
        """Yield the matches that may be seen, some of one file at a time; closing it ends the program.

        Args:
            argv: a program's :func:`command`.

        Raises:
            SandboxTimeoutError: the program hangs, or a file searched here took too long.
            RemoteProtocolError: the program failed amidst its answers, or prints something else than records.
        """
        with self._tree.directory:
            code = yield from self._by_program(argv)
            if code in (0, 1):
                return
            accepted = _tried(argv, {}) == (1, b"")
            if not accepted and not self._silent:
                raise RemoteProtocolError(f"the search program failed with exit code {code} after some answers")
            unread = list(self._unread()) if accepted else []
            self._report.skipped += unread
            if self._silent and not unread:
                yield from self._here()

    def _by_program(self, argv: Sequence[str]) -> Generator[Sequence[GrepMatch], None, int | None]:
        """Yield what the program finds; return its exit code, None where it cannot be started."""
        query, authorize = self._query, self._authorize
        judged = _Judged(query, self._tree, self._operations, authorize)
        found = GrepFilter(judged, context=query.context)
        met = judged.met if is_approved(authorize) else None
        proof = Proof(self._tree, query.context, self._report.skipped, met)
        try:
            running = _Running(argv, self._tree.directory.fd)
        except OSError:
            return None
        with running:
            for chunk in running.output():
                self._silent = False
                yield from proof.matches(found.feed(chunk))
            code = running.code()
        yield from proof.matches(found.close())
        return code

    def _files(self, skipped: list[Skipped]) -> Iterator[tuple[str, str]]:
        """Yield each file to look into, as results show it and beneath the tree; note in *skipped* what is closed."""
        tree = self._tree
        scan = Scan(tree.root.name, self._operations, self._authorize, None if self._authorize is allow else _no_target)
        for entry in scan.walk(Descriptor(os.dup(tree.directory.fd)), tree.typed, tree.real, None):
            if isinstance(entry, Skipped):
                skipped.append(entry)
            elif entry is not None and not entry.is_dir and not entry.is_symlink:
                typed = normalise(entry.path, tree.root.name)
                if wanted(self._query, typed, tree.typed):
                    yield entry.path, relative(typed, tree.typed)

    def _unread(self) -> list[Skipped]:
        """Return what of the tree cannot be read."""
        skipped: list[Skipped] = []
        for shown, name in self._files(skipped):
            try:
                opened(self._tree, name)
            except PermissionError as error:
                skipped.append(Skipped(shown, path_error(error, shown).reason))
        return skipped

    def _here(self) -> Generator[Sequence[GrepMatch], None, None]:
        """Search within this process."""
        scanner = Scanner(self._query.dialect, context=self._query.context, time_limit=self._file_timeout)
        for shown, name in self._files(self._report.skipped):
            try:
                yield from self._scanned(scanner, shown, name)
            except SandboxTimeoutError:
                raise
            except LimitExceededError as error:
                self._report.skipped.append(Skipped(shown, str(error)))
            except OSError as error:
                self._report.skipped.append(Skipped(shown, path_error(error, shown).reason))

    def _scanned(self, scanner: Scanner, shown: str, name: str) -> Generator[Sequence[GrepMatch], None, None]:
        found = opened(self._tree, name)
        if found is not None:
            with found[0] as file, io.BufferedReader(io.FileIO(file.fd, closefd=False)) as stream:
                for hit in scanner.scan(stream):
                    yield (hit.to_match(shown),)


def _no_target(place: object, info: object) -> Leads:
    """Where a link leads, for a walk that passes links by."""
    return NOWHERE


class _Judged:
    """Whether a file that the program names may be seen."""

    def __init__(self, query: Query, tree: Tree, operations: Operations, authorize: Authorize) -> None:
        self._query = query
        self._tree = tree
        self._operations = operations
        self._authorize = None if authorize is allow else authorize

    def __call__(self, name: bytes) -> bool:
        typed = self._tree.typed_name(name)
        if not wanted(self._query, typed, self._tree.typed) or is_unfinished(typed.rpartition("/")[2]):
            return False
        return self._authorize is None or self._allows(self._authorize, typed, self._real(typed))

    def met(self, typed: str, info: os.stat_result) -> bool:
        """Whether the file itself may be seen that has the name by now, so that an approval is remembered for it."""
        real = self._real(typed)
        identity = Identity(real, info.st_dev, info.st_ino)
        return self._authorize is None or self._allows(self._authorize, typed, real, identity)

    def _real(self, typed: str) -> str:
        return join(self._tree.real, relative(typed, self._tree.typed))

    def _allows(self, authorize: Authorize, typed: str, real: str, identity: Identity | None = None) -> bool:
        names = (typed,) if typed == real else (typed, real)
        return all(authorize(operation, names, identity=identity, found=True) for operation in self._operations)


class _Running:
    """A search program that runs; leaving its ``with`` ends it."""

    def __init__(self, argv: Sequence[str], directory: int) -> None:
        try:
            self._process = _start(argv, directory, _PIPE)
        except PermissionError:
            self._process = _start(argv, directory, -1)

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
            if not poll.poll(_QUIET * 1000):
                raise SandboxTimeoutError(f"the search program printed nothing for {_QUIET} s", _QUIET)
            if not (chunk := os.read(fd, _CHUNK)):
                return
            yield chunk

    def code(self) -> int:
        """Return its exit code, once its output has ended.

        Raises:
            SandboxTimeoutError: it goes on without an output.
            RemoteProtocolError: it was ended from outside.
        """
        try:
            code = self._process.wait(_QUIET)
        except subprocess.TimeoutExpired:
            raise SandboxTimeoutError(f"the search program did not end within {_QUIET} s", _QUIET) from None
        if code < 0:
            raise RemoteProtocolError(f"the search program was ended by signal {-code}")
        return code


def _start(argv: Sequence[str], directory: int, pipe: int) -> subprocess.Popen[bytes]:
    """Start the program; *pipe* is the size of the pipe that it prints to, -1 where a user has no more of that."""
    return subprocess.Popen(
        argv,
        cwd=f"/proc/self/fd/{directory}",
        env=_ENV,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pipesize=pipe,
    )
