"""``rules``: validate a document, show a ruleset."""

from __future__ import annotations

from argparse import Namespace

from sandbox_kit.cli.exits import ExitCode, UsageError
from sandbox_kit.cli.screen import Colour, Screen, complain
from sandbox_kit.cli.workspace import load_rules
from sandbox_kit.errors import PathError, PolicyError
from sandbox_kit.rules.ruleset import OPERATIONS, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action, Operation

__all__ = ["show", "validate"]

_COLOURS: dict[Action, Colour] = {"allow": "green", "ask": "yellow", "deny": "red"}


def validate(args: Namespace, screen: Screen) -> int:
    """Say whether a document is a ruleset, with every problem that it has."""
    problems: tuple[str, ...] = ()
    try:
        PermissionRuleset.from_file(args.file)
    except PolicyError as error:
        problems = error.problems
    except PathError as error:
        raise UsageError(str(error)) from error
    if args.json:
        screen.json({"valid": not problems, "problems": problems})
    elif not problems:
        screen.line(f"{screen.name(args.file)}: valid")
    else:
        for problem in problems:
            complain(f"{args.file}: {problem}")
    return ExitCode.NO if problems else ExitCode.DONE


def show(args: Namespace, screen: Screen) -> int:
    """Print a ruleset whole."""
    ruleset = load_rules(args.name)
    if args.json:
        screen.json(ruleset.to_dict(), indent=2)
        return ExitCode.DONE
    for operations in _alike(ruleset):
        default = ruleset.default_for(operations[0])
        screen.line(f"{', '.join(operations)}: {screen.paint(default, _COLOURS[default])} by default")
        _print_rules(ruleset.permissions(operations[0]).rules, screen)
    if ruleset.rules:
        screen.line("every path operation, after its own rules:")
        _print_rules(ruleset.rules, screen)
    return ExitCode.DONE


def _alike(ruleset: PermissionRuleset) -> list[list[Operation]]:
    """Return the operations, those with the same rules and default together."""
    groups: dict[object, list[Operation]] = {}
    for operation in OPERATIONS:
        key = ruleset.default_for(operation), ruleset.permissions(operation).rules, operation == "execute"
        groups.setdefault(key, []).append(operation)
    return list(groups.values())


def _print_rules(rules: tuple[PermissionRule, ...], screen: Screen) -> None:
    for rule in rules:
        action = screen.paint(f"{rule.action:<5}", _COLOURS[rule.action])
        description = f"  # {screen.name(rule.description)}" if rule.description else ""
        screen.line(f"  {action} {screen.name(rule.pattern)}{description}")
