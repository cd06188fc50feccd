"""Maker: makes the sandbox of a session, under the rules, by the policy of the moment."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from weakref import WeakKeyDictionary

from attrs import field, frozen

from sandbox_kit.arguments import CommandMode
from sandbox_kit.backends.local.sandbox import LocalSandbox
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.guard import GuardedBackend, guarding
from sandbox_kit.judge import Ask
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.makers import Kind, Plan
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.values import PolicyValues

__all__ = ["Made", "Maker"]


@frozen(eq=False)
class Made:
    """A sandbox of a session.

    Attributes:
        sandbox: under the rules.
        shared: whether those that other processes make of the session are the same thing.
    """

    sandbox: Sandbox
    shared: bool


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

    def make(self, session_id: str, runtime: str | None, workspace: Path, *, joins: bool) -> Made:
        """Make a sandbox that is not started.

        Args:
            joins: whether other processes use the session now.

        Raises:
            InvalidArgumentError: the policy has no such runtime any more, or the factory made no sandbox, or one
                that it made of another session.
            UnsupportedError: the policy asks for what cannot be had.
        """
        values = self.policy.snapshot()
        self.kind.check(values)
        made = self.kind.make(_plan(values, session_id, runtime, workspace, joins=joins))
        if not isinstance(made, Sandbox):
            raise InvalidArgumentError(f"backend: the factory made a {type(made).__name__}, no Sandbox")
        bare = _unguarded(made)
        if (other := self._session_of.setdefault(bare, session_id)) != session_id:
            raise InvalidArgumentError(f"backend: the factory made the sandbox of session {other} again")
        guarded = guarding(made, self.ruleset, ask=self.ask, commands=self.commands)
        return Made(guarded, shared=not isinstance(bare, LocalSandbox))

    def end(
        self, session_id: str, runtime: str | None, workspace: Path, *, purge: bool = False, backend: str | None = None
    ) -> None:
        """End what still runs the sandbox of a session whose owner is dead; nothing, where that ended with it.

        Args:
            purge: end what is kept of it, too.
            backend: the session's own, whose sandboxes end with their process if it is not this one; None is this one.

        Raises:
            SandboxError: it may still be there.
        """
        if backend in (None, self.kind.name):
            values = self.policy.snapshot()
            known = runtime if runtime in values.runtimes else None
            self.kind.end(_plan(values, session_id, known, workspace), purge)

    def kept(self, root: Path) -> Collection[str]:
        """Return the sessions beneath *root* of which stopped sandboxes are kept."""
        return self.kind.kept(root)


def _plan(values: PolicyValues, session_id: str, runtime: str | None, workspace: Path, *, joins: bool = False) -> Plan:
    return Plan(session_id, values.profile_for(runtime), values.limits_for(runtime), workspace, values, joins)


def _unguarded(backend: Backend) -> Backend:
    while isinstance(backend, GuardedBackend):
        backend = backend._inner
    return backend
