"""Containers of sessions: one for each session of a root, which all processes that use the session share."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, evolve

from sandbox_kit.backends.docker import container as containers
from sandbox_kit.backends.docker.dialing import DEFAULT_HOST
from sandbox_kit.backends.docker.engine import Engine, connect, translated
from sandbox_kit.backends.docker.ownership import ID, KEPT, LIMITS, ROOT, SESSION
from sandbox_kit.backends.docker.sandbox import DockerSandbox
from sandbox_kit.errors import SandboxConflictError, UnsupportedError
from sandbox_kit.primitives import MaskSource, allow
from sandbox_kit.runtime import Runtime
from sandbox_kit.types import Limits

__all__ = ["SessionContainer", "kept_beneath"]

_DIGITS = 16
_LONGEST = 64 - _DIGITS - 1
_STOPPED = ("created", "exited", "dead")


class SessionContainer(DockerSandbox):
    """The container of one session, with its directory of this machine as the workspace.

    The ledger of the sessions says who ends it: dropping the handle, or the end of the process, leaves it alone. When
    no process is left that renews its lease, it ends by itself.

    It is mounted by its name: an engine that is reached over a network must show that it has the same one.

    Args:
        session_id: checked before.
        workspace: ``<root>/<session_id>/workspace``, a real name.
        limits: for a new container. One that runs is joined with its own.
        joins: whether others use the container now. If they do not, one that was made otherwise is made anew.
        image, user, network, oci_runtime, work_dir, persist: as for :class:`DockerSandbox`.
    """

    _ends_when_dropped = False

    def __init__(
        self,
        image: str | Runtime,
        *,
        session_id: str,
        workspace: Path,
        limits: Limits,
        joins: bool,
        user: str | int | None,
        network: str,
        oci_runtime: str | None,
        work_dir: str | None,
        persist: bool,
    ) -> None:
        root = _digest(workspace.parent.parent)
        super().__init__(
            image,
            sandbox_id=f"{session_id[:_LONGEST]}-{_digest(workspace)}",
            workspace=workspace,
            limits=limits,
            user=user,
            network=network,
            oci_runtime=oci_runtime,
            work_dir=work_dir,
            persist=persist,
        )
        labels = {ROOT: root, SESSION: session_id, LIMITS: json.dumps(asdict(limits), sort_keys=True)}
        self._terms = evolve(self._terms, labels=labels)
        self._joins = joins

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        if self._running is None:
            self._adapt(connect(), masks)
        super()._start(masks)
        if not os.environ.get("DOCKER_HOST", DEFAULT_HOST).startswith("unix:"):
            self._check_place()

    def _check_place(self) -> None:
        """Check that an engine that is reached over a network has the workspace that this process has.

        Raises:
            UnsupportedError: it has another directory of that name; the container is stopped.
        """
        (found,) = self._resolve((".",), operations=("ls",), authorize=allow)
        here = os.stat(self._terms.workspace.source)
        if (found.device, found.inode) != (here.st_dev, here.st_ino):
            self.stop()
            raise UnsupportedError(
                f"the engine has another directory than this machine as {self._terms.workspace.source}: "
                "the workspaces of sessions are mounted, so it must run where the sessions are opened"
            )

    def _adapt(self, engine: Engine, masks: tuple[MaskSource, ...]) -> None:
        """Have one that others use run as it is, and remove one that was made otherwise and nobody uses."""
        terms = self._terms_under(masks)
        for found in _listed(engine, f"{ID}={self.id}"):
            labels = found["Labels"]
            if f"/{self.name}" not in found["Names"] or labels.get(containers.CONFIG) == terms.digest():
                continue
            if self._joins and found["State"] == "running":
                self._take_limits(labels.get(LIMITS, ""))
            else:
                containers.remove(engine, found["Id"])

    def _take_limits(self, told: str) -> None:
        """Have the limits that another process *told* of the container; of one that tells none, those that are wanted.

        Raises:
            SandboxConflictError: they cannot be read, so the library did not say them.
        """
        if not told:
            return
        try:
            limits = Limits(**json.loads(told))
        except (TypeError, ValueError) as error:
            raise SandboxConflictError(f"the container {self.name!r} was not made by this library") from error
        self._terms = evolve(self._terms, limits=limits, labels={**self._terms.labels, LIMITS: told})


def kept_beneath(root: Path) -> frozenset[str]:
    """Return the sessions beneath *root*, a real name, whose containers are kept stopped."""
    found = _listed(connect(), f"{ROOT}={_digest(root)}", f"{KEPT}=yes", SESSION)
    return frozenset(each["Labels"][SESSION] for each in found if each["State"] in _STOPPED)


def _listed(engine: Engine, *labels: str) -> list[Mapping[str, Any]]:
    with translated():
        return list(engine.api.containers(all=True, filters={"label": list(labels)}))


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:_DIGITS]
