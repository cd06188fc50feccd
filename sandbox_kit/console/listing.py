"""``ls`` and ``glob``."""

from __future__ import annotations

from sandbox_kit.console.desk import Desk
from sandbox_kit.console.parameters import LONGEST_NAME, Parameter
from sandbox_kit.console.results import Result
from sandbox_kit.console.tool import ToolDefinition
from sandbox_kit.errors import printable
from sandbox_kit.types import FileInfo, Listing, Skipped

__all__ = ["GLOB", "LS", "skipped_lines"]

_MOST = 500
_MOST_SKIPPED = 5


def _ls(desk: Desk, path: str) -> Result:
    return _told(desk.backend.ls(path), "The directory is empty.", "list a directory beneath it, or use glob")


def _glob(desk: Desk, pattern: str, path: str) -> Result:
    return _told(desk.backend.glob(pattern, path), "Nothing matches.", "narrow the pattern or the path")


def _told(found: Listing, nothing: str, advice: str) -> str:
    lines = [_entry(info) for info in found[:_MOST]] or [nothing]
    if len(found) > _MOST:
        lines.append(f"... cut at {_MOST:,} of {len(found):,}: {advice}")
    return "\n".join([*lines, *skipped_lines(found.skipped)])


def _entry(info: FileInfo) -> str:
    name = printable(info.path)
    if info.is_symlink:
        return f"{name} (link)"
    return f"{name}/" if info.is_dir else f"{name} ({info.size:,} B)"


def skipped_lines(skipped: tuple[Skipped, ...]) -> list[str]:
    """Return a line for each of the first that could not be looked at, and one for all others."""
    lines = [f"(could not look at {printable(each.path)}: {each.reason})" for each in skipped[:_MOST_SKIPPED]]
    if len(skipped) > _MOST_SKIPPED:
        lines.append(f"(could not look at {len(skipped) - _MOST_SKIPPED:,} others)")
    return lines


LS = ToolDefinition(
    name="ls",
    description=(
        "List a directory, dot files too. A directory ends in a slash, a file has its size. "
        f"At most {_MOST:,} entries are shown."
    ),
    parameters=(
        Parameter(
            "path",
            "string",
            "The directory: relative to the work directory, or absolute. Default the work directory.",
            ".",
            longest=LONGEST_NAME,
        ),
    ),
    run=_ls,
    operations=("ls",),
)

GLOB = ToolDefinition(
    name="glob",
    description=(
        "Find files and directories by name. '*.py' finds those directly in path, '**/*.py' at any depth, "
        f"'src/**/test_?.py' beneath src. At most {_MOST:,} are shown, sorted by path."
    ),
    parameters=(
        Parameter(
            "pattern",
            "string",
            "The pattern, relative to path: * ? [abc] {a,b} and ** for any directories.",
            longest=LONGEST_NAME,
        ),
        Parameter(
            "path", "string", "The directory to look beneath. Default the work directory.", ".", longest=LONGEST_NAME
        ),
    ),
    run=_glob,
    operations=("glob",),
)
