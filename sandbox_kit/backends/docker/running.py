"""A started container: its shells, its execs and the users that commands run as."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO

from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.engine import Engine, missing_is_fine, translated
from sandbox_kit.backends.docker.execs import Exec
from sandbox_kit.backends.docker.multiplexed import WireDuplex
from sandbox_kit.backends.docker.preparing import SHELL, Prepared
from sandbox_kit.backends.docker.process import DockerProcess, Service
from sandbox_kit.backends.shell.loop import Loop, Take
from sandbox_kit.backends.shell.shells import Shells
from sandbox_kit.errors import (
    InvalidArgumentError,
    SandboxClosedError,
    SandboxError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.primitives import Command
from sandbox_kit.types import Usage

__all__ = ["Running"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FIRST_SLOT = 2_000_000_000
_SLOTS = 1000
"""Background commands run as users of their own, from this uid on: a user is what can be killed as a whole."""

_UID = 'while read -r k v _; do [ "$k" != Uid: ] || echo "$v"; done </proc/self/status'


class Running:
    """What stands while a sandbox is started.

    Args:
        container: the engine's id of it.
        env: variables of every command.
        work_dir: as the caller named it.

    Attributes:
        user: whom commands run as, ``"uid:gid"``.
    """

    def __init__(
        self, engine: Engine, container: str, prepared: Prepared, *, work_dir: str, env: Mapping[str, str]
    ) -> None:
        self._engine = engine
        self.container = container
        self.user = prepared.user
        base = {"HOME": work_dir, "LANG": "C.UTF-8", "TERM": "dumb"}
        self._env = {"PATH": _PATH, **base, **prepared.env, "HOME": work_dir, **env}
        self._work_dir = work_dir
        self._lock = threading.Lock()
        self._shells: dict[str, Shells] = {}
        self._uids: dict[str, str] = {}
        self._slots: set[int] = set()
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
        assert self.engine
        name = self.user if user is None else str(user)
        uid = self._uid(name)
        with self._lock:
            if uid not in self._shells:
                self._shells[uid] = Shells(lambda: self._open(name), lambda: self._in_company(uid), self._end_all)
            return self._shells[uid]

    def _in_company(self, uid: str) -> bool:
        """Whether commands of another user than *uid* may run."""
        with self._lock:
            return bool(self._slots) or any(each.busy for other, each in self._shells.items() if other != uid)

    def _end_all(self) -> None:
        """End the container, where nothing else ends what a user runs: it forks or stops others too fast."""
        with missing_is_fine():
            self.engine.prompt.kill(self.container)

    def _uid(self, user: str) -> str:
        uid = user.partition(":")[0]
        if uid.isdecimal():
            return str(int(uid))
        if user not in self._uids:
            self._uids[user] = self.quick([SHELL, "-c", _UID], user).strip().decode()
        return self._uids[user]

    def _open(self, user: str) -> Loop:
        _, wire = self.engine.exec_stream(
            self.container, [SHELL, "-s"], user=user, env=self._env, work_dir=self._work_dir
        )
        return Loop(WireDuplex(wire))

    def exec(self, command: Command, cwd: str, *, user: str, stdin: Any, take: Take) -> Exec:
        """Have the engine start *command* itself."""
        start = ["/bin/sh", "-c", 'umask 0002; exec "$@"', "sh", *command.argv]
        env = {**self._env, **command.env}
        return Exec(self.engine, self.container, start, user=user, env=env, work_dir=cwd, stdin=stdin, take=take)

    def renew(self) -> None:
        """Renew the container's lease."""
        if not self._closed:
            self.quick([SHELL, *leases.renewal()], "0:0")

    def quick(self, argv: list[str], user: str) -> bytes:
        """Have the engine run a short program; return what it prints.

        Raises:
            InvalidArgumentError: the container knows no such user.
            SandboxUnavailableError: it failed, or cannot be run.
        """
        with self.engine.execs():
            made = self.engine.api.exec_create(self.container, argv, user=user, workdir="/")
            output = bytes(self.engine.api.exec_start(made["Id"]))
        code = self.engine.exec_ended(made["Id"])
        if code and b"unable to find user" in output:
            raise InvalidArgumentError(f"user: the sandbox has no user {user!r}")
        if code and code != 137:
            raise SandboxUnavailableError(
                f"{argv[0]} failed in the container: {output[-500:].decode(errors='replace')}"
            )
        return output

    def run(self, command: Command, cwd: str, take: Take, deadline: float | None) -> int:
        """Have the engine run *command* to its end; return its exit code.

        Raises:
            SandboxTimeoutError: the deadline came; it may run on.
        """
        assert not isinstance(command.stdin, int)
        user = self.user if command.user is None else str(command.user)
        program = self.exec(command, cwd, user=user, stdin=command.stdin, take=take)
        try:
            return program.finish(deadline)
        finally:
            program.close()

    def spawn(self, command: Command, cwd: str, owner: object) -> DockerProcess:
        """Have the engine start *command*, as a user of its own.

        Args:
            owner: what must not be dropped before the handle.

        Raises:
            UnsupportedError: too many run at once.
        """
        slot = self._take_slot()
        at_end = ExitStack()
        at_end.callback(self._free_slot, slot)
        service = Service(command.max_output, lambda: self._kill_slot(slot), at_end.close)
        near: BinaryIO | None = None
        source: Any = command.stdin
        try:
            if source == subprocess.PIPE:
                source, near = _pipe()
                at_end.callback(source.close)
            program = self.exec(command, cwd, user=self._slot_user(slot), stdin=source, take=service.take)
            process = DockerProcess(service, program.pid(), near, owner)
            service.serve(program)
        except BaseException:
            service.finish()
            raise
        return process

    def _take_slot(self) -> int:
        with self._lock:
            uid = next((uid for uid in range(_FIRST_SLOT, _FIRST_SLOT + _SLOTS) if uid not in self._slots), None)
            if uid is None:
                raise UnsupportedError(f"no more than {_SLOTS} background commands run at once")
            self._slots.add(uid)
        return uid

    def _slot_user(self, uid: int) -> str:
        return f"{uid}:{self.user.partition(':')[2]}"

    def _kill_slot(self, uid: int) -> None:
        if not self._closed:
            self.quick([SHELL, "-c", "kill -9 -1"], self._slot_user(uid))

    def _free_slot(self, uid: int) -> None:
        with self._lock:
            self._slots.discard(uid)

    @property
    def busy(self) -> bool:
        """Whether background commands run: another user's process may then look into a shared stream."""
        with self._lock:
            return bool(self._slots)

    def usage(self) -> Usage:
        """What the container uses now."""
        with translated():
            told = self.engine.api.stats(self.container, stream=False, one_shot=True)
        memory = told.get("memory_stats", {})
        used = memory.get("usage")
        cache = memory.get("stats", {}).get("total_inactive_file", memory.get("stats", {}).get("inactive_file", 0))
        return Usage(
            memory=None if used is None else max(0, used - cache),
            cpu_seconds=told.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0) / 1e9,
            pids=told.get("pids_stats", {}).get("current"),
        )

    def is_alive(self) -> bool:
        """Whether the container runs."""
        try:
            with translated():
                state = self.engine.api.inspect_container(self.container)["State"]
        except SandboxError:
            return False
        return bool(state["Running"]) and not state["Paused"]

    def why_gone(self) -> str:
        """What became of a container that does not answer, as one phrase."""
        try:
            with translated():
                state = self.engine.api.inspect_container(self.container)["State"]
        except SandboxError as error:
            return str(error)
        if state["OOMKilled"] and not state["Running"]:
            return "its container ran out of memory and was killed"
        if not state["Running"]:
            return f"its container ended with exit code {state['ExitCode']}"
        return "its container runs, but its shell was ended or does not answer"

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
        self._closed = self._abandoned = True
        self._shells.clear()


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    """Both ends of a pipe, to read from and to write to."""
    far, near = os.pipe()
    return open(far, "rb", buffering=0), open(near, "wb")
