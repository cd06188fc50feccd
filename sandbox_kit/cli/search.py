"""``grep``."""

from __future__ import annotations

from argparse import Namespace

from attrs import asdict

from sandbox_kit.cli.exits import ExitCode
from sandbox_kit.cli.files import report_skipped
from sandbox_kit.cli.screen import Screen, complain
from sandbox_kit.cli.workspace import open_files
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import GrepMatch

__all__ = ["grep"]


def grep(args: Namespace, screen: Screen) -> int:
    """Print the lines that match, each as soon as it is found."""
    matches = open_files(args).grep(
        args.pattern,
        args.path,
        glob=args.glob,
        fixed=args.fixed,
        ignore_case=args.ignore_case,
        hidden=args.hidden,
        context=args.context,
        limit=args.max_count,
    )
    with matches:
        found = _print_json(matches, screen) if args.json else _Printer(screen, args.context > 0).print(matches)
    report_skipped(matches.skipped)
    if matches.truncated:
        complain(f"stopped after {args.max_count} matches; there are more")
    return ExitCode.DONE if found else ExitCode.NO


def _print_json(matches: Matches, screen: Screen) -> bool:
    found = False
    for match in matches:
        screen.json(asdict(match))
        found = True
    return found


class _Printer:
    """Prints matches with their context, every line of a file once.

    Args:
        screen: where to.
        grouped: put ``--`` between lines that are not neighbours.
    """

    def __init__(self, screen: Screen, grouped: bool) -> None:
        self._screen = screen
        self._grouped = grouped
        self._path: str | None = None
        self._last = 0
        self._after: list[tuple[int, str]] = []

    def print(self, matches: Matches) -> bool:
        """Print all of them; whether there were any."""
        found = False
        for match in matches:
            self._match(match)
            found = True
        self._pending(None)
        return found

    def _match(self, match: GrepMatch) -> None:
        first = match.line_number - len(match.before)
        self._pending(match.line_number if match.path == self._path else None)
        if self._grouped and self._path is not None and (match.path != self._path or first > self._last + 1):
            self._screen.line("--")
        self._last = self._last if match.path == self._path else 0
        self._path = match.path
        for number, line in enumerate(match.before, first):
            self._context(number, line)
        self._line(match.line_number, "binary file matches" if match.binary else match.line, ":")
        self._after = list(enumerate(match.after, match.line_number + 1))

    def _pending(self, before: int | None) -> None:
        """Print the context that follows the last match, up to the line number *before*."""
        for number, line in self._after:
            if before is None or number < before:
                self._context(number, line)
        self._after = []

    def _context(self, number: int, line: str) -> None:
        if number > self._last:
            self._line(number, line, "-")

    def _line(self, number: int, line: str, mark: str) -> None:
        screen = self._screen
        path = screen.paint(screen.name(self._path or ""), "magenta")
        screen.line(f"{path}{mark}{screen.paint(str(number), 'green')}{mark}{screen.text(line)}")
        self._last = number
