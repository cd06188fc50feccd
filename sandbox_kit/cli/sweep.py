"""``sweep``."""

from __future__ import annotations

from argparse import Namespace

from sandbox_kit.cli.exits import ExitCode
from sandbox_kit.cli.policy import load_policy
from sandbox_kit.cli.screen import Screen
from sandbox_kit.cli.session import root_of
from sandbox_kit.sweep import sweep as sweep_root

__all__ = ["sweep"]


def sweep(args: Namespace, screen: Screen) -> int:
    """Clear away what dead processes and old sessions left, and say what."""
    policy, _ = load_policy(args.policy)
    done = sweep_root(root_of(args, policy), workspace_ttl=args.workspace_ttl, policy=policy)
    told = {"recovered": done.recovered, "purged": done.purged, "unknown": done.unknown}
    if args.json:
        screen.json(told)
        return ExitCode.DONE
    for what, sessions in told.items():
        for session in sessions:
            screen.line(f"{what} {screen.name(session)}")
    return ExitCode.DONE
