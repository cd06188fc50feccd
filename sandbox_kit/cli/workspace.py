"""The directory and the rules that the options name."""

from __future__ import annotations

from argparse import Namespace

from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.cli.asking import asker
from sandbox_kit.cli.exits import UsageError
from sandbox_kit.contract import Backend
from sandbox_kit.errors import PathError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRuleset

__all__ = ["NO_RULES", "load_rules", "open_files"]

NO_RULES = "none"


def load_rules(name: str) -> PermissionRuleset:
    """Return the ruleset that *name* stands for.

    Args:
        name: a preset in any case, ``"none"``, or a JSON or TOML file of the host.

    Raises:
        UsageError: it is none of them, or the file cannot be read.
        PolicyError: the document is refused.
    """
    if name.lower() == NO_RULES:
        return PermissionRuleset()
    from sandbox_kit.rules.presets import PRESETS

    if name.lower() in PRESETS:
        return PRESETS[name.lower()]
    if not name.lower().endswith((".json", ".toml")):
        raise UsageError(f"{name!r} is no ruleset: none of {NO_RULES}, {', '.join(PRESETS)}, nor a .json or .toml file")
    try:
        return PermissionRuleset.from_file(name)
    except PathError as error:
        raise UsageError(f"the rules cannot be read: {error}") from error


def open_files(args: Namespace) -> Backend:
    """Return the files beneath ``--root``, under ``--rules``."""
    return guarding(LocalBackend(args.root), load_rules(args.rules), ask=asker())
