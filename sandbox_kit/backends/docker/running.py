"""A started container: its shells, its execs and the users that commands run as."""

from __future__ import annotations

import io
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, BinaryIO, cast

from attrs import evolve

from sandbox_kit.backends.docker import leases, state
from sandbox_kit.backends.docker.engine import Engine, missing_is_fine
from sandbox_kit.backends.docker.execs import Exec
from sandbox_kit.backends.docker.multiplexed import WireDuplex
from sandbox_kit.backends.docker.preparing import Prepared
from sandbox_kit.backends.docker.process import DockerProcess, Service
from sandbox_kit.backends.docker.users import Slots, Users
from sandbox_kit.backends.shell.commands import script
from sandbox_kit.backends.shell.loop import Loop, Take
from sandbox_kit.backends.shell.shells import Shells
from sandbox_kit.errors import (
    SandboxClosedError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.primitives import Command
from sandbox_kit.types import Usage

__all__ = ["Running"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_STARTED_WITHIN = 10.0
"""Seconds that a shell may take to start."""

_START = 'cd -P -- "$1" && [ "$PWD" = "$1" ] || exit 126; shift; umask 0002; exec "$@"'
"""Starts a command, unless its directory is another by now."""


class Running:
    """What stands while a sandbox is started.

    Args:
        container: the engine's id of it.
        env: variables of every command.
        work_dir: as the caller named it.

    Attributes:
        user: whom commands run as, ``"uid:gid"``.
        isolated: whether no command can have a part in the shells that run others.
    """

    def __init__(
        self, engine: Engine, container: str, prepared: Prepared, *, work_dir: str, env: Mapping[str, str]
    ) -> None:
        self._engine = engine
        self.container = container
        self.user = prepared.user
        self.isolated = prepared.closed or not self.user.startswith("0:")
        self._shell = list(prepared.shell)
        self._env = {"PATH": _PATH, "LANG": "C.UTF-8", "TERM": "dumb", **prepared.env, "HOME": work_dir, **env}
        self._env_of_shells = {**dict.fromkeys(prepared.env, ""), "PATH": _PATH}
        self._work_dir = work_dir
        self._lock = threading.Lock()
        self._shells: dict[str, Shells] = {}
        self._users = Users(self.user, lambda: self.shells().lease())
        self._slots = Slots(self.user.partition(":")[2])
        self._closed = False
        self._abandoned = False
        abandon_in_child(self)

    @property
    def engine(self) -> Engine:
        """The engine that runs it.

        Raises:
            SandboxClosedError: this process was forked since; the container is its parent's.
        """
        if self._abandoned:
            raise SandboxClosedError("the sandbox is that of the process that started it, not of one forked from it")
        return self._engine

    def shells(self, user: str | int | None = None) -> Shells:
        """The shells of a user, one set for each uid.

        Raises:
            InvalidArgumentError: the container knows no such user.
            SandboxClosedError: as :attr:`engine`.
        """
        user_id = self._users.number(user)
        uid = user_id.partition(":")[0]
        with self._lock:
            if uid not in self._shells:
                key = f"{self.container}:{uid}"
                self._shells[uid] = Shells(
                    lambda: self._open(user_id), lambda: self._in_company(uid), self._end_all, key
                )
            return self._shells[uid]

    def _in_company(self, uid: str) -> bool:
        """Whether commands of another user than *uid* may run."""
        with self._lock:
            return self._slots.busy or any(each.busy for other, each in self._shells.items() if other != uid)

    def _end_all(self) -> None:
        """End the container, where nothing else ends what a user runs: it forks or stops others too fast."""
        try:
            with self.engine.execs(), missing_is_fine():
                self.engine.prompt.kill(self.container)
        except SandboxTimeoutError as error:
            raise SandboxUnavailableError("the container does not end; it will with its lease") from error

    def _open(self, user: str) -> Loop:
        with self._undisturbed(user) as root:
            _, wire = self.engine.exec_stream(
                self.container, [*self._shell, "-s"], user=user, env=self._env_of_shells, work_dir=self._work_dir
            )
            loop = Loop(WireDuplex(wire))
            if root is not None:
                loop.run(":", lambda *_: None, time.monotonic() + _STARTED_WITHIN)
        return loop

    @contextmanager
    def _undisturbed(self, user: str) -> Iterator[Loop | None]:
        """Have root's commands end nothing meanwhile: what the engine starts is root's until it runs as another user.

        Yields:
            A shell of root's, if root has any and *user* is another.
        """
        with self._lock:
            root = self._shells.get("0")
            of_root = user.partition(":")[0] == "0"
        with nullcontext() if root is None or of_root else root.lease() as loop:
            yield loop

    def script(self, command: Command, cwd: str) -> str:
        """Shell code that runs *command* in a shell of these; see ``script`` of the shell backend."""
        return script(evolve(command, env={**self._env, **command.env}), cwd)

    def exec(self, command: Command, cwd: str, *, user: str, stdin: Any, take: Take) -> Exec:
        """Have the engine start *command* itself."""
        start = ["/bin/sh", "-c", _START, "sh", cwd, *command.argv]
        env = {**self._env, **command.env}
        with self._undisturbed(user) as root:
            program = Exec(self.engine, self.container, start, user=user, env=env, work_dir="/", stdin=stdin, take=take)
            if root is not None:
                _started(program)
        return program

    def renew(self) -> None:
        """Renew the container's lease.

        Raises:
            SandboxUnavailableError, SandboxTimeoutError: it was not renewed.
        """
        with self._lock:
            root = self._shells.get("0")
        if not self._closed and not (root is not None and _renew_by(root)):
            self.quick([*self._shell, "-c", leases.renewal()], "0:0")

    def quick(self, argv: list[str], user: str) -> bytes:
        """Have the engine run a short program; return what it prints.

        Raises:
            SandboxUnavailableError: it failed, or cannot be run.
            SandboxTimeoutError: it took too long.
        """
        printed = bytearray()
        with self._undisturbed(user):
            program = Exec(
                self.engine,
                self.container,
                argv,
                user=user,
                env=self._env_of_shells,
                work_dir="/",
                stdin=None,
                take=lambda _, data: printed.extend(data),
            )
            try:
                code = program.finish(time.monotonic() + _STARTED_WITHIN)
            finally:
                program.close()
        if code and code != 137:
            raise SandboxUnavailableError(
                f"{argv[0]} failed in the container: {printed[-500:].decode(errors='replace')}"
            )
        return bytes(printed)

    def run(self, command: Command, cwd: str, take: Take, deadline: float | None) -> int:
        """Have the engine run *command* to its end; return its exit code.

        Raises:
            SandboxTimeoutError: the deadline came; it may run on.
        """
        assert not isinstance(command.stdin, int)
        program = self.exec(command, cwd, user=self._users.number(command.user), stdin=command.stdin, take=take)
        try:
            return program.finish(deadline, command.cancellation)
        finally:
            program.close()

    def spawn(self, command: Command, cwd: str, owner: object) -> DockerProcess:
        """Have the engine start *command*, as a user of its own.

        Args:
            owner: what must not be dropped before the handle.

        Raises:
            UnsupportedError: too many run at once.
        """
        slot = self._slots.take()
        at_end = ExitStack()
        service = Service(
            command.max_output, lambda: self._kill_slot(slot), lambda: self._slots.free(slot), at_end.close
        )
        near: BinaryIO | None = None
        source: Any = command.stdin
        try:
            if source == subprocess.PIPE:
                source, near = _pipe(at_end)
            program = self.exec(command, cwd, user=self._slots.user(slot), stdin=source, take=service.take)
            at_end.callback(program.close)
            process = DockerProcess(service, program.pid(), near, owner)
            service.serve(program)
        except BaseException:
            service.end()
            raise
        return process

    def _kill_slot(self, uid: int) -> None:
        if not self._closed:
            self.quick([*self._shell, "-c", "kill -9 -1"], self._slots.user(uid))

    @property
    def busy(self) -> bool:
        """Whether background commands run: another user's process may then look into a shared stream."""
        return self._slots.busy

    def usage(self) -> Usage:
        """What the container uses now."""
        return state.usage(self.engine, self.container)

    def is_alive(self) -> bool:
        """Whether the container runs."""
        return not self._abandoned and state.is_alive(self.engine, self.container)

    def why_gone(self) -> str:
        """What became of a container that does not answer, as one phrase."""
        return state.why_gone(self.engine, self.container)

    def close(self) -> None:
        """Let go of every shell."""
        with self._lock:
            self._closed = True
            shells = list(self._shells.values())
        for each in shells:
            each.close()

    def abandon(self) -> None:
        """In a forked child: start nothing, and let go of what the parent uses."""
        self._lock = threading.Lock()
        self._slots.abandon()
        self._closed = self._abandoned = True
        self._shells.clear()


def _renew_by(root: Shells) -> bool:
    """Renew a lease by a shell of root's: the end of a command of root's kills what the engine starts meanwhile.

    Returns:
        Whether that was done: another handle's command may have the sandbox, or a sweep may end it.
    """
    until = time.monotonic() + _STARTED_WITHIN
    try:
        with root.lease(within=_STARTED_WITHIN) as loop:
            return not loop.run(f"( {leases.renewal()} ); c=$?", lambda *_: None, until)
    except SandboxTimeoutError:
        return False


def _started(program: Exec) -> None:
    """Wait until the engine has started *program*."""
    try:
        program.pid()
    except BaseException:
        program.close()
        raise


def _pipe(closing: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    """Both ends of a pipe, to read from and to write to; *closing* closes them."""
    far, near = (io.FileIO(fd, mode) for fd, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
    closing.callback(far.close)
    closing.callback(near.close)
    return cast("BinaryIO", far), io.BufferedWriter(near)
