"""SessionManager: many sandboxes under one policy, shared by the processes of one host."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from attrs import evolve

from sandbox_kit.arguments import CommandMode, check_callable, check_commands, check_ruleset, check_timeout
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.host.system import host_name
from sandbox_kit.judge import Ask
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.borrowed import BorrowedSandbox
from sandbox_kit.sessions.environment import OVERRIDES_VARIABLE
from sandbox_kit.sessions.events import Events, SessionEvent
from sandbox_kit.sessions.ids import check_session_id
from sandbox_kit.sessions.layout import Layout
from sandbox_kit.sessions.makers import Factory, as_kind
from sandbox_kit.sessions.making import Maker
from sandbox_kit.sessions.overrides import PolicyOverrides
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.reaper import Reaped
from sandbox_kit.sessions.schema import SessionInfo
from sandbox_kit.sessions.service import SessionService
from sandbox_kit.types import Usage

__all__ = ["SessionManager"]


class SessionManager:
    """Opens sessions by id, each with one live sandbox and a workspace of its own.

    Safe from several threads, and between processes of one host that use the same root: a ledger there
    knows every session and who holds it, and the policy's ceilings hold for all of them together. A process
    that ends, however it does, gives its slots back; its sessions' files stay. A forked child is a
    process of its own: it shares the parent's sessions, never its sandboxes.

    Args:
        policy: ceilings, lifetimes and runtimes; a change holds from the next call.
        workspace_root: the directory for ``<session_id>/workspace``, on a local file system; made if missing. None
            takes the policy's.
        backend: ``"local"``, ``"docker"``, or ``factory(session_id, profile, limits, workspace)``, which returns a
            sandbox. A session stays with the backend that it was first opened by; that of a factory is named by its
            module and qualified name, so processes that share sessions import it from one place.
        ruleset: the rules of every session; they do not change.
        commands, ask: as for :func:`~sandbox_kit.guard.guarding`.
        reap_every: how often idle sessions are looked after, in seconds; None leaves that to :meth:`reap`.
        start_timeout: how long the start of a sandbox may take that is not ``"local"``, in seconds, the pull or build
            of its image included; None sets no limit. One that takes longer is given up: it keeps its slot until it
            has ended, and is then stopped.
        on_event: called with each :class:`~sandbox_kit.sessions.events.SessionEvent`.

    The file that ``SANDBOX_KIT_POLICY_OVERRIDES`` names changes the policy, when a session is opened.

    Raises:
        InvalidArgumentError: an argument is none of its values, or no root is given.
        PolicyError: the overrides file lies beneath the root.
        SandboxUnavailableError: the root cannot be used.
        SandboxConflictError: what the library keeps in the root is not this user's alone.
        UnsupportedError: the root is on a file system that does not hold locks, or the backend cannot hold
            fields of the policy; names them.
    """

    def __init__(
        self,
        policy: SandboxPolicy,
        *,
        workspace_root: str | os.PathLike[str] | None = None,
        backend: str | Factory = "local",
        ruleset: PermissionRuleset | None = None,
        commands: CommandMode = "auto",
        ask: Ask | None = None,
        reap_every: float | None = 30.0,
        start_timeout: float | None = 600.0,
        on_event: Callable[[SessionEvent], object] | None = None,
    ) -> None:
        if not isinstance(policy, SandboxPolicy):
            raise InvalidArgumentError(f"policy: {policy!r} is not a SandboxPolicy")
        check_ruleset(ruleset)
        check_commands(commands)
        check_callable(ask, "ask")
        kind = as_kind(backend)
        kind.check(policy.snapshot())
        layout, path = Layout(_root(workspace_root, policy)), os.environ.get(OVERRIDES_VARIABLE)
        self._policy = policy
        self._service = SessionService(
            layout,
            Maker(policy, kind, ruleset, ask, commands),
            Events(on_event),
            PolicyOverrides(policy, path, outside=(layout.root,)) if path else None,
            check_timeout(reap_every, "reap_every"),
            check_timeout(start_timeout, "start_timeout"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session manager is for one process: make another one there, over the same root")

    @property
    def policy(self) -> SandboxPolicy:
        """The policy, to be changed by ``apply_policy_update``."""
        return self._policy

    def open(self, session_id: str, *, runtime: str | None = None, tenant: str | None = None) -> Sandbox:
        """Open a session, a new one or where it was left, and return its sandbox, started and under the rules.

        The sandbox is borrowed: leaving its ``with`` returns it, and it stays up until it is idle for too long or
        its slot is needed. A borrowed one is not stopped for its slot.

        Args:
            session_id: 1 to 64 of ``A-Za-z0-9._-``, first a letter or digit, and no device's name.
            runtime: an alias of the policy; None is the session's own, or the default for a new one.
            tenant: whom a new session counts for; None is the session's own, or nobody.

        Raises:
            SessionLimitError: a ceiling is reached, and no idle session can hibernate.
            SandboxConflictError: the session has another runtime, tenant or backend.
            InvalidArgumentError: the id or the tenant is malformed, or the policy has no such runtime.
            UnsupportedError: the backend cannot hold what the policy asks for now.
            SandboxTimeoutError: it did not start within ``start_timeout``, or another process took too long to
                start or stop it.
            SandboxUnavailableError: the ledger or the sandbox cannot be reached.
        """
        check_session_id(session_id)
        _check_tenant(tenant)
        if runtime is not None:
            self._policy.snapshot().profile_for(runtime)
        return BorrowedSandbox(self._service, session_id, runtime, tenant).start()

    def close(self, session_id: str, purge: bool = False) -> None:
        """End a session's sandbox in this process and its handles; the files stay, and it can be opened again.

        What a process that died held of it is given back.

        Args:
            purge: remove its files, too, and forget it.

        A session that is not open, or not there, is no error.

        Raises:
            SandboxConflictError: it is to be purged, and another process holds it; or it has another backend.
        """
        self._service.close(check_session_id(session_id), purge=bool(purge))

    def sessions(self) -> list[SessionInfo]:
        """Return every session beneath the root, sorted by id. That is no use of any of them."""
        used = {entry.id: entry.last_used() for entry in self._service.table.resident()}
        infos = self._service.ledger.sessions()
        return [evolve(info, last_used=max(info.last_used, used.get(info.id, 0.0))) for info in infos]

    def workspace(self, session_id: str) -> Path:
        """Return where the files of a session are, or will be: a directory of this machine."""
        return self._service.workspace(check_session_id(session_id))

    def usage(self, session_id: str) -> Usage:
        """Return what a session's sandbox in this process uses now; None in each field where it has none here."""
        return self._service.table.entry(check_session_id(session_id)).usage()

    def reap(self, unknown: bool = False) -> Reaped:
        """Look after the sessions once: give back what dead owners held, hibernate what is idle, purge what is old.

        Args:
            unknown: look for workspaces that the ledger does not know, too, and purge those that are old.

        What fails for one session is logged, and does not keep the others from it.
        """
        return self._service.reap(unknown=bool(unknown))

    def shutdown(self) -> None:
        """Stop every sandbox of this process, and the thread that looks after them; files stay. Twice is fine.

        Raises:
            SandboxError: of the first sandbox that could not be stopped; the others are.
        """
        self._service.shutdown()


def _root(given: str | os.PathLike[str] | None, policy: SandboxPolicy) -> str:
    root = policy.snapshot().workspace_root if given is None else given
    if root is None:
        raise InvalidArgumentError("workspace_root: neither the manager nor the policy has one")
    return host_name(root, "workspace_root")


def _check_tenant(tenant: str | None) -> None:
    if tenant is not None and (not isinstance(tenant, str) or not 0 < len(tenant) <= 256 or not tenant.isprintable()):
        raise InvalidArgumentError(f"tenant: {tenant!r} is not 1 to 256 printable characters")
