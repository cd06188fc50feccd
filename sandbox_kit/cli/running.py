"""``run``."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from typing import BinaryIO

from sandbox_kit.arguments import CommandMode
from sandbox_kit.backends.local.confine import obstacle
from sandbox_kit.backends.local.relay import RelayedSandbox
from sandbox_kit.backends.local.sandbox import LocalSandbox
from sandbox_kit.cli.asking import asker, can_ask, confirm
from sandbox_kit.cli.exits import ExitCode, RefusedError, UsageError
from sandbox_kit.cli.screen import Screen, complain
from sandbox_kit.cli.workspace import load_rules
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import CommandTimeoutError
from sandbox_kit.guard import guarding
from sandbox_kit.types import CommandResult

__all__ = ["command_of", "outcome", "report", "run"]

_NOT_FOUND = 127
"""How a command ends whose program there is not."""

_LINE = re.compile(r"[\s;|&<>$]")
"""What is in a line for a shell, and seldom in the name of a program."""


def run(args: Namespace, screen: Screen) -> int:
    """Run a command and end as it does."""
    command, ruleset, env = command_of(args), load_rules(args.rules), _environment(args.env)
    mode = _mode_for(args.commands, os.path.realpath(args.root))
    sandbox = (LocalSandbox if args.json else RelayedSandbox)(
        args.root, expose=args.expose, network=True if args.network else None
    )
    with ExitStack() as stack:
        stdin = stack.enter_context(open(0, "rb", buffering=0, closefd=False)) if args.stdin else None
        box = stack.enter_context(guarding(sandbox, ruleset, ask=asker(), commands=mode))
        result = outcome(box, command, timeout=args.timeout, cwd=args.cwd, env=env, stdin=stdin)
    return report(result, args, screen)


def command_of(args: Namespace) -> str | list[str]:
    """Return the command: its words, or with ``--shell`` the line that they make.

    Raises:
        UsageError: there is none.
    """
    words: list[str] = args.words
    if not words:
        raise UsageError("a command is missing: put it after --")
    return " ".join(words) if args.shell else words


def _mode_for(mode: CommandMode, root: str) -> CommandMode:
    """Return *mode*, or "inspected" where nothing can confine and the person agrees to that.

    Raises:
        RefusedError: the person does not agree, or nobody is there.
    """
    reason = None if mode == "inspected" else obstacle(root)
    if reason is None:
        return mode
    problem = f"commands cannot be confined here: {reason}"
    if mode == "confined":
        raise RefusedError(problem)
    if not can_ask():
        raise RefusedError(f"{problem}; or accept that only its command line is looked at: --commands inspected")
    if not confirm(problem, "Run it all the same, with no more than a look at its command line?"):
        raise RefusedError("not run: it could not be confined, and that was not accepted")
    return "inspected"


def _environment(settings: list[str]) -> dict[str, str]:
    """Return the variables that ``--env`` sets or passes on; one that is not there to pass on is left out."""
    env = {}
    for setting in settings:
        name, given, value = setting.partition("=")
        if given or name in os.environ:
            env[name] = value if given else os.environ[name]
    return env


def outcome(
    box: Sandbox,
    command: str | list[str],
    *,
    timeout: float | None,
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    stdin: BinaryIO | None = None,
    on_output: Callable[[str, str], None] | None = None,
) -> CommandResult:
    """Return the result, a partial one after a time-out, which is told."""
    sys.stdout.flush()
    try:
        return box.execute(command, timeout=timeout, cwd=cwd, env=env, stdin=stdin, on_output=on_output)
    except CommandTimeoutError as error:
        complain(str(error))
        return error.result


def report(result: CommandResult, args: Namespace, screen: Screen) -> int:
    """Print what ``--json`` asks for and return the exit code; say so where a line was taken for a program."""
    if args.json:
        screen.json(_document(result))
    if result.exit_code is None:
        return ExitCode.TIMEOUT
    if result.exit_code == _NOT_FOUND and not args.shell and _LINE.search(args.words[0]):
        complain(f"{args.words[0]!r} is taken for the name of a program; with --shell it is a line for /bin/sh")
    return result.exit_code


def _document(result: CommandResult) -> dict[str, object]:
    return {
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "timed_out": result.exit_code is None,
        "duration": result.duration,
    }
