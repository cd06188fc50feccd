"""Whose a container or a volume is, as its labels tell: what a sweep goes by."""

from __future__ import annotations

from sandbox_kit.backends.docker.terms import Terms
from sandbox_kit.host.marks import own_mark

__all__ = ["HELPER", "ID", "KEPT", "OWNER", "TEMPORARY", "container_labels", "helper_labels", "volume_labels"]

ID = "sandbox-kit.id"
"""The sandbox's id."""

OWNER = "sandbox-kit.owner"
"""The mark of the process that made it. Others that use a container note theirs in it: see ``leases``."""

HELPER = "sandbox-kit.helper"
"""The mark of the process that made a container to serve one call; empty on what was made of such a one."""

LEASE = "sandbox-kit.lease"
"""Seconds, or ``none``."""

KEPT = "sandbox-kit.kept"
"""Set on a container that outlives its process."""

TEMPORARY = "sandbox-kit.temporary"
"""Set on a volume that does not."""


def helper_labels() -> dict[str, str]:
    """Those of a container that serves one call, and ends with it."""
    return {HELPER: own_mark()}


def container_labels(sandbox_id: str, terms: Terms) -> dict[str, str]:
    """Those of a sandbox's container, the caller's among them."""
    lease = "none" if terms.lease is None else f"{terms.lease:g}"
    kept = {KEPT: "yes"} if terms.persist else {}
    return {**terms.labels, **kept, ID: sandbox_id, OWNER: own_mark(), LEASE: lease}


def volume_labels(sandbox_id: str, terms: Terms) -> dict[str, str]:
    """Those of a sandbox's own volume, the caller's among them."""
    temporary = {TEMPORARY: "yes"} if terms.workspace.temporary else {}
    return {**terms.labels, **temporary, ID: sandbox_id, OWNER: own_mark()}
