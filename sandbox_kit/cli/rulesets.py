"""``rules``: validate a document, show a ruleset."""

from __future__ import annotations

from argparse import Namespace

from sandbox_kit.cli.documents import tell_validity
from sandbox_kit.cli.exits import ExitCode
from sandbox_kit.cli.screen import COLOUR_OF, Screen
from sandbox_kit.cli.workspace import load_rules
from sandbox_kit.rules.presets import PresetRow, preset_table
from sandbox_kit.rules.ruleset import OPERATIONS, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action, Operation

__all__ = ["show", "validate"]


def validate(args: Namespace, screen: Screen) -> int:
    """Say whether a document is a ruleset, with every problem that it has."""
    return tell_validity(args.file, lambda: PermissionRuleset.from_file(args.file), args, screen)


def show(args: Namespace, screen: Screen) -> int:
    """Print a ruleset whole; of a preset its verdicts as well."""
    ruleset, verdicts = load_rules(args.name), _verdicts(args.name.lower())
    if args.json:
        screen.json(ruleset.to_dict(), indent=2)
        return ExitCode.DONE
    for operations in _alike(ruleset):
        said = [("by default", ruleset.default_for(operations[0])), *verdicts.get(operations[0], ())]
        painted = (f"{screen.paint(action, COLOUR_OF[action])} {what}" for what, action in said)
        screen.line(f"{', '.join(operations)}: {', '.join(painted)}")
        _print_rules(ruleset.permissions(operations[0]).rules, screen)
    if ruleset.rules:
        screen.line("every path operation, after its own rules:")
        _print_rules(ruleset.rules, screen)
    return ExitCode.DONE


def _verdicts(name: str) -> dict[Operation, list[tuple[str, Action]]]:
    """Return what the preset *name* says of each operation, by what it is on; nothing for any other ruleset."""
    return {row.operation: _on(row) for row in preset_table() if row.preset == name}


def _on(row: PresetRow) -> list[tuple[str, Action]]:
    if row.secret is None:
        return [("on a harmless command", row.workspace), ("on one that removes the system tree", row.system)]
    return [("in the workspace", row.workspace), ("on credentials", row.secret), ("in the system tree", row.system)]


def _alike(ruleset: PermissionRuleset) -> list[list[Operation]]:
    """Return the operations, those with the same rules and default together."""
    groups: dict[object, list[Operation]] = {}
    for operation in OPERATIONS:
        key = ruleset.default_for(operation), ruleset.permissions(operation).rules, operation == "execute"
        groups.setdefault(key, []).append(operation)
    return list(groups.values())


def _print_rules(rules: tuple[PermissionRule, ...], screen: Screen) -> None:
    for rule in rules:
        action = screen.paint(f"{rule.action:<5}", COLOUR_OF[rule.action])
        description = f"  # {screen.name(rule.description)}" if rule.description else ""
        screen.line(f"  {action} {screen.name(rule.pattern)}{description}")
