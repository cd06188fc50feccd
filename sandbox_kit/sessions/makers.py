"""How the sandbox of a session is made: by the name of a backend, or by a factory of the caller's."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from attrs import field, frozen

from sandbox_kit.arguments import CommandMode
from sandbox_kit.backends.local.sandbox import LocalSandbox
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import InvalidArgumentError, UnsupportedError
from sandbox_kit.guard import GuardedBackend, guarding
from sandbox_kit.judge import Ask
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.values import PolicyValues, RuntimeProfile
from sandbox_kit.types import Limits

__all__ = ["Factory", "Kind", "LocalFactory", "Maker", "Plan", "as_kind"]


@frozen
class Plan:
    """What one sandbox is to be made of.

    Attributes:
        session_id: a checked id.
        profile: of the session's runtime.
        limits: of the profile, completed by the policy's.
        workspace: a directory of the host for its files, which is there.
        values: the whole policy.
    """

    session_id: str
    profile: RuntimeProfile
    limits: Limits
    workspace: Path
    values: PolicyValues


def _lacks_nothing(_: PolicyValues) -> Iterator[str]:
    return iter(())


@frozen
class Kind:
    """What the manager knows of a backend.

    Attributes:
        name: by which the ledger knows whose sessions are whose.
        make: makes a sandbox that is not started.
        lacks: yields the names of the fields of a policy that are set and that it cannot hold.
        outlives: whether what runs a sandbox may outlive its process, so that another one can end it.
    """

    name: str
    make: Callable[[Plan], Sandbox]
    lacks: Callable[[PolicyValues], Iterator[str]] = _lacks_nothing
    outlives: bool = True

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
        one stops it, the others drop their sandboxes; a local sandbox is stopped by each, as it ends with
        its process. How long it may take, and how long ``start()`` of what it returns, is its own to bound.

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


def _local(factory: LocalFactory) -> Kind:
    return Kind("local", _by(factory), lacks=_local_lacks, outlives=False)


_KINDS = {kind.name: kind for kind in (_local(LocalFactory()),)}
"""Those that have a name."""


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
    return Kind(_name_of(backend), _by(backend))


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


@frozen
class Maker:
    """Makes guarded sandboxes by the policy of the moment.

    Attributes:
        policy: where profiles and limits come from.
        kind: what makes the bare ones.
        ruleset, ask, commands: as for :func:`~sandbox_kit.guard.guarding`.
    """

    policy: SandboxPolicy
    kind: Kind
    ruleset: PermissionRuleset | None = None
    ask: Ask | None = None
    commands: CommandMode = "auto"
    _session_of: WeakKeyDictionary[Backend, str] = field(factory=WeakKeyDictionary, init=False, eq=False)

    def make(self, session_id: str, runtime: str | None, workspace: Path) -> tuple[Sandbox, bool]:
        """Make a sandbox that is not started.

        Returns:
            The sandbox, under the rules, and whether those that other processes make of the session are the
            same thing.

        Raises:
            InvalidArgumentError: the policy has no such runtime any more, or the factory made no sandbox, or one
                that it made of another session.
            UnsupportedError: the policy asks for what cannot be had.
        """
        values = self.policy.snapshot()
        self.kind.check(values)
        made = self.kind.make(_plan(values, session_id, runtime, workspace))
        if not isinstance(made, Sandbox):
            raise InvalidArgumentError(f"backend: the factory made a {type(made).__name__}, no Sandbox")
        bare = _unguarded(made)
        if (other := self._session_of.setdefault(bare, session_id)) != session_id:
            raise InvalidArgumentError(f"backend: the factory made the sandbox of session {other} again")
        guarded = guarding(made, self.ruleset, ask=self.ask, commands=self.commands)
        return guarded, not isinstance(bare, LocalSandbox)

    def end(self, session_id: str, runtime: str | None, workspace: Path, *, purge: bool = False) -> None:
        """End what still runs the sandbox of a session whose owner is dead; nothing, where that ended with it.

        Raises:
            SandboxError: it may still be there.
        """
        if self.kind.outlives:
            values = self.policy.snapshot()
            known = runtime if runtime in values.runtimes else None
            self.kind.make(_plan(values, session_id, known, workspace)).stop(purge=purge)


def _plan(values: PolicyValues, session_id: str, runtime: str | None, workspace: Path) -> Plan:
    return Plan(session_id, values.profile_for(runtime), values.limits_for(runtime), workspace, values)


def _unguarded(backend: Backend) -> Backend:
    while isinstance(backend, GuardedBackend):
        backend = backend._inner
    return backend
