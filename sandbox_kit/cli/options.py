"""The options of every command."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Sequence
from typing import Any, NoReturn, get_args

from sandbox_kit.cli.exits import EPILOG, UsageError
from sandbox_kit.types import Operation

__all__ = ["parse"]

_OPERATIONS = get_args(Operation)
_RULES = "a preset (default, permissive, readonly, strict, secrets), a .json or .toml file, or none"


class _Parser(ArgumentParser):
    """A parser that raises."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


class _Version(Action):
    """Prints the version; it is looked up only then."""

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"sandbox-kit {version('sandbox-kit')}")
        parser.exit()


def parse(argv: Sequence[str]) -> Namespace:
    """Return the arguments; ``command`` is what to do with them.

    Everything behind the first ``--`` of ``run``, ``check`` and ``session exec`` belongs to the command, as it stands.
    Words of theirs may come before and behind options.

    Raises:
        UsageError: they cannot be used.
    """
    words = list(argv)
    tail: list[str] = []
    if (words[:1] in (["run"], ["check"]) or words[:2] == ["session", "exec"]) and "--" in words:
        at = words.index("--")
        words, tail = words[:at], words[at + 1 :]
    args, unknown = _parser().parse_known_args(words)
    if "words" in args and not any(word.startswith("-") for word in unknown):
        args.words += unknown
        unknown = []
    if unknown:
        hint = "; a command and its options go after --" if "words" in args else ""
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}{hint} (see sandbox-kit {args.command} --help)")
    if "words" in args:
        args.words += tail
    return args


def _parser() -> ArgumentParser:
    parser = _Parser(
        "sandbox-kit",
        description="Files and commands in a directory, under rules.",
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, default=SUPPRESS, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for add in (_add_run, _add_ls, _add_cat, _add_grep, _add_check, _add_rules):
        add(commands)
    for add in (_add_policy, _add_session, _add_archive, _add_sweep, _add_doctor):
        add(commands)
    return parser


def _command(
    commands: _SubParsersAction[Any], name: str, text: str, *, usage: str | None = None, command: str | None = None
) -> ArgumentParser:
    parser: ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        usage=usage,
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=command or name)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_workspace(command: ArgumentParser) -> None:
    command.add_argument("--root", default=".", metavar="DIR", help="the directory (default: this one)")
    command.add_argument("--rules", default="secrets", metavar="RULES", help=f"{_RULES} (default: %(default)s)")


def _add_words(command: ArgumentParser) -> None:
    command.add_argument(
        "--commands",
        choices=("auto", "confined", "inspected"),
        default="auto",
        help="whether the kernel must hide denied files from commands, or a look at the command line is enough "
        "(default: confined, and where that is impossible, ask)",
    )
    command.add_argument("--shell", action="store_true", help="the words make one line for /bin/sh")


def _add_run(commands: _SubParsersAction[Any]) -> None:
    usage = "sandbox-kit run [options] -- COMMAND [ARGUMENT ...]"
    command = _command(commands, "run", "run a command in the directory, under the rules", usage=usage)
    _add_workspace(command)
    _add_words(command)
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="kill it and all that it started after that")
    command.add_argument("--network", action="store_true", help="let it reach the network")
    command.add_argument("--expose", action="append", default=[], metavar="PATH", help="let it read PATH of the host")
    command.add_argument("--cwd", metavar="DIR", help="start in DIR, relative to the root")
    command.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]", help="set a variable, or pass this shell's on"
    )
    command.add_argument("-i", "--stdin", action="store_true", help="pass standard input on (default: it is empty)")
    command.add_argument("words", nargs="*", metavar="COMMAND", help="the program and its arguments")


def _add_ls(commands: _SubParsersAction[Any]) -> None:
    command = _command(commands, "ls", "list a directory")
    _add_workspace(command)
    command.add_argument("-l", "--long", action="store_true", help="with mode, size in bytes and time")
    command.add_argument("path", nargs="?", default=".", metavar="PATH", help="relative to the root")


def _add_cat(commands: _SubParsersAction[Any]) -> None:
    command = _command(commands, "cat", "print files")
    _add_workspace(command)
    command.add_argument("paths", nargs="+", metavar="PATH", help="relative to the root")


