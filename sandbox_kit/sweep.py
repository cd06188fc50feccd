"""Sweeps: what processes that died have left, and what was kept for long enough, is cleared away."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from sandbox_kit.arguments import check_timeout
from sandbox_kit.leftovers import Leftover, Swept
from sandbox_kit.registry import backend_class
from sandbox_kit.sessions.layout import check_opened
from sandbox_kit.sessions.makers import Factory
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.reaper import Reaped

__all__ = ["Leftover", "Swept", "sweep", "sweep_engine"]


def sweep(
    workspace_root: str | os.PathLike[str],
    *,
    workspace_ttl: float | None = None,
    policy: SandboxPolicy | None = None,
    backend: str | Factory = "local",
) -> Reaped:
    """Look once after the sessions beneath a root, for any process that may do so.

    The slots of dead owners come back, purges that were cut short are completed, and hibernated sessions that
    were not used for too long are purged, also workspaces that the ledger does not know and in which nothing
    changed for that long. What a living process holds, and what is of another backend, is left alone; so is
    every unknown workspace while a process lives that the ledger does not know.

    Args:
        workspace_root: the root; it is not made.
        workspace_ttl: how long the files of a session that is not open are kept, in seconds; None takes the policy's.
        policy: what the sessions were opened under; None for one that sets nothing.
        backend: as for :class:`~sandbox_kit.sessions.manager.SessionManager`.

    Returns:
        What was purged and recovered, and which workspaces the ledger does not know, by id.

    Raises:
        PathNotFoundError: no sessions were ever opened beneath it.
        UnsupportedError: the backend cannot hold fields of the policy.
        SandboxUnavailableError: its ledger is damaged, or cannot be used.
    """
    root = Path(workspace_root)
    check_opened(root)
    values = (policy or SandboxPolicy()).snapshot()
    if workspace_ttl is not None:
        values = evolve(values, workspace_ttl=check_timeout(workspace_ttl, "workspace_ttl"))
    with SessionManager(SandboxPolicy(values), workspace_root=root, backend=backend, reap_every=None) as manager:
        return manager.reap(unknown=True)


def sweep_engine(
    *, container_ttl: float | None = None, labels: Mapping[str, str] | None = None, dry_run: bool = False
) -> Swept:
    """Remove what dead processes of this machine left on the Docker engine that ``DOCKER_HOST`` names.

    That is: containers all of whose users were processes of this machine and are dead; the volumes of sandboxes that
    were given neither an id nor a workspace; and containers that served a call which was killed. Left alone
    are kept containers (``persist=True``), volumes and directories that outlive their sandbox, what
    anything uses, images, and whatever a process on another machine may use.

    Args:
        container_ttl: seconds since its stop after which a kept container goes too; its volume stays. None for never.
        labels: look only at sandboxes that were given these.
        dry_run: remove nothing, and tell what would be.

    Returns:
        What was removed, and what was left alone and why.

    Raises:
        MissingDependencyError: the ``docker`` extra is not installed.
        SandboxUnavailableError: the engine cannot be reached.
        SandboxTimeoutError: it does not answer.
    """
    check_timeout(container_ttl, "container_ttl")
    backend_class("docker")
    from sandbox_kit.backends.docker.sweeping import sweep_engine as sweep_now

    return sweep_now(container_ttl=container_ttl, labels=labels or {}, dry_run=dry_run)
