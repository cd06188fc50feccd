"""What a backend implements: primitives that ask before they act.

A public method of :class:`~sandbox_kit.contract.Backend` calls one or more primitives, and
names in ``operations`` what the caller is doing: the same ``_scandir`` serves ls, glob and
export. A primitive asks ``authorize`` for every name of its target, in this order:

1. the name as typed and normalised, before any I/O, and as hops what each ``..`` in it leaves;
2. each symbolic link on the way (``hop=True``), once the target is pinned;
3. whatever else the call touches: entries beneath, each with its own ``identity``, and the names that
   they would get; parents to be made;
4. last, with ``identity``, the typed and the real name of the target. Nothing leaves the
   backend, and nothing changes, before this answer.

Only then does it act, on what it pinned. ``authorize`` may raise at any of these points: a
primitive then lets go of every lock and descriptor and may be called again from the start.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO, Protocol

from attrs import field, frozen

from sandbox_kit.cancelling import NEVER, Cancellation
from sandbox_kit.types import CommandResult, FileInfo, Identity, Operation, Skipped, Usage

if TYPE_CHECKING:
    from sandbox_kit.contract import Process
    from sandbox_kit.rules.globs import PathFilter
    from sandbox_kit.rules.ruleset import PermissionRuleset
    from sandbox_kit.search.dialect import Dialect
    from sandbox_kit.search.matches import Matches

__all__ = [
    "Authorize",
    "Command",
    "CommandPrimitives",
    "Entry",
    "FilePrimitives",
    "MaskSource",
    "Masks",
    "Operations",
    "Query",
    "allow",
    "settle",
]

Operations = tuple[Operation, ...]

Entry = FileInfo | Skipped | None
"""What a walk meets: an entry, one that could not be looked at, or None for one that a rule hides."""


class Authorize(Protocol):
    """The question that a primitive asks of whoever enforces rules."""

    def __call__(
        self,
        operation: Operation,
        names: tuple[str, ...],
        *,
        identity: Identity | None = None,
        found: bool = False,
        hop: bool = False,
    ) -> bool:
        """Return True where the operation may go on.

        Args:
            operation: what is to be done.
            names: absolute normalised names of one target, in the sandbox's own file system;
                for ``"execute"`` the command's text.
            identity: given with the last question about a target, when every name of it is known, and with each
                about an entry beneath one, which is then to be that very one.
            found: the target was met in a walk: the answer may be False, and nothing is raised.
            hop: the names are of something on the way to the target: a symbolic link, or what a
                ``..`` leaves.

        Raises:
            PermissionDeniedError: the caller named the target and a rule refuses it.
        """


def allow(
    operation: Operation,
    names: tuple[str, ...],
    *,
    identity: Identity | None = None,
    found: bool = False,
    hop: bool = False,
) -> bool:
    """The :class:`Authorize` of a backend without rules."""
    return True


def settle(operations: Operations, authorize: Authorize, names: tuple[str, ...], identity: Identity) -> None:
    """Ask the last question of a call: *names* for each of *operations*, the last with *identity*."""
    for operation in operations[:-1]:
        authorize(operation, names)
    authorize(operations[-1], names, identity=identity)


@frozen
class Query:
    """What a grep looks for.

    Attributes:
        dialect: the compiled pattern.
        glob: which files to look into, by name; None for all.
        hidden: whether a walk enters dot names.
        context: lines before and after each match.
        limit: how many matches at most; None for all.
    """

    dialect: Dialect
    glob: PathFilter | None = None
    hidden: bool = False
    context: int = 0
    limit: int | None = None


@frozen
class Command:
    """A command to run, checked and complete.

    Attributes:
        argv: the program and its arguments; a command line is ``("/bin/sh", "-c", line)``.
        line: what the caller gave: a command line, or None for an argument vector.
        cwd: where it starts, as typed; relative to the work directory.
        env: variables added to the sandbox's own few.
        stdin: bytes, a binary file, ``subprocess.PIPE`` (spawn only), or None for an empty one.
        user: a user name or uid; None for the sandbox's own.
        timeout: in seconds; None for no limit.
        max_output: in bytes.
        on_output: called with the stream's name and a piece of text, in the calling thread.
        cancellation: another thread's way to end it: whatever waits for the command looks at that now and then.
    """

    argv: tuple[str, ...]
    line: str | None = None
    cwd: str = "."
    env: Mapping[str, str] = field(factory=dict)
    stdin: bytes | BinaryIO | int | None = None
    user: str | int | None = None
    timeout: float | None = None
    max_output: int = 10 * 2**20
    on_output: Callable[[str, str], None] | None = None
    cancellation: Cancellation = field(default=NEVER, eq=False, repr=False)

    @property
    def text(self) -> str:
        """The command for people: the line as given, the words of an argument vector quoted as for a shell."""
        return shlex.join(self.argv) if self.line is None else self.line


class Masks(Protocol):
    """Which names a guard wants hidden from commands, or read-only for them."""

    @property
    def ruleset(self) -> PermissionRuleset:
        """The rules that they come of."""

    def hidden(self, name: str) -> bool:
        """Whether commands must not see what *name* holds."""

    def read_only(self, name: str) -> bool:
        """Whether commands must not change *name*."""

    def opens_beneath(self, directory: str) -> bool:
        """Whether something beneath a hidden *directory* may be visible again."""

    def pins(self, name: str) -> tuple[str, ...]:
        """Directories beneath the work directory that must keep their names for the mask of *name* to hold."""

    def outside(self) -> tuple[str, ...]:
        """Patterns' literal names outside the work directory that must be hidden."""


