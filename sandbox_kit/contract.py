"""What a caller gets: :class:`Backend` is files, :class:`Sandbox` adds commands and a life.

Public methods live here, once, over the primitives that a backend implements
(:mod:`sandbox_kit.primitives`). All of them raise, beside what each one names:

===========================  =========================================================
error                        when
===========================  =========================================================
``InvalidArgumentError``     an argument no call could use: a NUL in a path, a bad number
``PathNotFoundError``        nothing has that name
``PathNotDirectoryError``    a file stands where a directory belongs, on the way too
``PathAccessError``          the file system, not a rule, refused
``PathError``                it could not serve: a name too long, a full disk
``PathEscapeError``          the path leads outside the root, as typed or through a link
``PermissionDeniedError``    a rule refused; only on a guarded backend
``SandboxTimeoutError``      what holds the files, or who has the workspace, took too long
``SandboxUnavailableError``  what holds the files is gone or cannot be reached
``SandboxClosedError``       the sandbox is not started, or stopped
===========================  =========================================================
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import BinaryIO, Literal, Self

from sandbox_kit import arguments, exports, streams, transfer, walk
from sandbox_kit.answers import is_answer, is_final
from sandbox_kit.calls import Call
from sandbox_kit.errors import (
    EditError,
    InvalidArgumentError,
    LimitExceededError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxUnavailableError,
    printable,
)
from sandbox_kit.paths import SandboxPath, check_path
from sandbox_kit.primitives import CommandPrimitives, FilePrimitives, allow
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import Capabilities, CommandResult, EditResult, FileInfo, Listing, Usage

__all__ = ["Backend", "Process", "Sandbox"]


class Backend(FilePrimitives):
    """Files in one place, under POSIX names.

    A path is a ``str`` or ``PurePosixPath``; a relative one starts at :attr:`work_dir`, and
    ``""`` and ``"."`` are that directory. Paths in results are relative to it when inside,
    else absolute, and read back as they stand; undecodable names use surrogateescape.
    Every method may be called from several threads at once.
    """

    max_read_bytes: int = 50 * 2**20
    """The most bytes that read, read_bytes and edit take in."""

    file_timeout: float = 30.0
    """How long one file operation may wait for what holds the files, in seconds; for grep, each file."""

    @property
    @abstractmethod
    def id(self) -> str:
        """A name for this backend, unlike that of any other one alive."""

    @property
    @abstractmethod
    def work_dir(self) -> str:
        """Where relative paths start: absolute and normalised."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can hold, on this machine."""

    def read(self, path: SandboxPath, *, offset: int = 0, limit: int | None = None) -> str:
        """Return a file's text, or some of its lines, with their ends as they are.

        Args:
            path: a regular file.
            offset: the first line wanted, from 0: a match's ``line_number - 1``.
            limit: how many lines; None for all. A line ends at ``\\n``.

        Returns:
            UTF-8 decoded, undecodable bytes as U+FFFD, a byte order mark dropped. Past the
            end of the file it is empty.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
            ReadLimitError: the lines, or one before them, hold more than ``max_read_bytes``.
            InvalidArgumentError: *offset* or *limit* is negative or no integer.
        """
        arguments.check_count(offset, "offset")
        if limit is not None:
            arguments.check_count(limit, "limit")
        with self._open_read(check_path(path), operations=("read",), authorize=allow) as stream:
            return streams.read_lines(stream, offset, limit, self.max_read_bytes, self.file_timeout)

    def read_bytes(self, path: SandboxPath) -> bytes:
        """Return a file's bytes, all of them.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
            ReadLimitError: it holds more than ``max_read_bytes``.
        """
        with self._open_read(check_path(path), operations=("read",), authorize=allow) as stream:
            return streams.read_bounded(stream, self.max_read_bytes)

    def open_read(self, path: SandboxPath) -> BinaryIO:
        """Open a file of any size for reading; the result is a context manager.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
        """
        return self._open_read(check_path(path), operations=("read",), authorize=allow)

    def write(self, path: SandboxPath, content: str | bytes | BinaryIO) -> None:
        """Make or replace a file whole, and make its parents.

        Atomic where the backend can: a reader finds the old bytes or the new ones. A file
        that is there keeps its mode; a final link stays and its target is written.

        Args:
            path: a regular file, or nothing yet.
            content: text is written as UTF-8; a binary file is read to its end.

        Raises:
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
            InvalidArgumentError: *content* is neither, or text that UTF-8 cannot hold.
        """
        typed, source = check_path(path), streams.as_chunks(content)
        with self._open_write(typed, operations=("write",), authorize=allow) as out:
            for chunk in source:
                out.write(chunk)

    def edit(self, path: SandboxPath, old: str | bytes, new: str | bytes, *, replace_all: bool = False) -> EditResult:
        """Replace a piece of a file; every other byte stays.

        Args:
            path: a regular file.
            old: matched exactly, line ends included; not empty.
            new: what takes its place.
            replace_all: replace every occurrence, from left to right, without overlap.

        Raises:
            EditError: *old* does not occur, or more than once without *replace_all*.
            PathIsDirectoryError: it is a directory.
            NotRegularFileError: it is a FIFO, socket, device or link loop.
            ReadLimitError: the file holds more than ``max_read_bytes``.
            LimitExceededError: it would hold more than that afterwards; it is as it was.
            SandboxConflictError: another file took the name meanwhile.
        """
        typed, before, after = check_path(path), streams.as_bytes(old, "old"), streams.as_bytes(new, "new")
        if not before:
            raise InvalidArgumentError("old: the text to replace cannot be empty")
        call = Call()
        (identity,) = self._resolve((typed,), operations=("edit", "read", "write"), authorize=call)
        if not identity.inode:
            raise PathNotFoundError(typed)
        with self._open_read(typed, operations=("edit", "read"), authorize=call, expect=identity) as stream:
            data = streams.read_bounded(stream, self.max_read_bytes)
        count = data.count(before)
        if count == 0 or (count > 1 and not replace_all):
            raise EditError(typed, count)
        if len(data) + count * (len(after) - len(before)) > self.max_read_bytes:
            limit = self.max_read_bytes
            raise LimitExceededError(f"{printable(typed)}: would hold more than {limit} bytes after the edit", limit)
        with self._open_write(typed, operations=("edit", "write"), authorize=call, expect=identity) as out:
            out.write(data.replace(before, after))
        return EditResult(walk.shown(self, typed), count)

    def ls(self, path: SandboxPath = ".") -> Listing:
        """List a directory's entries, or the file itself, sorted by path; dot files too.

        Raises:
            PathNotFoundError: nothing has that name.
        """
        typed, call = check_path(path), Call()
        try:
            entries = self._scandir(typed, operations=("ls",), authorize=call)
        except PathNotDirectoryError as error:
            if is_final(error):
                raise
            return Listing([self._stat(typed, operations=("ls",), authorize=call)])
        return walk.listing(entries)

    def glob(self, pattern: str, path: SandboxPath = ".") -> Listing:
        """List what *pattern* matches beneath *path*, directories included, sorted by path.

        Args:
            pattern: relative to *path*; without a slash it matches direct children. ``**``
                stands for any number of directories and does not cross links, nor does any
                wildcard; leading literal components may.
            path: a directory.

        Raises:
            PatternError: the pattern is malformed, climbs, or is absolute and not beneath *path*.
        """
        return walk.glob(self, arguments.check_string(pattern, "pattern"), check_path(path))

    def stat(self, path: SandboxPath) -> FileInfo:
        """Describe an entry; of a symbolic link the link itself."""
        return self._stat(check_path(path), operations=("ls",), authorize=allow)

    def exists(self, path: SandboxPath) -> bool:
        """Whether something has that name; a link counts, dangling or not."""
        try:
            self.stat(path)
        except (PathNotFoundError, PathNotDirectoryError) as error:
            if is_answer(error):
                raise
            return False
        return True

    def grep(
        self,
        pattern: str,
        path: SandboxPath = ".",
        *,
        glob: str | None = None,
        fixed: bool = False,
        ignore_case: bool = False,
        hidden: bool = False,
        context: int = 0,
        limit: int | None = None,
    ) -> Matches:
        """Look for lines, lazily: the first match comes before the last file is read.

        Args:
            pattern: a regular expression of the dialect that the documentation describes.
            path: a file, or a directory to walk; links met in the walk are not followed.
            glob: look only into files whose path this matches, with the semantics of a rule's pattern.
            fixed: *pattern* is plain text.
            ignore_case: compare without regard to case.
            hidden: enter dot names met in the walk; the one that *path* names is always entered.
            context: lines before and after each match.
            limit: how many matches at most; ``truncated`` tells whether there were more.

        Returns:
            An iterator of :class:`GrepMatch`, in order within a file; the order between files
            is not promised. Closing it ends the search.

        Raises:
            PatternError: *pattern* or *glob* is malformed or asks for what no backend has.
            PathNotFoundError: nothing has that name.
            SandboxTimeoutError: while iterating: a file took longer than its limit.
        """
        query = walk.query(
            arguments.check_string(pattern, "pattern"),
            self.work_dir,
            self._as_given(),
            glob=None if glob is None else arguments.check_string(glob, "glob"),
            fixed=fixed,
            ignore_case=ignore_case,
            hidden=hidden,
            context=context,
            limit=limit,
        )
        return self._search(query, check_path(path), operations=("grep", "read"), authorize=allow)

    def mkdir(self, path: SandboxPath) -> None:
        """Make a directory and its parents; one that is there is fine.

        Raises:
            PathExistsError: a file has that name.
        """
        self._mkdir(check_path(path), operations=("write",), authorize=allow)

    def remove(self, path: SandboxPath, *, recursive: bool = False) -> None:
        """Remove a file, a link itself, an empty directory, or with *recursive* a tree.

        Raises:
            PathIsDirectoryError: a directory that is not empty, without *recursive*.
            InvalidArgumentError: it is the root or the work directory.
        """
        self._remove(check_path(path), operations=("write",), authorize=allow, recursive=recursive)

    def move(self, src: SandboxPath, dst: SandboxPath) -> None:
        """Give a file, a link itself or a directory another name, in a directory that exists.

        Raises:
            PathExistsError: something has the name *dst*; nothing is ever replaced.
            InvalidArgumentError: *dst* lies beneath *src*, or *src* is the root or work directory.
        """
        self._rename(check_path(src), check_path(dst), operations=("read", "write"), authorize=allow)

    def upload(self, local: str | PathLike[str], path: SandboxPath) -> None:
        """Copy a file or tree of the host to *path*, which becomes the copy itself.

        Links that stay inside a tree are kept as links. The modes of files and directories are kept.

        Args:
            local: a path of the host.
            path: for a file, as in :meth:`write`; for a tree nothing may be there yet.

        Raises:
            PathNotFoundError: *local* is missing.
            PathExistsError: *path* exists and *local* is a tree.
            ArchiveError: the tree holds a special file or a link that leads outside it.
        """
        transfer.upload(self, local, check_path(path))

    def download(
        self, path: SandboxPath, local: str | PathLike[str], *, denied: Literal["error", "skip"] = "error"
    ) -> int:
        """Copy a file or tree to the host, as *local*, which becomes the copy itself.

        Args:
            path: a file or directory; links inside a tree that stay inside are kept as links.
            local: a path of the host; by a file, a regular file or a link to one is replaced, nothing else.
            denied: what to do about entries that a rule refuses, special files, links that lead outside
                the tree, and what cannot be read, or is gone or replaced by now.

        Returns:
            How many entries were left out; always 0 with ``denied="error"``.

        Raises:
            PathExistsError: *local* exists and cannot be replaced.
            ArchiveError: with ``"error"``: the tree holds a special file or a link that leads outside it.
        """
        return transfer.download(self, check_path(path), local, arguments.check_denied(denied))

    def export(
        self,
        path: SandboxPath = ".",
        *,
        format: Literal["tar", "zip"] = "tar",
        denied: Literal["error", "skip"] = "error",
    ) -> exports.Export:
        """Return a file or tree as a stream of one archive, made while it is read.

        Args:
            path: a file or directory; members are named relative to it.
            format: ``"tar"`` (POSIX.1-2001), or ``"zip"``, compressed.
            denied: what to do about entries, as in :meth:`download`.

        Returns:
            A readable binary file and context manager; ``.denied`` counts what was left out.

        Raises:
            ArchiveError: with ``"error"``: the tree holds a special file or a link that leads outside it;
                while it is read: a file became shorter.
            InvalidArgumentError: another *format*.
        """
        return transfer.export(self, check_path(path), format, arguments.check_denied(denied))