def _add_grep(commands: _SubParsersAction[Any]) -> None:
    command = _command(commands, "grep", "search files for a regular expression")
    _add_workspace(command)
    command.add_argument("-i", "--ignore-case", action="store_true", help="compare without regard to case")
    command.add_argument("-F", "--fixed", action="store_true", help="PATTERN is plain text")
    command.add_argument("--glob", metavar="GLOB", help="look only into files whose path matches")
    command.add_argument("--hidden", action="store_true", help="look into names with a leading dot, too")
    command.add_argument("-C", "--context", type=int, default=0, metavar="N", help="lines around each match")
    command.add_argument("-m", "--max-count", type=int, metavar="N", help="stop after N matches in all")
    command.add_argument("pattern", metavar="PATTERN", help="put -- before one that starts with a dash")
    command.add_argument("path", nargs="?", default=".", metavar="PATH", help="relative to the root")


def _add_check(commands: _SubParsersAction[Any]) -> None:
    path, command_line = "OPERATION PATH", "execute -- COMMAND [ARGUMENT ...]"
    usage = f"sandbox-kit check [options] {path}\n       sandbox-kit check [options] {command_line}"
    command = _command(commands, "check", "say which rule decides, by which name, and why", usage=usage)
    _add_workspace(command)
    _add_words(command)
    command.add_argument("-v", "--verbose", action="store_true", help="show the verdict on every name that was judged")
    command.add_argument("operation", choices=_OPERATIONS, metavar="OPERATION", help=", ".join(_OPERATIONS))
    command.add_argument("words", nargs="*", metavar="PATH", help="relative to the root; or the command")


def _add_rules(commands: _SubParsersAction[Any]) -> None:
    group = commands.add_parser("rules", help="validate a ruleset, or show one", allow_abbrev=False)
    parts = group.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    command = _command(parts, "validate", "say whether a document is a ruleset", command="rules validate")
    command.add_argument("file", metavar="FILE", help="a .json or .toml file")
    command = _command(parts, "show", "print a ruleset", command="rules show")
    command.add_argument("name", metavar="RULES", help=_RULES)


def _add_policy(commands: _SubParsersAction[Any]) -> None:
    group = commands.add_parser("policy", help="show a policy, check one, change its overrides", allow_abbrev=False)
    parts = group.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    command = _command(
        parts, "show", "print the policy in force, and where each value comes from", command="policy show"
    )
    _add_policy_file(command)
    command.add_argument("--overrides", metavar="FILE", help="apply FILE (default: $SANDBOX_KIT_POLICY_OVERRIDES)")
    command = _command(parts, "check", "say whether a document is a policy", command="policy check")
    _add_policy_file(command)
    command.add_argument("--overrides", metavar="FILE", help="check FILE, as an overrides file of the policy")
    command.add_argument("file", nargs="?", metavar="FILE", help="the policy, in place of --policy")
    command = _command(parts, "set", "change an overrides file, in one step", command="policy set")
    _add_policy_file(command)
    command.add_argument("--overrides", metavar="FILE", required=True, help="a .json file; it is made if it is missing")
    command.add_argument("-n", "--dry-run", action="store_true", help="only print what would change")
    command.add_argument(
        "assignments", nargs="+", metavar="FIELD=VALUE", help="or runtimes.ALIAS.FIELD=VALUE; null clears"
    )


def _add_policy_file(command: ArgumentParser) -> None:
    text = "the policy, a .json or .toml file; the SANDBOX_KIT_* variables go before it"
    command.add_argument("--policy", metavar="FILE", help=text)


def _add_archive(commands: _SubParsersAction[Any]) -> None:
    group = commands.add_parser("archive", help="list, print or export the files of a session", allow_abbrev=False)
    parts = group.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    command = _command(parts, "ls", "list the sessions, or files of one", command="archive ls")
    _add_sessions(command)
    command.add_argument("-l", "--long", action="store_true", help="with mode, size in bytes and time")
    command.add_argument("-r", "--recursive", action="store_true", help="everything beneath PATH")
    command.add_argument("--since", metavar="TIME", help="what changed at TIME or later: ISO 8601, or epoch seconds")
    command.add_argument("session", nargs="?", metavar="SESSION", help="(default: list the sessions)")
    command.add_argument("path", nargs="?", default=".", metavar="PATH", help="relative to the session's workspace")
    command = _command(parts, "get", "print a file, byte for byte", command="archive get")
    _add_sessions(command)
    _add_output(command)
    command.add_argument("session", metavar="SESSION")
    command.add_argument("path", metavar="PATH", help="relative to the session's workspace")
    command = _command(parts, "export", "write files as one tar or zip", command="archive export")
    _add_sessions(command)
    _add_output(command)
    command.add_argument("--format", choices=("tar", "zip"), default="tar", help="(default: %(default)s)")
    command.add_argument(
        "--skip", action="store_true", help="leave out what a rule refuses and links that lead outside (default: fail)"
    )
    command.add_argument("session", metavar="SESSION")
    command.add_argument("path", nargs="?", default=".", metavar="PATH", help="relative to the session's workspace")


