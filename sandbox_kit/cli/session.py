"""``session``: open, list, use and close sessions beneath a root."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace

from attrs import asdict

from sandbox_kit.arguments import CommandMode
from sandbox_kit.backends.local.relay import RelayedSandbox
from sandbox_kit.backends.local.sandbox import LocalSandbox
from sandbox_kit.cli.asking import asker
from sandbox_kit.cli.exits import ExitCode
from sandbox_kit.cli.policy import load_policy
from sandbox_kit.cli.running import command_of, outcome, report
from sandbox_kit.cli.screen import Screen, complain
from sandbox_kit.cli.workspace import load_rules
from sandbox_kit.errors import SandboxConflictError
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.layout import check_opened
from sandbox_kit.sessions.makers import LocalFactory
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.schema import SessionInfo

__all__ = ["close", "exec_in", "ls", "open_session", "root_of"]


def open_session(args: Namespace, screen: Screen) -> int:
    """Open a session and print where its files are; nothing runs in it afterwards."""
    with _manager(args) as manager, manager.open(args.session, runtime=args.runtime, tenant=args.tenant):
        place = os.fspath(manager.workspace(args.session))
    if args.json:
        screen.json({"session": args.session, "workspace": place})
    else:
        screen.line(screen.name(place))
    return ExitCode.DONE


def ls(args: Namespace, screen: Screen) -> int:
    """List the sessions."""
    with _manager(args, existing=True) as manager:
        infos = manager.sessions()
    if args.json:
        screen.json({"sessions": [asdict(info) for info in infos]})
        return ExitCode.DONE
    for info in infos:
        screen.line(_row(info, screen))
    return ExitCode.DONE


def _row(info: SessionInfo, screen: Screen) -> str:
    used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.last_used))
    held = "".join(f" {pid}" for pid in info.pids)
    more = "".join(f" {name}={value}" for name, value in (("tenant", info.tenant), ("runtime", info.runtime)) if value)
    return screen.name(f"{info.id:<32} {info.state:<10} {used}{more}{held}")


def exec_in(args: Namespace, screen: Screen) -> int:
    """Run a command in a session and end as it does; the session is hibernated afterwards."""
    command, rules = command_of(args), load_rules(args.rules)
    kind = LocalSandbox if args.json else RelayedSandbox
    on_output = None if args.json or args.backend == "local" else _print
    with _manager(args, kind=kind, ruleset=rules, commands=args.commands) as manager:
        known = _find(manager, args.session) is not None
        with manager.open(args.session, runtime=args.runtime, tenant=args.tenant) as box:
            if not known:
                complain(f"session {args.session} is new: it was opened just now")
            result = outcome(box, command, timeout=args.timeout, on_output=on_output)
    return report(result, args, screen)


def _print(stream: str, text: str) -> None:
    """Pass on what a command prints in a container."""
    out = sys.stdout if stream == "stdout" else sys.stderr
    out.write(text)
    out.flush()


def _find(manager: SessionManager, session: str) -> SessionInfo | None:
    return next((info for info in manager.sessions() if info.id == session), None)


def close(args: Namespace, screen: Screen) -> int:
    """Give a session up, or with ``--purge`` remove it; say so where that is not in this process's hands."""
    with _manager(args, existing=True) as manager:
        known = _find(manager, args.session) is not None
        try:
            manager.close(args.session, purge=args.purge)
        except SandboxConflictError:
            held = _find(manager, args.session)
            if held is None or not held.pids:
                raise
        info = _find(manager, args.session)
    pids = () if info is None else info.pids
    if args.json:
        screen.json({"session": args.session, "known": known, "purged": known and info is None, "pids": pids})
    elif not known:
        complain(f"there is no session {args.session}")
    elif pids:
        complain(f"session {args.session} is held by process {', '.join(map(str, pids))}")
    return ExitCode.DONE if known and not pids else ExitCode.NO


def root_of(args: Namespace, policy: SandboxPolicy) -> str:
    """Return the root that the options name, or else the policy, or else this directory."""
    return str(args.root or policy.snapshot().workspace_root or os.curdir)


def _manager(
    args: Namespace,
    *,
    existing: bool = False,
    kind: type[LocalSandbox] = LocalSandbox,
    ruleset: PermissionRuleset | None = None,
    commands: CommandMode = "auto",
) -> SessionManager:
    """Return the manager that the options ask for.

    Args:
        existing: sessions must have been opened beneath the root.

    Raises:
        PathNotFoundError: none were.
    """
    policy, _ = load_policy(args.policy)
    root = root_of(args, policy)
    if existing:
        check_opened(root)
    return SessionManager(
        policy,
        workspace_root=root,
        backend=LocalFactory(kind) if args.backend == "local" else args.backend,
        ruleset=ruleset,
        commands=commands,
        ask=asker(),
        reap_every=None,
    )
