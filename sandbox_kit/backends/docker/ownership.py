"""Whose a container or a volume is, as its name and its labels tell: what a sweep goes by.

A container has the labels of its image too: each that means anything is said of every container,
so that an image's own count for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from sandbox_kit.backends.docker.terms import NAME, Terms
from sandbox_kit.host.marks import own_mark

__all__ = [
    "BESIDE",
    "HELPER",
    "ID",
    "KEPT",
    "LIMITS",
    "OWNER",
    "ROOT",
    "SESSION",
    "TEMPORARY",
    "beside_name",
    "container_labels",
    "is_beside",
    "is_helper",
    "is_sandbox",
    "listed_name",
    "runs_nothing",
    "serving_one_call",
    "volume_labels",
]

ID = "sandbox-kit.id"
"""The sandbox's id."""

OWNER = "sandbox-kit.owner"
"""The mark of the process that made it. Others that use a container note theirs in it: see ``leases``."""

HELPER = "sandbox-kit.helper"
"""The mark of the process that made a container to serve one call; else empty."""

LEASE = "sandbox-kit.lease"
"""Seconds, or ``none``."""

KEPT = "sandbox-kit.kept"
"""``yes`` on a container that outlives its process."""

TEMPORARY = "sandbox-kit.temporary"
"""``yes`` on a volume that does not."""

BESIDE = "sandbox-kit.beside"
"""``yes`` on a container that only serves file calls of another."""

ROOT = "sandbox-kit.root"
"""Which root a session is of: containers of several may be on one engine."""

SESSION = "sandbox-kit.session"
LIMITS = "sandbox-kit.limits"
"""The limits that a session's container was made with, for those who join."""

_UNSAID = {
    **dict.fromkeys((ID, OWNER, HELPER, LEASE, ROOT, SESSION, LIMITS), ""),
    **dict.fromkeys((KEPT, BESIDE), "no"),
}
_NOTHING = ["-"]
"""What a container runs that is never started."""

_HELPER_NAME = re.compile("sandbox-kit_[0-9a-f]{12}")
"""Unlike any sandbox's."""


def serving_one_call(labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """How a container is made that serves one call and ends with it: it is never started.

    Args:
        labels: more of the library's own.
    """
    return {
        "name": f"sandbox-kit_{_digits()}",
        "entrypoint": _NOTHING,
        "command": _NOTHING,
        "labels": {**_UNSAID, HELPER: own_mark(), **(labels or {})},
    }


def container_labels(sandbox_id: str, terms: Terms) -> dict[str, str]:
    """Those of a sandbox's container, the caller's among them."""
    lease = "none" if terms.lease is None else f"{terms.lease:g}"
    own = {KEPT: _flag(terms.persist), ID: sandbox_id, OWNER: own_mark(), LEASE: lease}
    return {**_UNSAID, **terms.labels, **own}


def volume_labels(sandbox_id: str, terms: Terms) -> dict[str, str]:
    """Those of a sandbox's own volume, the caller's among them."""
    return {**terms.labels, TEMPORARY: _flag(terms.workspace.temporary), ID: sandbox_id, OWNER: own_mark()}


def beside_name(sandbox_id: str) -> str:
    """A new name of a container that serves file calls of a sandbox."""
    return f"sandbox-kit.{sandbox_id}.{_digits()}"


def listed_name(found: Mapping[str, Any]) -> str:
    """The name of a container that was *found* in the engine's list; empty where it has none."""
    return next((str(name[1:]) for name in found["Names"] or () if "/" not in name[1:]), "")


def is_sandbox(name: str, labels: Mapping[str, str]) -> bool:
    """Whether a container or a volume is named, and labelled, as a sandbox's is."""
    sandbox_id = labels.get(ID, "")
    return bool(NAME.fullmatch(sandbox_id)) and name == f"sandbox-kit-{sandbox_id}"


def is_beside(name: str, labels: Mapping[str, str]) -> bool:
    """Whether a container is named, and labelled, as one that serves file calls of a sandbox."""
    sandbox_id = labels.get(ID, "")
    named = re.fullmatch(rf"sandbox-kit\.{re.escape(sandbox_id)}\.[0-9a-f]{{12}}", name)
    return labels.get(BESIDE) == "yes" and bool(NAME.fullmatch(sandbox_id) and named)


def is_helper(name: str) -> bool:
    """Whether a container is named as one that serves one call."""
    return bool(_HELPER_NAME.fullmatch(name))


def runs_nothing(told: Mapping[str, Any]) -> bool:
    """Whether a container, as the engine describes it, was never started and would run nothing."""
    config = told["Config"]
    return (told["State"]["Status"], config["Entrypoint"], config["Cmd"]) == ("created", _NOTHING, _NOTHING)


def _flag(holds: bool) -> str:
    return "yes" if holds else "no"


def _digits() -> str:
    return uuid4().hex[:12]
