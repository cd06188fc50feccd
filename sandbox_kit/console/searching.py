"""``grep``."""

from __future__ import annotations

from collections.abc import Iterator

from sandbox_kit.console.cutting import cut_line
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.listing import skipped_lines
from sandbox_kit.console.parameters import LONGEST_NAME, Parameter
from sandbox_kit.console.results import Result
from sandbox_kit.console.tool import ToolDefinition
from sandbox_kit.errors import printable
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import GrepMatch

__all__ = ["GREP"]

_USUAL, _MOST = 100, 1_000
_LONGEST_LINE = 500
_MOST_CHARACTERS = 30_000
_NARROWER = "narrow it with a longer pattern, path or glob"


def _grep(
    desk: Desk,
    pattern: str,
    path: str,
    glob: str | None,
    fixed: bool,
    ignore_case: bool,
    hidden: bool,
    context: int,
    limit: int,
) -> Result:
    with desk.backend.grep(
        pattern,
        path,
        glob=glob,
        fixed=fixed,
        ignore_case=ignore_case,
        hidden=hidden,
        context=context,
        limit=limit,
    ) as matches:
        return _told(matches, limit, separated=context > 0)


def _told(matches: Matches, limit: int, *, separated: bool) -> str:
    shown, full = _shown(matches)
    lines = ["\n--\n".join(shown) if separated else "\n".join(shown)] if shown else ["No line matches."]
    if full or matches.truncated:
        lines.append(f"... cut at {len(shown):,} of more than {len(shown) if full else limit:,} matches: {_NARROWER}")
    return "\n".join([*lines, *skipped_lines(matches.skipped)])


def _shown(matches: Matches) -> tuple[list[str], bool]:
    """Return the first matches as text, each cut as it comes, and whether there is no room for the next one."""
    shown: list[str] = []
    room = _MOST_CHARACTERS
    for match in matches:
        block = "\n".join(_lines(match))
        room -= len(block) + 1
        if shown and room < 0:
            return shown, True
        shown.append(block)
    return shown, False


def _lines(match: GrepMatch) -> Iterator[str]:
    path, number = printable(match.path), match.line_number
    if match.binary:
        yield f"{path}: binary file matches"
        return
    for before, line in enumerate(match.before, number - len(match.before)):
        yield f"{path}-{before}- {cut_line(line, _LONGEST_LINE)}"
    yield f"{path}:{number}: {cut_line(match.line, _LONGEST_LINE)}"
    for after, line in enumerate(match.after, number + 1):
        yield f"{path}-{after}- {cut_line(line, _LONGEST_LINE)}"


GREP = ToolDefinition(
    name="grep",
    description=(
        "Look for lines in files. Each match is 'path:line number: line'; read_file(path, offset=line number) shows "
        "what surrounds it. The order between files is not fixed."
    ),
    parameters=(
        Parameter(
            "pattern", "string", "A regular expression without look-around and back-references.", longest=LONGEST_NAME
        ),
        Parameter(
            "path",
            "string",
            "The file, or the directory to look beneath. Default the work directory.",
            ".",
            longest=LONGEST_NAME,
        ),
        Parameter(
            "glob",
            "string",
            "Look only into files whose path this matches, such as '*.py'. Default all.",
            None,
            longest=LONGEST_NAME,
        ),
        Parameter("fixed", "boolean", "Whether the pattern is plain text. Default false.", False),
        Parameter("ignore_case", "boolean", "Whether to ignore case. Default false.", False),
        Parameter("hidden", "boolean", "Whether to look into dot files and directories. Default false.", False),
        Parameter("context", "integer", "Lines around each match, from 0 to 20. Default 0.", 0, least=0, most=20),
        Parameter(
            "limit",
            "integer",
            f"How many matches at most, from 1 to {_MOST:,}. Default {_USUAL}.",
            _USUAL,
            least=1,
            most=_MOST,
        ),
    ),
    run=_grep,
    operations=("grep", "read"),
)
