"""Sweep a workspace root: what processes that died have left, and what was kept for long enough."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import evolve

from sandbox_kit.arguments import check_timeout
from sandbox_kit.sessions.layout import check_opened
from sandbox_kit.sessions.makers import Factory
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.reaper import Reaped

__all__ = ["sweep"]


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
