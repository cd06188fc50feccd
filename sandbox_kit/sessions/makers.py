"""What makes the sandboxes of sessions: a backend by its name, or a factory of the caller's."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from sandbox_kit.backends.local.sandbox import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError, UnsupportedError
from sandbox_kit.sessions import containers
from sandbox_kit.sessions.values import PolicyValues, RuntimeProfile
from sandbox_kit.types import Limits

__all__ = ["MORTAL", "Factory", "Kind", "LocalFactory", "Plan", "as_kind", "is_named"]


@frozen
class Plan:
    """What one sandbox is to be made of.

    Attributes:
        session_id: a checked id.
        profile: of the session's runtime.
        limits: of the profile, completed by the policy's.
        workspace: a directory of the host for its files, which is there.
        values: the whole policy.
        joins: whether other processes use the session now, whose sandbox this one is to share.
    """

    session_id: str
    profile: RuntimeProfile
    limits: Limits
    workspace: Path
    values: PolicyValues
    joins: bool = False


def _lacks_nothing(_: PolicyValues) -> Iterator[str]:
    return iter(())


def _keeps_nothing(_: Path) -> frozenset[str]:
    return frozenset()


@frozen
class Kind:
    """What the manager knows of a backend.

    Attributes:
        name: by which the ledger knows whose sessions are whose.
        make: makes a sandbox that is not started.
        end: ends what a process that died left of one, with its container if that is to be purged.
        lacks: yields the names of the fields of a policy that are set and that it cannot hold.
        kept: tells of which sessions beneath a root stopped sandboxes are kept.
        outlives: whether what runs a sandbox may outlive its process, so that another one can end it.
        is_remote: whether its starts wait for something else than this machine's kernel, and are given a limit.
        writes_as_others: whether commands run as users that are not this process's own.
    """

    name: str
    make: Callable[[Plan], Sandbox]
    end: Callable[[Plan, bool], None]
    lacks: Callable[[PolicyValues], Iterator[str]] = _lacks_nothing
    kept: Callable[[Path], Collection[str]] = _keeps_nothing
    outlives: bool = True
    is_remote: bool = True
    writes_as_others: bool = False

    def check(self, values: PolicyValues) -> None:
        """Check that it can hold a policy.

        Raises:
            UnsupportedError: it cannot; names every field that is in the way.
        """
        if names := tuple(self.lacks(values)):
            raise UnsupportedError(f"backend {self.name!r} cannot hold {', '.join(names)}: leave it out of the policy")


class Factory(Protocol):
    """Makes the sandbox of one session; the manager starts it, and no one else has it.

    It holds what it makes of the policy's fields; the manager holds those on sessions and times.
    """

    def __call__(self, session_id: str, profile: RuntimeProfile, limits: Limits, workspace: Path) -> Sandbox:
        """Return a sandbox that is not started.

        Whatever runs it has a name derived from *session_id*, so that ``stop()`` on another sandbox made
        with the same arguments, by any process, ends it. Of several processes that hold a session the last
        one stops it, the others drop their sandboxes, which must not end it; a local sandbox is stopped by
        each, as it ends with its process. It may be called, and what it returns be started, in any thread.

        Args:
            session_id: a checked id.
            profile: of the session's runtime.
            limits: of the profile, completed by the policy's.
            workspace: a directory of the host for its files, which is there.
        """


@frozen
class LocalFactory:
    """Makes local sandboxes, which end with the process that made them.

    Attributes:
        kind: the class.
    """

    kind: type[LocalSandbox] = LocalSandbox

    def __call__(self, session_id: str, profile: RuntimeProfile, limits: Limits, workspace: Path) -> Sandbox:
        """Return a sandbox over *workspace*."""
        return self.kind(workspace, limits=limits, network=None if profile.network_mode is None else False)


def _local_lacks(values: PolicyValues) -> Iterator[str]:
    """Yield the fields that only a container has."""
    default = PolicyValues()
    common = {
        "work_dir": (values.work_dir, default.work_dir),
        "prewarm": (values.prewarm, default.prewarm),
        "persist_containers": (values.persist_containers, default.persist_containers),
        "container_ttl": (values.container_ttl, default.container_ttl),
    }
    yield from (name for name, (value, unset) in common.items() if value != unset)
    for alias, profile in values.runtimes.items():
        own = {"image": profile.image, "oci_runtime": profile.oci_runtime, "sandbox_uid": profile.sandbox_uid}
        yield from (f"runtimes.{alias}.{name}" for name, value in own.items() if value is not None)
        if profile.network_mode not in (None, "none"):
            yield f"runtimes.{alias}.network_mode"


def _by(factory: Factory) -> Callable[[Plan], Sandbox]:
    """What makes a sandbox by *factory*."""
    return lambda plan: factory(
        session_id=plan.session_id, profile=plan.profile, limits=plan.limits, workspace=plan.workspace
    )


def _ended_by(factory: Factory) -> Callable[[Plan, bool], None]:
    """What ends what a sandbox made by *factory* has left."""
    return lambda plan, purge: _by(factory)(plan).stop(purge=purge)


def _nothing_left(_plan: Plan, _purge: bool) -> None:
    """End a sandbox that ended with its process."""


def _local(factory: LocalFactory) -> Kind:
    return Kind("local", _by(factory), _nothing_left, lacks=_local_lacks, outlives=False, is_remote=False)


_DOCKER = Kind(
    "docker",
    containers.make,
    containers.end,
    lacks=containers.lacks,
    kept=containers.kept,
    writes_as_others=True,
)
_KINDS = {kind.name: kind for kind in (_local(LocalFactory()), _DOCKER)}
"""Those that have a name."""

MORTAL = tuple(name for name, kind in _KINDS.items() if not kind.outlives)
"""Backends whose sandboxes end with the process that made them."""


def is_named(backend: str) -> bool:
    """Whether *backend* is one that any process knows by its name."""
    return backend in _KINDS


def as_kind(backend: str | Factory) -> Kind:
    """Return what is to be known of *backend*: the name of one, or a factory.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if isinstance(backend, LocalFactory):
        return _local(backend)
    if isinstance(backend, str) and backend in _KINDS:
        return _KINDS[backend]
    if isinstance(backend, str) or not callable(backend):
        names = ", ".join(map(repr, sorted(_KINDS)))
        raise InvalidArgumentError(f"backend: {backend!r} is neither {names} nor a factory of sandboxes")
    return Kind(_name_of(backend), _by(backend), _ended_by(backend))


def _name_of(factory: object) -> str:
    """Return ``"module:qualname"`` of a function or class, or else of the class of an object."""
    while isinstance(factory, partial):
        factory = factory.func
    named: Any = factory if inspect.isroutine(factory) or isinstance(factory, type) else type(factory)
    return f"{_module_of(named.__module__)}:{named.__qualname__}"


def _module_of(name: str) -> str:
    """Return a module's name, the same one in a program that is run and in its pool's processes."""
    if name not in ("__main__", "__mp_main__"):
        return name
    module = sys.modules.get(name)
    return "__main__" if module is None or module.__spec__ is None else module.__spec__.name
