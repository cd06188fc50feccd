"""What dead processes left on an engine: it is told by labels, looked into where it runs, and removed.

Nothing is removed of which one owner lives, or may live somewhere else; neither are kept containers
within their time, nor volumes that anything uses: the engine refuses that itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from attrs import frozen
from docker.errors import NotFound

from sandbox_kit.backends.docker import container as containers
from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.engine import Engine, connect, missing_is_fine, translated
from sandbox_kit.backends.docker.execs import Exec
from sandbox_kit.backends.docker.ownership import (
    HELPER,
    ID,
    KEPT,
    OWNER,
    TEMPORARY,
    is_beside,
    is_helper,
    is_sandbox,
    listed_name,
    runs_nothing,
)
from sandbox_kit.backends.docker.shellcopy import PLACE
from sandbox_kit.errors import SandboxConflictError, SandboxError, SandboxUnavailableError
from sandbox_kit.host.marks import Fate, fate
from sandbox_kit.leftovers import Leftover, Swept

__all__ = ["sweep_engine"]

_ANSWER_WITHIN = 10.0
_MOST_TOLD = 1 << 20
"""Bytes that the list of a container's users may have: root's commands can write there."""

_LIVES = "a process that uses it lives"
_ELSEWHERE = "its owner is on another machine, or in another process namespace"
_KEPT = "it is kept"
_USED = "it is in use"
_STRANGE = "it was not made by this library"


def sweep_engine(*, container_ttl: float | None, labels: Mapping[str, str], dry_run: bool) -> Swept:
    """Sweep the engine that ``DOCKER_HOST`` names; see :func:`sandbox_kit.sweep.sweep_engine`."""
    return _Sweep(connect(), container_ttl, [f"{name}={value}" for name, value in labels.items()], dry_run).run()


@frozen
class _Sweep:
    """One sweep: of helpers first, then of containers, then of the volumes that those no longer use.

    What looks after one thing returns why that stays, an empty text where it is gone or would be.
    """

    engine: Engine
    container_ttl: float | None
    labels: list[str]
    dry_run: bool

    def run(self) -> Swept:
        looked_at = [*self._helpers(), *self._containers()]
        looked_at += self._volumes({each.id for each in looked_at if not each.reason})
        removed = tuple(each for each in looked_at if not each.reason)
        return Swept(removed, tuple(each for each in looked_at if each.reason not in ("", _LIVES)))

    def _found(self, label: str) -> list[dict[str, Any]]:
        with translated():
            return list(self.engine.api.containers(all=True, filters={"label": [label, *self.labels]}))

    def _helpers(self) -> Iterator[Leftover]:
        for found in self._found(HELPER):
            name, container = listed_name(found), found["Id"]
            if is_helper(name) and fate(found["Labels"][HELPER]) == "dead":
                told = self._look_at(container)
                if told is not None:
                    yield Leftover("helper", name, container, self._end_helper(container, told))

    def _end_helper(self, container: str, told: Mapping[str, Any]) -> str:
        return self._remove_stopped(container) if runs_nothing(told) else _STRANGE

    def _containers(self) -> Iterator[Leftover]:
        for found in self._found(OWNER):
            name, labels, container = listed_name(found), found["Labels"], found["Id"]
            if is_beside(name, labels) and fate(labels[OWNER]) == "dead":
                yield Leftover("helper", name, container, self._end_beside(container))
            elif is_sandbox(name, labels):
                yield Leftover("container", name, container, self._end(container, fate(labels[OWNER])))

    def _end_beside(self, container: str) -> str:
        told = self._look_at(container)
        if told is not None and not _shell(told):
            return _STRANGE
        if not self.dry_run:
            containers.remove(self.engine, container)
        return ""

    def _end(self, container: str, maker: Fate) -> str:
        if maker != "dead":
            return _reason({maker})
        told = self._look_at(container)
        if told is None:
            return ""
        if not _shell(told):
            return _STRANGE
        kept = told["Config"]["Labels"].get(KEPT) != "no"
        if told["State"]["Running"]:
            return _KEPT if kept else self._end_running(container, _shell(told))
        if kept and not self._is_over(told["State"]):
            return _KEPT
        reason = self._remove_stopped(container)
        if kept and not reason and not self.dry_run:
            containers.drop_kept(self.engine, told["Config"]["Labels"][ID])
        return reason

    def _look_at(self, container: str) -> dict[str, Any] | None:
        with translated():
            try:
                return dict(self.engine.api.inspect_container(container))
            except NotFound:
                return None

    def _is_over(self, state: Mapping[str, Any]) -> bool:
        """Whether a kept container has been stopped for too long, by the engine's own clock."""
        if self.container_ttl is None:
            return False
        with translated():
            now = datetime.fromisoformat(self.engine.api.info()["SystemTime"])
        return (now - datetime.fromisoformat(state["FinishedAt"])).total_seconds() > self.container_ttl

    def _remove_stopped(self, container: str) -> str:
        """Remove a container, unless somebody has started it meanwhile, which the engine sees to."""
        if self.dry_run:
            return ""
        try:
            with missing_is_fine():
                self.engine.api.remove_container(container, v=True)
        except SandboxConflictError:
            return _USED
        return ""

    def _end_running(self, container: str, shell: Sequence[str]) -> str:
        """Remove a container that runs, once its users are known to be dead."""
        try:
            reason = self._users(container, [*shell, *leases.listing()])
            return reason if reason or self.dry_run else self._condemn(container, shell)
        except SandboxError as error:
            return f"who uses it cannot be told: {error}"

    def _condemn(self, container: str, shell: Sequence[str]) -> str:
        """Remove it once no other can begin to use it, and none has meanwhile."""
        sweep = uuid4().hex
        reason = self._users(container, [*shell, *leases.listing(sweep)])
        if reason:
            return reason
        if not self._run(container, [*shell, *leases.ending(sweep)]):
            return _LIVES
        containers.remove(self.engine, container)
        return ""

    def _users(self, container: str, argv: list[str]) -> str:
        """Look who has noted that they use a container."""
        return _reason({fate(line) for line in self._run(container, argv).splitlines()})

    def _run(self, container: str, argv: list[str]) -> str:
        """What a short program of root's prints in a container.

        Raises:
            SandboxUnavailableError: it failed, or printed too much.
            SandboxTimeoutError: it took too long.
        """
        printed = bytearray()

        def take(_stream: str, data: bytes) -> None:
            printed.extend(data)
            if len(printed) > _MOST_TOLD:
                raise SandboxUnavailableError("too much was noted in it")

        program = Exec(self.engine, container, argv, user="0:0", env={}, work_dir="/", stdin=None, take=take)
        try:
            code = program.finish(time.monotonic() + _ANSWER_WITHIN)
        finally:
            program.close()
        if code:
            raise SandboxUnavailableError(f"a look into it ended with exit code {code}")
        return printed.decode(errors="replace")

    def _volumes(self, gone: set[str]) -> Iterator[Leftover]:
        """Remove the temporary volumes of dead processes that no container uses, but those that are *gone*."""
        used = self._used(gone)
        with translated():
            found = self.engine.api.volumes(filters={"label": [f"{TEMPORARY}=yes", *self.labels]})["Volumes"] or ()
        for volume in found:
            name, labels = volume["Name"], volume["Labels"]
            if is_sandbox(name, labels) and name not in used:
                reason = _reason({fate(labels.get(OWNER, ""))})
                yield Leftover("volume", name, name, reason or self._remove_volume(name))

    def _used(self, gone: set[str]) -> set[str]:
        with translated():
            others = [each for each in self.engine.api.containers(all=True) if each["Id"] not in gone]
        return {mount["Name"] for each in others for mount in each["Mounts"] if "Name" in mount}

    def _remove_volume(self, name: str) -> str:
        if self.dry_run:
            return ""
        try:
            with missing_is_fine():
                self.engine.api.remove_volume(name)
        except SandboxConflictError:
            return _USED
        return ""


def _reason(fates: set[Fate]) -> str:
    """Why something with owners of these *fates* stays."""
    if "alive" in fates:
        return _LIVES
    return _ELSEWHERE if "unknown" in fates else ""


def _shell(told: Mapping[str, Any]) -> Sequence[str]:
    """What starts the shell that this library put into a container; empty where another program runs there."""
    entrypoint: Sequence[str] = told["Config"]["Entrypoint"] or ()
    return entrypoint if entrypoint and entrypoint[0].startswith(f"{PLACE}/") else ()
