"""RemoteSandbox: files and commands in a session of a sandbox service."""

from __future__ import annotations

import logging
import os
import re
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, NoReturn
from uuid import uuid4

from attrs import evolve

from sandbox_kit.arguments import check_string, check_timeout
from sandbox_kit.backends.remote import commands
from sandbox_kit.backends.remote.courier import Trip
from sandbox_kit.backends.remote.opening import Opened, Wanted, open_session
from sandbox_kit.backends.remote.service import ANSWER_WITHIN, CONNECT_WITHIN, Service
from sandbox_kit.backends.remote.session import Info, Session
from sandbox_kit.backends.shell.duplex import Piece
from sandbox_kit.backends.shell.oneshot import OneShotFiles
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import InvalidArgumentError, SandboxClosedError, SandboxError, UnsupportedError
from sandbox_kit.paths import normalise
from sandbox_kit.primitives import Authorize, Command, Masks, MaskSource, Operations
from sandbox_kit.types import Capabilities, CommandResult, Usage, parse_size

__all__ = ["RemoteSandbox"]

_log = logging.getLogger("sandbox_kit")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class RemoteSandbox(OneShotFiles, Sandbox):
    """Files and commands in a session of the sandbox service that pydantic-ai-backend publishes, over HTTP.

    Each call of a file or command is a program that the service starts. A command's output comes when it has
    ended, ``on_output`` too, standard output before standard error; one that is lost on its way is never sent
    again. No background processes, no other users. Rules are held to names that the sandbox's own file system
    resolves; of commands only the line is looked at, so that with rules ``commands="auto"`` asks for each.

    ``stop()`` ends the session, and the service keeps the workspace, if it keeps any. ``stop(purge=True)``
    discards that too. The service also ends a session by itself that nothing has used for long.

    A pickled handle names the same session, and holds the token if it was given as text: give ``"$NAME"``
    or a function where that must not travel.

    Args:
        url: the service's address, http or https; certificates are verified. Another host than this one is
            reached by the proxy that ``HTTPS_PROXY`` or ``HTTP_PROXY`` names, but for those of ``NO_PROXY``.
        token: the service's; ``"$NAME"`` is the environment variable of that name, and a function is called
            for each request.
        session_id: 1 to 64 of ``A-Za-z0-9._-``, the first alphanumeric. None makes one up, and leaving
            ``with`` then discards the workspace too.
        runtime: the alias of one of the service's runtimes; None is its default.
        tenant: on whose behalf, for the service's ceilings.
        reuse: whether a session of that id that is open is the one that ``start()`` begins to use.
        work_dir: where the service has its files.
        connect_timeout: in seconds.
        answer_timeout: how long the service may take to answer, beside what a command or file itself may take,
            in seconds.
        default_timeout: the time limit of a command that gives none, in seconds; None is a little less than
            the service's own ceiling, over which none can be.
        max_read_bytes, file_timeout: as for every backend.

    Raises:
        InvalidArgumentError: an argument that no service could be asked with; at the start, no such runtime.
        SandboxUnavailableError: at the start: no service there, or it refuses the token, or cannot start a sandbox.
        RemoteProtocolError: at the start, or later: what answers is no sandbox service.
        SandboxConflictError: at the start: the session is open and not to be reused, or of another runtime; or
            the files are elsewhere.
        SessionLimitError: at the start: a ceiling of the service is reached.
        UnsupportedError: at the start: the image lacks a program that this needs; names it.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str] = "$SANDBOXD_TOKEN",
        session_id: str | None = None,
        runtime: str | None = None,
        tenant: str | None = None,
        reuse: bool = True,
        work_dir: str = "/workspace",
        connect_timeout: float = CONNECT_WITHIN,
        answer_timeout: float = ANSWER_WITHIN,
        default_timeout: float | None = None,
        max_read_bytes: int | str = Backend.max_read_bytes,
        file_timeout: float = Backend.file_timeout,
    ) -> None:
        self._service = Service(
            url,
            token,
            connect_timeout=check_timeout(connect_timeout, "connect_timeout") or CONNECT_WITHIN,
            answer_timeout=check_timeout(answer_timeout, "answer_timeout") or ANSWER_WITHIN,
        )
        self._temporary = session_id is None
        self._wanted = Wanted(
            id=f"sk-{uuid4().hex[:12]}" if session_id is None else _name(session_id, "session_id"),
            runtime=None if runtime is None else check_string(runtime, "runtime"),
            tenant=None if tenant is None else _name(tenant, "tenant"),
            reuse=bool(reuse),
            work_dir=_directory(work_dir),
        )
        self.default_timeout = check_timeout(default_timeout, "default_timeout")
        self.max_read_bytes = parse_size(max_read_bytes, "max_read_bytes")
        self.file_timeout = check_timeout(file_timeout, "file_timeout") or Backend.file_timeout
        self._begin()

    def _begin(self) -> None:
        Sandbox.__init__(self)
        self._opened: Opened | None = None
        self._may_be_kept = not self._temporary
        self._pid = os.getpid()
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_life", "_opened", "_pid", "_finalizer", "_tools", "_base", "_mounts"}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy: a reference to a session, of which leaving ``with`` discards nothing."""
        self.__dict__.update(state)
        self._temporary = False
        self._wanted = evolve(self._wanted, reuse=True)
        self._begin()

    def __repr__(self) -> str:
        return f"RemoteSandbox('{self._service.place}', session_id={self._wanted.id!r})"

    @property
    def id(self) -> str:
        return self._wanted.id

    @property
    def temporary(self) -> bool:
        return self._temporary

    @property
    def work_dir(self) -> str:
        return self._wanted.work_dir

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(commands="inspected", channel="shared", symlinks=True, case_sensitive=True)

    def _up(self) -> Opened:
        """The session.

        Raises:
            SandboxClosedError: it is not open.
        """
        if self._opened is None:
            raise SandboxClosedError(f"{self!r} is not started: use 'with sandbox:' or call start()")
        return self._opened

    def _shoot(
        self, script: bytes, stdin: Sequence[bytes | bytearray], timeout: float | None
    ) -> Generator[Piece, None, None]:
        opened = self._up()
        return opened.courier.run(Trip(script, stdin, opened.ceiling if timeout is None else timeout))

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        if masks:
            raise UnsupportedError("rules: the kernel cannot hold them for the commands of a sandbox service")
        if self._opened is not None:
            return
        opened = open_session(self._service, self._wanted)
        self._opened, self._may_be_kept, self._pid = opened, True, os.getpid()
        self._tools, self._base, self._entered = None, None, opened.work_dir
        if self._temporary:
            self._finalizer = weakref.finalize(self, _end_quietly, opened.session, os.getpid())

    def _stop(self, purge: bool) -> None:
        if self._opened is not None and self._pid != os.getpid():
            self._opened, self._temporary = None, False
            return
        if not self._may_be_kept:
            return
        session = Session(self._service, self._wanted.id)
        self._opened = None
        if not session.end(purge=purge) and purge:
            self._discard(session)
        self._let_go(purge)

    def _discard(self, session: Session) -> None:
        """Discard what the service keeps of a session that is not open: it has to be opened for that."""
        if session.keeps_files():
            open_session(self._service, evolve(self._wanted, reuse=True))
            session.end(purge=True)

    def _let_go(self, purge: bool) -> None:
        self._service.close()
        if purge and self._temporary:
            self._may_be_kept = False
            if self._finalizer is not None:
                self._finalizer.detach()

    def _is_alive(self) -> bool:
        if self._opened is None:
            return False
        with suppress(SandboxError):
            found = self._opened.session.look()
            return found is not None and found.wakes
        return False

    def _usage(self) -> Usage:
        used = self._used()
        return Usage(memory=used.memory, pids=used.pids)

    def _used(self) -> Info:
        found = self._up().session.look(usage=True)
        if found is None:
            raise SandboxClosedError(f"{self!r}: the service has no such session any more: stop() and start() it")
        return found

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        opened = self._up()
        if command.user is not None:
            raise UnsupportedError("user: a sandbox service runs commands as one user")
        if masks:
            raise UnsupportedError("rules: the kernel cannot hold them for the commands of a sandbox service")
        for operation in operations:
            authorize(operation, (command.text,))
        return commands.run(opened, command, self._directory(command.cwd, authorize))

    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> NoReturn:
        self._up()
        raise UnsupportedError("spawn: a sandbox service runs no background processes: use execute()")


def _end_quietly(session: Session, owner: int) -> None:
    """Discard a sandbox that was dropped, or whose process exits; never in a forked child."""
    if os.getpid() != owner:
        return
    try:
        session.end(purge=True)
    except SandboxError as error:
        _log.warning("a session that was dropped could not be ended: %s", error)


def _name(value: str, name: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgumentError(f"{name}: {value!r} is not 1 to 64 of A-Za-z0-9._-, the first alphanumeric")
    return value


def _directory(work_dir: str) -> str:
    found = normalise(check_string(work_dir, "work_dir"))
    if not work_dir.startswith("/") or found == "/":
        raise InvalidArgumentError(f"work_dir: {work_dir!r} is not an absolute path of a directory beneath /")
    return found