class Process(ABC):
    """A command that runs in the background; leaving its ``with`` kills its whole tree.

    Attributes:
        stdout, stderr: iterators of text lines; they end when the process has. Of output that
            nobody reads, the oldest is dropped past ``max_output``.
        stdin: a binary file to write to, with ``stdin=subprocess.PIPE``; else None.
    """

    stdout: Iterator[str]
    stderr: Iterator[str]
    stdin: BinaryIO | None

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process id, as its own sandbox numbers it where that is known."""

    @abstractmethod
    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, once it has ended.

        Args:
            timeout: in seconds; None waits for as long as it runs.

        Raises:
            SandboxTimeoutError: it still runs, and goes on running.
        """

    @abstractmethod
    def kill(self) -> None:
        """End its whole tree, at once; ending what has ended is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def is_running(process: Process) -> bool:
    """Whether a background process still runs; one whose end is not known has ended."""
    try:
        return process.poll() is None
    except SandboxUnavailableError:
        return False


class Sandbox(Backend, CommandPrimitives):
    """A backend that runs commands, with a life: ``with sandbox:`` or :meth:`start` begins it.

    Constructors do nothing. Leaving ``with`` is ``stop()``, or ``stop(purge=True)`` for a
    sandbox that was given neither an id nor a workspace, as ``tempfile`` does.
    """

    default_timeout: float | None = None
    """The time limit of a command that gives none, in seconds; None for no limit."""

    def __init__(self) -> None:
        self._life = threading.RLock()

    @property
    def temporary(self) -> bool:
        """Whether leaving ``with`` discards the workspace."""
        return False

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        """Whether the kernel will hold *ruleset* for the commands of a guard that is made now."""
        return self.capabilities.commands == "confined"

    def start(self) -> Self:
        """Begin, or begin again after :meth:`stop`; starting twice is fine.

        Raises:
            SandboxUnavailableError: what runs the sandbox cannot be reached.
            UnsupportedError: an option that this machine cannot hold.
        """
        with self._life:
            self._start()
        return self

    def stop(self, purge: bool = False) -> None:
        """End every command and remove what ran them; the workspace's files stay.

        Args:
            purge: discard the workspace too, *if the library made it*. A directory that the
                caller named is left as it is.

        Stopping twice, or what is gone, is no error.
        """
        with self._life:
            self._stop(bool(purge))

    def is_alive(self) -> bool:
        """Whether a command could run now; a real look, never an error."""
        return self._is_alive()

    def usage(self) -> Usage:
        """What the sandbox uses now."""
        return self._usage()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(purge=self.temporary)

    def execute(
        self,
        command: str | Sequence[SandboxPath],
        *,
        timeout: float | None = None,
        cwd: SandboxPath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | BinaryIO | None = None,
        user: str | int | None = None,
        on_output: Callable[[str, str], None] | None = None,
        max_output: int | str = arguments.MAX_OUTPUT,
        check: bool = False,
    ) -> CommandResult:
        """Run a command to its end. What it leaves running ends when it returns.

        Args:
            command: a text goes to ``/bin/sh -c``, a sequence is the program and its arguments, texts or paths.
            timeout: in seconds; None is ``default_timeout``.
            cwd: a directory; None is ``work_dir``.
            env: added to PATH, HOME, LANG and TERM; nothing of the host's environment is passed on.
            stdin: what the command reads; empty when None.
            user: a user name or uid, where ``capabilities.users`` says so.
            on_output: called with ``"stdout"`` or ``"stderr"`` and a piece of text, as it arrives,
                in the calling thread.
            max_output: in bytes, or as ``"10m"``; what comes after is cut and ``truncated`` set.
            check: raise for a non-zero exit code.

        Returns:
            The result; a non-zero exit code is one, too.

        Raises:
            CommandTimeoutError: it ran over its limit; its whole tree is dead, and ``.result``
                holds what it printed until then.
            CommandFailedError: *check* is set and the exit code is not 0.
            UnsupportedError: an option that this backend cannot hold, or a command from within *on_output* where
                commands run one at a time.
        """
        request = arguments.command(
            command,
            timeout=self.default_timeout if timeout is None else timeout,
            cwd=cwd,
            env=env,
            stdin=stdin,
            user=user,
            on_output=on_output,
            max_output=max_output,
        )
        result = self._run(request, operations=("execute",), authorize=allow)
        return result.check() if check else result

    def spawn(
        self,
        command: str | Sequence[SandboxPath],
        *,
        cwd: SandboxPath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | BinaryIO | int | None = None,
        user: str | int | None = None,
        max_output: int | str = arguments.MAX_OUTPUT,
    ) -> Process:
        """Start a command in the background; arguments are those of :meth:`execute`.

        Args:
            stdin: may also be ``subprocess.PIPE``.
            max_output: of each stream what is kept unread, in bytes; older output is dropped.

        Raises:
            UnsupportedError: an option that this backend cannot hold.
        """
        request = arguments.command(command, cwd=cwd, env=env, stdin=stdin, user=user, max_output=max_output, pipe=True)
        return self._spawn(request, operations=("execute",), authorize=allow)
