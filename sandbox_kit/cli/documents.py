"""Documents that a command judges: rulesets and policies."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from sandbox_kit.cli.exits import ExitCode, UsageError
from sandbox_kit.cli.screen import Screen, complain
from sandbox_kit.errors import PathError, PolicyError

__all__ = ["tell_validity"]


def tell_validity(name: str, load: Callable[[], object], args: Namespace, screen: Screen) -> int:
    """Say whether *load* takes the document *name*, with every problem that it has.

    Raises:
        UsageError: it cannot be read.
    """
    problems: tuple[str, ...] = ()
    try:
        load()
    except PolicyError as error:
        problems = error.problems
    except PathError as error:
        raise UsageError(str(error)) from error
    if args.json:
        screen.json({"valid": not problems, "problems": problems})
    elif not problems:
        screen.line(f"{screen.name(name)}: valid")
    else:
        for problem in problems:
            complain(problem)
    return ExitCode.NO if problems else ExitCode.DONE
