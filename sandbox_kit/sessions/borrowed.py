"""The handle of a session: a sandbox that wakes when it is used, and is given back, not stopped, at the end."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from inspect import GEN_CLOSED, getgeneratorstate
from types import TracebackType
from typing import BinaryIO, NoReturn, Protocol

from attrs import evolve

from sandbox_kit.arguments import check_timeout
from sandbox_kit.contract import Backend, Process, Sandbox, is_running
from sandbox_kit.errors import LimitExceededError, SandboxClosedError, UnsupportedError
from sandbox_kit.host.forks import renew_in_child
from sandbox_kit.primitives import Authorize, Command, Entry, Masks, MaskSource, Operations, Query
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.search.matches import Matches
from sandbox_kit.sessions.deadlines import Deadlines
from sandbox_kit.sessions.entry import Call, SessionEntry
from sandbox_kit.sessions.forwarding import ForwardingSandbox
from sandbox_kit.sessions.table import SessionTable
from sandbox_kit.sessions.values import PolicyValues
from sandbox_kit.types import Capabilities, CommandResult, Identity, Usage, parse_size

__all__ = ["BorrowedSandbox", "Lender"]


class Lender(Protocol):
    """What a handle needs of its manager."""

    @property
    def table(self) -> SessionTable:
        """This process's own."""

    @property
    def deadlines(self) -> Deadlines:
        """What ends background processes in time."""

    def values(self) -> PolicyValues:
        """Return the policy's values of the moment."""

    def admit(self) -> None:
        """Begin to open a session."""

    def deliver_events(self) -> None:
        """Tell of what has happened; called with no lock held."""

    def close(self, session_id: str, *, purge: bool) -> None:
        """End a session."""


