"""Sweep a workspace root: what processes that died have left, and what was kept for long enough."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import evolve

from sandbox_kit.arguments import check_timeout
from sandbox_kit.errors import PathNotFoundError
from sandbox_kit.sessions.desk import Reaped
from sandbox_kit.sessions.layout import OWN
from sandbox_kit.sessions.makers import Factory
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy

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
    were not used for too long are purged. What a living process holds is left alone.

    Args:
        workspace_root: the root; it is not made.
        workspace_ttl: how long the files of a session that is not open are kept, in seconds; None takes the policy's.
        policy: what the sessions were opened under; None for one that sets nothing.
        backend: as for :class:`~sandbox_kit.sessions.manager.SessionManager`.

    Returns:
        What was purged and recovered, by id.

    Raises:
        PathNotFoundError: no sessions were ever opened beneath it.
        SandboxUnavailableError: its ledger is damaged, or cannot be used.
    """
    root = Path(workspace_root)
    if not (root / OWN).is_dir():
        raise PathNotFoundError(os.fspath(root), "no sessions were ever opened beneath it")
    values = (policy or SandboxPolicy()).snapshot()
    if workspace_ttl is not None:
        values = evolve(values, workspace_ttl=check_timeout(workspace_ttl, "workspace_ttl"))
    with SessionManager(SandboxPolicy(values), workspace_root=root, backend=backend, reap_every=None) as manager:
        return manager.reap()
