"""The entry point: parse, act, and turn whatever happens into an exit code and one line of text."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pkgutil import resolve_name

from sandbox_kit.cli.exits import ExitCode, exit_code
from sandbox_kit.cli.options import parse
from sandbox_kit.cli.screen import Screen, complain
from sandbox_kit.errors import PolicyError

__all__ = ["main"]

_ACTIONS = {
    "run": "running:run",
    "ls": "files:ls",
    "cat": "files:cat",
    "grep": "search:grep",
    "check": "verdicts:check",
    "rules validate": "rulesets:validate",
    "rules show": "rulesets:show",
    "doctor": "doctor:doctor",
    "policy show": "policy:show",
    "policy check": "policy:check",
    "policy set": "policy:set_overrides",
    "session open": "session:open_session",
    "session ls": "session:ls",
    "session exec": "session:exec_in",
    "session close": "session:close",
    "sweep": "sweep:sweep",
    "archive ls": "archive:ls",
    "archive get": "archive:get",
    "archive export": "archive:export",
}
"""By command: its module in this package, and the function there."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments; None for those of the process.

    Returns:
        The exit code. No error passes through.
    """
    if sys.stdout is None or sys.stderr is None:
        return ExitCode.FAILED
    try:
        args = parse(sys.argv[1:] if argv is None else argv)
        return _action(args.command)(args, Screen(sys.stdout))
    except BrokenPipeError:
        return ExitCode.BROKEN_PIPE
    except KeyboardInterrupt:
        complain("interrupted")
        return ExitCode.INTERRUPTED
    except PolicyError as error:
        for problem in error.problems:
            complain(problem)
        return exit_code(error)
    except Exception as error:
        complain(str(error) or type(error).__name__)
        return exit_code(error)
    finally:
        _empty_buffer()


def _empty_buffer() -> None:
    """Keep output that cannot be written from failing again when the interpreter ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _action(command: str) -> Callable[[Namespace, Screen], int]:
    """Return what carries *command* out; only what that needs is imported."""
    action: Callable[[Namespace, Screen], int] = resolve_name(f"sandbox_kit.cli.{_ACTIONS[command]}")
    return action