def _add_session(commands: _SubParsersAction[Any]) -> None:
    group = commands.add_parser("session", help="open, list, use or close sessions", allow_abbrev=False)
    parts = group.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    command = _command(parts, "open", "open a session, and print where its files are", command="session open")
    _add_session_place(command)
    _add_session_backend(command)
    _add_session_terms(command)
    command = _command(parts, "ls", "list the sessions", command="session ls")
    _add_session_place(command)
    _add_session_backend(command)
    usage = "sandbox-kit session exec [options] SESSION -- COMMAND [ARGUMENT ...]"
    command = _command(parts, "exec", "run a command in a session", usage=usage, command="session exec")
    _add_session_place(command)
    _add_session_backend(command)
    _add_session_terms(command)
    command.add_argument("--rules", default="secrets", metavar="RULES", help=f"{_RULES} (default: %(default)s)")
    _add_words(command)
    command.add_argument("--timeout", type=float, metavar="SECONDS", help="kill it and all that it started after that")
    command.add_argument("words", nargs="*", metavar="COMMAND", help="the program and its arguments")
    command = _command(parts, "close", "give up a session, or remove it", command="session close")
    _add_session_place(command)
    _add_session_backend(command)
    command.add_argument("--purge", action="store_true", help="remove its files, and forget it")
    command.add_argument("session", metavar="SESSION")


def _add_session_place(command: ArgumentParser) -> None:
    text = "where the sessions lie (default: the policy's workspace_root, or this directory)"
    command.add_argument("--root", metavar="DIR", help=text)
    _add_policy_file(command)


def _add_session_backend(command: ArgumentParser) -> None:
    text = "what its commands run in; docker takes a policy with an image"
    command.add_argument("--backend", choices=("local", "docker"), default="local", help=f"{text} (default: local)")


def _add_session_terms(command: ArgumentParser) -> None:
    command.add_argument("--runtime", metavar="ALIAS", help="of a new session (default: the policy's)")
    command.add_argument("--tenant", metavar="NAME", help="whom a new session counts for")
    command.add_argument("session", metavar="SESSION")


def _add_sweep(commands: _SubParsersAction[Any]) -> None:
    command = _command(commands, "sweep", "clear away what dead processes and old sessions left")
    _add_session_place(command)
    text = "purge sessions that are not open after that (default: the policy's workspace_ttl)"
    command.add_argument("--workspace-ttl", type=float, metavar="SECONDS", help=text)
    text = "whose sessions; docker also clears the engine, and looks for sessions only where a root is given"
    command.add_argument("--backend", choices=("local", "docker"), default="local", help=f"{text} (default: local)")
    text = "remove kept containers that are stopped for that long (default: the policy's container_ttl)"
    command.add_argument("--container-ttl", type=float, metavar="SECONDS", help=text)
    text = "of the engine, look only at sandboxes that were given this label; may be repeated"
    command.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help=text)
    command.add_argument("--dry-run", action="store_true", help="of the engine, remove nothing, and say what would go")


def _add_sessions(command: ArgumentParser) -> None:
    command.add_argument("--root", default=".", metavar="DIR", help="where the sessions lie (default: this directory)")
    command.add_argument("--rules", default="secrets", metavar="RULES", help=f"{_RULES} (default: %(default)s)")


def _add_output(command: ArgumentParser) -> None:
    command.add_argument("-o", "--output", metavar="FILE", help="write to FILE, whole or not at all")


def _add_doctor(commands: _SubParsersAction[Any]) -> None:
    _command(commands, "doctor", "say what this machine can do, and what to install for the rest")
