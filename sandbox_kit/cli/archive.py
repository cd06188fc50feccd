"""``archive``: list sessions and their files, print a file, export a tree."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from datetime import datetime
from typing import Literal

from sandbox_kit.cli.exits import ExitCode, UsageError
from sandbox_kit.cli.files import print_content, show_listing
from sandbox_kit.cli.saving import save
from sandbox_kit.cli.screen import Screen, complain
from sandbox_kit.cli.workspace import load_rules
from sandbox_kit.sessions.archive import WorkspaceArchive
from sandbox_kit.sessions.layout import check_opened
from sandbox_kit.types import Listing

__all__ = ["export", "get", "ls"]


def ls(args: Namespace, screen: Screen) -> int:
    """List the sessions, or files of one."""
    archive = _archive(args)
    if args.session is None:
        _show_sessions(_sessions(archive), args, screen)
    else:
        show_listing(_found(archive, args), args, screen)
    return ExitCode.DONE


def _sessions(archive: WorkspaceArchive) -> list[str]:
    """Return the sessions.

    Raises:
        PathNotFoundError: there are none, and no manager ever opened one there.
    """
    sessions = archive.sessions()
    if not sessions:
        check_opened(archive.root)
    return sessions


def _show_sessions(sessions: list[str], args: Namespace, screen: Screen) -> None:
    if args.json:
        screen.json({"sessions": sessions})
        return
    for session in sessions:
        screen.line(session)


def _found(archive: WorkspaceArchive, args: Namespace) -> Listing:
    """Return what ``--recursive`` and ``--since`` ask for; changes are always those of the whole tree."""
    if args.since is not None:
        found = archive.changes(args.session, _time(args.since), args.path)
    elif args.recursive:
        found = archive.walk(args.session, args.path)
    else:
        return archive.ls(args.session, args.path)
    entries = sorted(found, key=lambda info: info.path)
    return Listing(entries, found.skipped)


def _time(text: str) -> float | datetime:
    """Return a time as it is typed; one without a time zone is local.

    Raises:
        UsageError: it is none.
    """
    with suppress(ValueError):
        return float(text)
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--since {text!r}: neither ISO 8601, such as 2026-01-31T12:00, nor seconds") from error


def get(args: Namespace, screen: Screen) -> int:
    """Print a file, byte for byte."""
    archive = _archive(args)
    if args.json and args.output is None:
        screen.json({"path": args.path, "content": archive.read(args.session, args.path)})
        return ExitCode.DONE
    with archive.open_read(args.session, args.path) as stream:
        if args.output is None:
            print_content(stream, screen)
        else:
            _report(args, screen, {"path": args.path, "bytes": save(stream, args.output)})
    return ExitCode.DONE


def export(args: Namespace, screen: Screen) -> int:
    """Write files as one tar or zip."""
    if args.output is None and (args.json or screen.is_terminal):
        raise UsageError("an archive is not for a terminal, nor beside JSON: say where it goes with --output FILE")
    denied: Literal["error", "skip"] = "skip" if args.skip else "error"
    with _archive(args).export(args.session, args.path, format=args.format, denied=denied) as stream:
        if args.output is None:
            print_content(stream, screen)
        else:
            written = save(stream, args.output)
            _report(args, screen, {"path": args.path, "bytes": written, "left_out": stream.denied})
        if stream.denied:
            complain(f"{stream.denied} {'entry was' if stream.denied == 1 else 'entries were'} left out")
    return ExitCode.DONE


def _report(args: Namespace, screen: Screen, told: dict[str, object]) -> None:
    if args.json:
        screen.json({"output": args.output, **told})


def _archive(args: Namespace) -> WorkspaceArchive:
    """Return the sessions beneath ``--root``, under ``--rules``."""
    return WorkspaceArchive(args.root, ruleset=load_rules(args.rules))