class MaskSource(Protocol):
    """A guard, to a sandbox that has to know at its start what to hide from commands."""

    @property
    def ruleset(self) -> PermissionRuleset:
        """The rules that the masks will come of."""

    def masks(self) -> Masks:
        """Return the masks, once :meth:`FilePrimitives._resolve_prefixes` answers."""


class FilePrimitives(ABC):
    """Files. Paths are as typed: relative ones start at the work directory.

    Every primitive raises the matching :class:`~sandbox_kit.errors.PathError`,
    ``PathEscapeError`` where the path leads outside the root, ``NotRegularFileError`` for a
    FIFO, socket, device or link loop, and what ``authorize`` raises.
    """

    @abstractmethod
    def _resolve(
        self, paths: Sequence[str], *, operations: Operations, authorize: Authorize, follow: bool = True
    ) -> tuple[Identity, ...]:
        """Ask for all of *paths* without acting, each with its identity at the end.

        What is missing has the name that it would have, device 0 and inode 0; for ``"write"``
        each parent that would be made is asked for too. ``follow=False`` stops at a final link.
        """

    @abstractmethod
    def _as_given(self) -> str:
        """Return the work directory's name as the caller gave it; a rule in that spelling means the real one."""

    @abstractmethod
    def _resolve_prefixes(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        """Return the real name of each absolute path that a rule mentions, or the path where it has none."""

    @abstractmethod
    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        """Describe *path*, a final link itself; a link's target is asked for as well."""

    @abstractmethod
    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        """Walk a directory; judged at the call, read while it is iterated.

        Entries come parents first and are asked for with ``found=True`` and their identity, a
        link's target with it; a directory that is refused is walked all the same. Links are not
        followed.

        Args:
            path: the directory; a final link is followed.
            depth: 1 for its entries, None for everything beneath.

        Raises:
            PathNotDirectoryError: it is no directory.
        """

    @abstractmethod
    def _readlink(self, path: str, *, operations: Operations, authorize: Authorize) -> str:
        """Return what a symbolic link holds."""

    @abstractmethod
    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        """Open a regular file.

        Raises:
            SandboxConflictError: *expect* is given and another file has the name by now.
        """

    @abstractmethod
    def _open_write(
        self,
        path: str,
        *,
        operations: Operations,
        authorize: Authorize,
        expect: Identity | None = None,
        mode: int | None = None,
    ) -> AbstractContextManager[BinaryIO]:
        """Make or replace a regular file, and its parents, when the context ends without an error.

        Judged at the call. After an error the file is as it was. The mode of a file that is
        there stays, unless *mode* is given. Where *expect* is given, or a person approved, no more
        is replaced in the end than what was there at the call; else whatever file has the name by then.

        Raises:
            SandboxConflictError: *expect* is given and another file has the name by now; or another took
                it meanwhile.
        """

    @abstractmethod
    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize, mode: int | None = None) -> None:
        """Make a directory and its parents; one that is there is fine.

        *mode*, if given, is what the directory itself has in the end, new or not.
        """

    @abstractmethod
    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        """Make *path* a symbolic link that holds *target*; its parent is there."""

    @abstractmethod
    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        """Remove a file, a link itself, or a directory: an empty one, or with every entry asked for first."""

    @abstractmethod
    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        """Give *source* the name *target*, where nothing is.

        The source and every entry beneath is asked for with *operations*, each new name with
        ``"write"``; an entry's both with its identity.
        """

    @abstractmethod
    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        """Look for *query* in a file or beneath a directory; judged at the call, lazy after it."""


class CommandPrimitives(ABC):
    """Commands, and the life of what runs them."""

    @abstractmethod
    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        """Bring up what runs commands, unless it is up.

        Args:
            masks: of the guards above, for what can hide names only from its start on.

        Raises:
            UnsupportedError: it is up, and does not hold *masks*.
        """

    @abstractmethod
    def _stop(self, purge: bool) -> None:
        """Take it down; with *purge* discard the workspace if the library made it."""

    @abstractmethod
    def _is_alive(self) -> bool:
        """Whether a command could run now, by a real look; False before the start, and never an error."""

    @abstractmethod
    def _usage(self) -> Usage:
        """What the sandbox uses now."""

    @abstractmethod
    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        """Run *command* to its end, or its whole tree's end at the time limit.

        Asks for the command line, and last for ``"ls"`` on the directory that it starts in.

        Args:
            masks: what the kernel must hide from the command; None runs it without the kernel's
                help, as a guard does that only inspects command lines.

        Raises:
            UnsupportedError: *masks* are given and cannot be held.
        """

    @abstractmethod
    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> Process:
        """Start *command* in the background, judged as in :meth:`_run`."""
