"""``sweep``."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from attrs import asdict

from sandbox_kit.cli.exits import ExitCode, UsageError
from sandbox_kit.cli.policy import load_policy
from sandbox_kit.cli.screen import Screen
from sandbox_kit.cli.session import root_of
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sweep import sweep as sweep_root
from sandbox_kit.sweep import sweep_engine

__all__ = ["sweep"]


def sweep(args: Namespace, screen: Screen) -> int:
    """Clear away what dead processes and old sessions left, and say what."""
    policy, _ = load_policy(args.policy)
    on_engine = args.backend == "docker"
    rooted = not on_engine or bool(args.root or policy.snapshot().workspace_root)
    _check(args, on_engine=on_engine, rooted=rooted)
    told: dict[str, Any] = {}
    if rooted:
        told |= _sessions(args, policy)
    if on_engine:
        told |= _engine(args, policy)
    if args.json:
        screen.json(told)
    else:
        _print(told, screen, dry_run=args.dry_run)
    return ExitCode.DONE


def _check(args: Namespace, *, on_engine: bool, rooted: bool) -> None:
    """See that the options fit each other.

    Raises:
        UsageError: they do not.
    """
    if args.dry_run and rooted:
        raise UsageError("--dry-run: what a sweep of sessions would do is not known; use it without them")
    if not on_engine and (args.label or args.container_ttl is not None):
        raise UsageError("--label and --container-ttl are of --backend docker")
    if wrong := [label for label in args.label if "=" not in label]:
        raise UsageError(f"--label: {wrong[0]!r} is not NAME=VALUE")


def _sessions(args: Namespace, policy: SandboxPolicy) -> dict[str, Any]:
    done = sweep_root(root_of(args, policy), workspace_ttl=args.workspace_ttl, policy=policy, backend=args.backend)
    return {"recovered": done.recovered, "purged": done.purged, "unknown": done.unknown}


def _engine(args: Namespace, policy: SandboxPolicy) -> dict[str, Any]:
    ttl = policy.snapshot().container_ttl if args.container_ttl is None else args.container_ttl
    labels = dict(label.split("=", 1) for label in args.label)
    return asdict(sweep_engine(container_ttl=ttl, labels=labels, dry_run=args.dry_run))


def _print(told: dict[str, Any], screen: Screen, *, dry_run: bool) -> None:
    for what in ("recovered", "purged", "unknown"):
        for session in told.get(what, ()):
            screen.line(f"{what} {screen.name(session)}")
    for what in ("removed", "left"):
        for each in told.get(what, ()):
            reason = f": {each['reason']}" if each["reason"] else ""
            verb = f"would be {what}" if dry_run else what
            screen.line(screen.name(f"{verb} {each['kind']} {each['name']}{reason}"))