class BorrowedSandbox(ForwardingSandbox):
    """A session's sandbox, for as long as it is borrowed: from ``open()`` until its ``with`` is left.

    A session that hibernates meanwhile is woken by the next call. What :meth:`spawn` started is killed, as by
    ``kill()``, once it ran for the ``execute_timeout`` that the policy had then. ``stop(purge)`` closes the session for
    everyone. ``is_alive()`` and ``usage()`` neither wake it nor count as use. Beside what the contract names, a
    call that wakes raises what ``open()`` does.

    Args:
        lender: the manager.
        session_id, runtime, tenant: as for ``open()``.
    """

    def __init__(self, lender: Lender, session_id: str, runtime: str | None, tenant: str | None) -> None:
        super().__init__()
        self._lender = lender
        self._session_id = session_id
        self._runtime = runtime
        self._tenant = tenant
        self._max_read_bytes: int | None = None
        self._default_timeout: float | None = None
        self._place = ("", Capabilities())
        self._kept: SessionEntry | None = None
        renew_in_child(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"session {self._session_id}: a handle is for one process and one manager; "
            "open the session by its id, from a manager over the same root"
        )

    def __repr__(self) -> str:
        return f"<session {self._session_id}>"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entry().take_back(self)

    def keep(self, entry: SessionEntry) -> None:
        """Refer to the entry that this is a borrower of."""
        self._kept = entry

    def renew(self) -> None:
        """Begin in a forked child: a thread of the parent may have held the lock of this handle."""
        self._life = threading.RLock()

    @property
    def id(self) -> str:
        """The session's id."""
        return self._session_id

    @property
    def work_dir(self) -> str:
        self._check(self._entry())
        return self._place[0]

    @property
    def capabilities(self) -> Capabilities:
        self._check(self._entry())
        return self._place[1]

    @property
    def max_read_bytes(self) -> int:
        """The policy's ceiling of the moment; a smaller one of this handle's own may be set."""
        ceiling = self._lender.values().max_read_bytes
        own = self._max_read_bytes
        if ceiling is None:
            return Backend.max_read_bytes if own is None else own
        return ceiling if own is None else min(own, ceiling)

    @max_read_bytes.setter
    def max_read_bytes(self, count: int) -> None:
        self._max_read_bytes = parse_size(count, "max_read_bytes")

    @property
    def default_timeout(self) -> float | None:
        """The policy's ``execute_timeout`` of the moment, unless one of this handle's own is set."""
        return self._lender.values().execute_timeout if self._default_timeout is None else self._default_timeout

    @default_timeout.setter
    def default_timeout(self, seconds: float | None) -> None:
        self._default_timeout = check_timeout(seconds, "default_timeout")

    @property
    def file_timeout(self) -> float:
        own = self._entry().file_timeout
        return Backend.file_timeout if own is None else own

    @file_timeout.setter
    def file_timeout(self, seconds: float) -> None:
        with self._awake() as sandbox:
            sandbox.file_timeout = seconds
            self._entry().file_timeout = seconds

    def _entry(self) -> SessionEntry:
        return self._lender.table.entry(self._session_id)

    def _check(self, entry: SessionEntry) -> None:
        if self not in entry.borrowers:
            raise SandboxClosedError(
                f"session {self._session_id} is not open by this handle: use 'with handle:' or call start()"
            )

    @contextmanager
    def _awake(self) -> Generator[Sandbox, None, None]:
        """The session's sandbox, which does not hibernate before the block ends."""
        entry, call = self._entry(), Call()
        try:
            try:
                with entry.locked():
                    self._check(entry)
                    sandbox = self._lender.table.wake(entry, self._tenant, self._runtime)
                    entry.enter(call)
            finally:
                self._lender.deliver_events()
            yield sandbox
        finally:
            entry.leave(call)

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        self._lender.admit()
        entry = self._entry()
        try:
            with entry.locked():
                sandbox = self._lender.table.open(entry, self._tenant, self._runtime)
                self._check_held(sandbox, masks)
                self._place = (sandbox.work_dir, sandbox.capabilities)
                entry.lend(self)
        finally:
            self._lender.deliver_events()

    def _check_held(self, sandbox: Sandbox, masks: tuple[MaskSource, ...]) -> None:
        """Check that the session's sandbox, which is up, holds *masks* for its commands.

        Raises:
            UnsupportedError: it does not.
        """
        if not all(sandbox._confines(source.ruleset) for source in masks):
            raise UnsupportedError(f"session {self._session_id}: rules cannot be held for the commands of its sandbox")

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        """As in the contract; of a session that is not open by this handle, or sleeps, what its sandbox could do."""
        entry = self._entry()
        if self not in entry.borrowers or entry.sandbox is None:
            return self._place[1].commands == "confined"
        return super()._confines(ruleset)

    def _stop(self, purge: bool) -> None:
        if purge or self in self._entry().borrowers:
            self._lender.close(self._session_id, purge=purge)

    def _is_alive(self) -> bool:
        entry = self._entry()
        sandbox = entry.sandbox
        return sandbox is not None and self in entry.borrowers and sandbox.is_alive()

    def _usage(self) -> Usage:
        entry = self._entry()
        self._check(entry)
        return entry.usage()

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        return super()._run(self._within(command), operations=operations, authorize=authorize, masks=masks)

    def _within(self, command: Command) -> Command:
        """*command*, under the policy's time limit."""
        ceiling = self._lender.values().execute_timeout
        if ceiling is None:
            return command
        if command.timeout is None:
            return evolve(command, timeout=ceiling)
        if command.timeout > ceiling:
            raise LimitExceededError(
                f"timeout: {command.timeout} s is over the execute_timeout of {ceiling} s", ceiling
            )
        return command

    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> Process:
        ceiling = self._lender.values().execute_timeout
        with self._awake():
            process = super()._spawn(command, operations=operations, authorize=authorize, masks=masks)
            if ceiling is not None:
                self._lender.deadlines.add(process, ceiling, f"session {self._session_id}")
            return self._entry().watch(process, is_running)

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        with self._awake():
            entries = super()._scandir(path, operations=operations, authorize=authorize, depth=depth)
            return self._entry().watch(entries, _goes_on)

    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        with self._awake():
            stream = super()._open_read(path, operations=operations, authorize=authorize, expect=expect)
            return self._entry().watch(stream, _is_open)

    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        with self._awake():
            matches = super()._search(query, path, operations=operations, authorize=authorize)
            return self._entry().watch(matches, _is_open)


def _goes_on(entries: Generator[Entry, None, None]) -> bool:
    return getgeneratorstate(entries) != GEN_CLOSED


def _is_open(opened: BinaryIO | Matches) -> bool:
    return not opened.closed
