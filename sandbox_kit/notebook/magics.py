"""The magic commands ``%%sandbox`` and ``%sandbox``, and what loads them."""

from __future__ import annotations

import argparse
import shlex
from typing import NoReturn

from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import SandboxError
from sandbox_kit.notebook.once import forget
from sandbox_kit.notebook.running import run
from sandbox_kit.notebook.shell import Shell, usage_error
from sandbox_kit.notebook.status import Status, status
from sandbox_kit.types import CommandResult

__all__ = ["Interrupted", "SandboxMagic", "load_ipython_extension", "unload_ipython_extension"]

_NAME = "sandbox"


class Interrupted(KeyboardInterrupt):
    """The kernel was interrupted while a command of a cell ran: told in one line."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong with a line, and how it is written, in the cell."""

    def __init__(self, name: str, options: str) -> None:
        super().__init__(usage=f"{name} {options}".replace("%", "%%"), add_help=False, allow_abbrev=False)
        self.add_argument("name", nargs="?", metavar="NAME")

    def error(self, message: str) -> NoReturn:
        raise usage_error(f"{message}\n{self.format_usage().strip()}")


def _variable(value: str) -> tuple[str, str]:
    name, found, content = value.partition("=")
    if not (name and found):
        raise argparse.ArgumentTypeError(f"{value!r} is not NAME=VALUE")
    return name, content


def _user(value: str) -> str | int:
    return int(value) if value.isdecimal() else value


_STATUS = _Parser("%sandbox", "[NAME]")
_RUN = _Parser(
    "%%sandbox",
    "[NAME] [--timeout SECONDS] [--cwd DIRECTORY] [--env NAME=VALUE] [--user USER] [--check] [--no-changes]",
)
_RUN.add_argument("--timeout", type=float, metavar="SECONDS")
_RUN.add_argument("--cwd", metavar="DIRECTORY")
_RUN.add_argument("--env", type=_variable, action="append", default=[], metavar="NAME=VALUE")
_RUN.add_argument("--user", type=_user)
_RUN.add_argument("--check", action="store_true")
_RUN.add_argument("--no-changes", dest="changes", action="store_false")


def _parsed(parser: _Parser, line: str) -> argparse.Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        parser.error(str(error))
    return parser.parse_args(words)


class SandboxMagic:
    """The magic commands of one shell.

    Args:
        shell: its variables hold the sandboxes.
    """

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._current: str | None = None

    def sandbox(self, line: str, cell: str | None = None) -> CommandResult | Status:
        """Run a cell in a sandbox, or tell which sandbox is the current one.

        ``%%sandbox [NAME] [--timeout SECONDS] [--cwd DIRECTORY] [--env NAME=VALUE]... [--user USER] [--check]
        [--no-changes]`` runs the rest of the cell as a shell script. NAME is a variable of the notebook that
        holds a started sandbox; without it the one named last is used. Output appears as it arrives, then the
        files that changed. ``_`` is the CommandResult. With ``--check`` a non-zero exit code is an error.

        ``%sandbox [NAME]`` tells of the sandbox, and makes NAME the current one.
        """
        if cell is None:
            return self._told(_parsed(_STATUS, line))
        return self._run(_parsed(_RUN, line), cell)

    def _told(self, options: argparse.Namespace) -> Status:
        try:
            return status(self._named(options.name))
        except SandboxError as error:
            raise usage_error(f"{type(error).__name__}: {error}") from error

    def _run(self, options: argparse.Namespace, script: str) -> CommandResult:
        sandbox = self._named(options.name)
        try:
            return run(
                sandbox,
                script,
                timeout=options.timeout,
                cwd=options.cwd,
                env=dict(options.env),
                user=options.user,
                check=options.check,
                changes=options.changes,
            )
        except SandboxError as error:
            raise usage_error(f"{type(error).__name__}: {error}") from error
        except KeyboardInterrupt:
            raise Interrupted("the command was ended; the sandbox can be used on") from None

    def _named(self, name: str | None) -> Sandbox:
        """Return the sandbox that the variable *name* holds, the one named last without it."""
        name = name or self._current
        if name is None:
            raise usage_error(f"no sandbox was named yet: %%sandbox NAME, where NAME is {self._choice()}")
        found = self._shell.variables.get(name)
        if isinstance(found, Sandbox):
            self._current = name
            return found
        if isinstance(found, Backend):
            raise usage_error(f"{name} is a {type(found).__name__}, which runs no commands")
        what = f"is a {type(found).__name__}" if name in self._shell.variables else "is not defined"
        raise usage_error(f"{name} {what}: name {self._choice()}")

    def _choice(self) -> str:
        variables = self._shell.variables.items()
        names = sorted(name for name, value in variables if isinstance(value, Sandbox) and name[0] != "_")
        return " or ".join(names) or "a variable that holds a sandbox"


def load_ipython_extension(ipython: object) -> None:
    """Add ``%%sandbox`` and ``%sandbox`` to a shell, and have sandboxes show what they are: ``%load_ext`` calls it."""
    shell = Shell(ipython)
    shell.add_magic(_NAME, SandboxMagic(shell).sandbox)
    shell.html_with(Backend, lambda backend: status(backend)._repr_html_())


def unload_ipython_extension(ipython: object) -> None:
    """Take away what :func:`load_ipython_extension` added: ``%unload_ext`` calls it."""
    shell = Shell(ipython)
    shell.remove_magic(_NAME)
    shell.html_with(Backend, None)
    forget(shell)
