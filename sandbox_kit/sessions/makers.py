"""How the sandbox of a session is made: by the name of a backend, or by a factory of the caller's."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol
from weakref import WeakKeyDictionary

from attrs import field, frozen

from sandbox_kit.backends.local.sandbox import LocalSandbox
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError, UnsupportedError
from sandbox_kit.guard import CommandMode, guarding
from sandbox_kit.judge import Ask
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.values import RuntimeProfile
from sandbox_kit.types import Limits

__all__ = ["Factory", "LocalFactory", "Maker", "as_factory"]


class Factory(Protocol):
    """Makes the sandbox of one session; the manager starts it, and no one else has it."""

    def __call__(self, session_id: str, profile: RuntimeProfile, limits: Limits, workspace: Path) -> Sandbox:
        """Return a sandbox that is not started.

        Whatever runs it has a name derived from *session_id*, so that ``stop()`` on another sandbox made
        with the same arguments, by any process, ends it. Of several processes that hold a session the last
        one stops it, the others drop their sandboxes; a local sandbox is stopped by each, as it ends with
        its process.

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
        """Return a sandbox over *workspace*.

        Raises:
            UnsupportedError: the profile asks for what only a container has.
        """
        given = {"image": profile.image, "oci_runtime": profile.oci_runtime, "sandbox_uid": profile.sandbox_uid}
        for name, value in given.items():
            if value is not None:
                raise UnsupportedError(f"{name} {value!r}: a local sandbox has none; take a runtime without it")
        if profile.network_mode not in (None, "none"):
            raise UnsupportedError(f"network_mode {profile.network_mode!r}: a local sandbox has only 'none'")
        return self.kind(workspace, limits=limits, network=None if profile.network_mode is None else False)


def as_factory(backend: str | Factory) -> Factory:
    """Return the factory for *backend*: ``"local"``, or a factory itself.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if isinstance(backend, str) and backend in _FACTORIES:
        return _FACTORIES[backend]
    if isinstance(backend, str) or not callable(backend):
        names = ", ".join(map(repr, sorted(_FACTORIES)))
        raise InvalidArgumentError(f"backend: {backend!r} is neither {names} nor a factory of sandboxes")
    return backend


_FACTORIES: dict[str, Factory] = {"local": LocalFactory()}


@frozen
class Maker:
    """Makes guarded sandboxes by the policy of the moment.

    Attributes:
        policy: where profiles and limits come from.
        factory: what makes the bare ones.
        ruleset, ask, commands: as for :func:`~sandbox_kit.guard.guarding`.
    """

    policy: SandboxPolicy
    factory: Factory
    ruleset: PermissionRuleset | None = None
    ask: Ask | None = None
    commands: CommandMode = "auto"
    _session_of: WeakKeyDictionary[Sandbox, str] = field(factory=WeakKeyDictionary, init=False, eq=False)

    def make(self, session_id: str, runtime: str | None, workspace: Path) -> tuple[Sandbox, bool]:
        """Make a sandbox that is not started.

        Returns:
            The sandbox, under the rules, and whether those that other processes make of the session are the
            same thing.

        Raises:
            InvalidArgumentError: the policy has no such runtime any more, or the factory made no sandbox, or one
                that it made of another session.
            UnsupportedError: the profile asks for what cannot be had.
        """
        values = self.policy.snapshot()
        profile, limits = values.profile_for(runtime), values.limits_for(runtime)
        bare = self.factory(session_id=session_id, profile=profile, limits=limits, workspace=workspace)
        if not isinstance(bare, Sandbox):
            raise InvalidArgumentError(f"backend: the factory made a {type(bare).__name__}, no Sandbox")
        if (other := self._session_of.setdefault(bare, session_id)) != session_id:
            raise InvalidArgumentError(f"backend: the factory made the sandbox of session {other} again")
        guarded = guarding(bare, self.ruleset, ask=self.ask, commands=self.commands)
        return guarded, not isinstance(bare, LocalSandbox)

    def end(self, session_id: str, runtime: str | None, workspace: Path, *, purge: bool = False) -> None:
        """End what still runs the sandbox of a session whose owner is dead; nothing, where that ended with it.

        Raises:
            SandboxError: it may still be there.
        """
        if isinstance(self.factory, LocalFactory):
            return
        values = self.policy.snapshot()
        known = runtime if runtime is None or runtime in values.runtimes else None
        profile, limits = values.profile_for(known), values.limits_for(known)
        self.factory(session_id=session_id, profile=profile, limits=limits, workspace=workspace).stop(purge=purge)
