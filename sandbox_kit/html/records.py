"""How each record shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sandbox_kit.html.fragments import ROWS, Markup, joined, line, note, output, span, table, text
from sandbox_kit.html.terminal import terminal_text

if TYPE_CHECKING:
    from sandbox_kit.types import Action, CommandResult, EditResult, FileInfo, GrepMatch, Skipped, Verdict

__all__ = ["command_result", "edit_result", "ending", "files", "files_table", "matches", "verdict"]

_NAME = 1000
_CLASS_OF: dict[Action, str] = {"allow": "sbk-good", "ask": "sbk-wait", "deny": "sbk-bad"}


def ending(result: CommandResult) -> Markup:
    """Return a line of how a command ended."""
    told = "it did not end by itself" if result.exit_code is None else f"exit {result.exit_code}"
    parts = [span(text(told), "sbk-good" if result.ok else "sbk-bad"), text(f"{result.duration:.2f} s")]
    cut = [text("output over its limit was cut off")] if result.truncated else []
    return line(*parts, *cut)


def command_result(result: CommandResult) -> Markup:
    """Show how a command ended and what it printed, stdout before stderr."""
    streams = [("stdout", result.stdout), ("stderr", result.stderr)]
    return output(ending(result), *(terminal_text(stream, value) for stream, value in streams if value))


def _kind(info: FileInfo) -> str:
    return "link" if info.is_symlink else "directory" if info.is_dir else "file"


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def _file_row(info: FileInfo) -> Sequence[str | int]:
    return (info.path, _kind(info), info.size, f"{info.mode:04o}", _time(info.mtime))


def files_table(entries: Sequence[FileInfo], total: int | None = None) -> Markup:
    """Return a table of *entries*, of which there may be more.

    Args:
        entries: in the order to show.
        total: how many there are; None is as many as *entries*.
    """
    headers = ("path", "kind", "bytes", "mode", "changed (UTC)")
    return table(headers, map(_file_row, entries), len(entries) if total is None else total)


def files(entries: Sequence[FileInfo], skipped: Sequence[Skipped] = (), *, more: bool = False) -> Markup:
    """Show a listing, or what a walk finds first.

    Args:
        entries: in order.
        skipped: what could not be looked at.
        more: whether there are others, nobody knows how many.
    """
    shown = files_table(entries) if entries else note("nothing")
    return output(shown, *_rest(more), *_skipped(skipped))


def _rest(more: bool) -> Iterable[Markup]:
    return [note(f"only the first {ROWS} are shown; there are more")] if more else []


def _skipped(skipped: Sequence[Skipped]) -> Iterable[Markup]:
    if skipped:
        yield note(f"{len(skipped):,} could not be looked at:")
        yield table(("path", "reason"), ((each.path, each.reason) for each in skipped), len(skipped))


def _match_rows(match: GrepMatch) -> Iterable[Sequence[str | int]]:
    first = match.line_number - len(match.before)
    yield from (("", first + index, value) for index, value in enumerate(match.before))
    yield (match.path, match.line_number, "(binary)" if match.binary else match.line)
    yield from (("", match.line_number + 1 + index, value) for index, value in enumerate(match.after))


def matches(found: Sequence[GrepMatch], skipped: Sequence[Skipped] = (), *, more: bool = False) -> Markup:
    """Show what a search finds first, context lines without a path; arguments as for :func:`files`."""
    rows = [row for match in found for row in _match_rows(match)]
    shown = table(("path", "line", "text"), rows, len(rows)) if rows else note("no match")
    return output(shown, *_rest(more), *_skipped(skipped))


def edit_result(result: EditResult) -> Markup:
    """Show what an edit did."""
    times = "replacement" if result.replacements == 1 else "replacements"
    path = span(text(result.path, _NAME), "sbk-code")
    return output(line(path, text(f"{result.replacements:,} {times}")))


def verdict(said: Verdict) -> Markup:
    """Show what rules say, and which of them."""
    target = joined([text(said.operation), span(text(said.name, _NAME), "sbk-code")], " ")
    decided = text("by default" if said.rule is None else f"by rule {said.rule}", _NAME)
    return output(line(span(text(said.action), _CLASS_OF[said.action]), target, decided))
