"""Sessions in containers: what of a policy a container is made with. Nothing is imported before it is needed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.registry import backend_class
from sandbox_kit.runtime import Runtime
from sandbox_kit.sessions.values import PolicyValues

if TYPE_CHECKING:
    from sandbox_kit.backends.docker.sessions import SessionContainer
    from sandbox_kit.sessions.makers import Plan

__all__ = ["end", "kept", "lacks", "make"]

_ANY_IMAGE = "none"
"""Stands for the image of a container that is only to be ended."""


def make(plan: Plan) -> Sandbox:
    """Return the container of a session, not started.

    Raises:
        InvalidArgumentError: the session's runtime names no image.
        MissingDependencyError: the ``docker`` extra is not installed.
    """
    if plan.profile.image is None:
        raise InvalidArgumentError(
            f"session {plan.session_id}: a container needs an image: give the policy a runtime that has one, "
            "and a default_runtime"
        )
    return _container(plan, plan.profile.image)


def end(plan: Plan, purge: bool) -> None:
    """End the container that a dead process left; with *purge*, or unless stopped ones are kept, remove it."""
    _container(plan, plan.profile.image or _ANY_IMAGE).stop(purge=purge)


def kept(root: Path) -> Collection[str]:
    """Return the sessions beneath *root* whose containers are kept stopped."""
    backend_class("docker")
    from sandbox_kit.backends.docker.sessions import kept_beneath

    return kept_beneath(root)


def lacks(values: PolicyValues) -> Iterator[str]:
    """Yield the fields that a container of a session cannot hold."""
    if values.prewarm:
        yield "prewarm"


def _container(plan: Plan, image: str | Runtime) -> SessionContainer:
    backend_class("docker")
    from sandbox_kit.backends.docker.sessions import SessionContainer

    profile = plan.profile
    return SessionContainer(
        image,
        session_id=plan.session_id,
        workspace=plan.workspace,
        limits=plan.limits,
        joins=plan.joins,
        user=_own_user() if profile.sandbox_uid is None else profile.sandbox_uid,
        network=profile.network_mode or "none",
        oci_runtime=profile.oci_runtime,
        work_dir=plan.values.work_dir,
        persist=plan.values.persist_containers,
    )


def _own_user() -> str | None:
    """Whom commands run as where the profile does not say: as this process, whose files it can then remove.

    Root can remove anybody's: None leaves it to the image.
    """
    return None if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}"
