"""``read_file``."""

from __future__ import annotations

from sandbox_kit.answers import is_answer
from sandbox_kit.console.cutting import cut_line, take_until_full
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.parameters import LONGEST_NAME, Parameter
from sandbox_kit.console.results import ErrorText, Media, Result
from sandbox_kit.console.tool import ToolDefinition
from sandbox_kit.errors import ReadLimitError, printable
from sandbox_kit.media import media_type

__all__ = ["READ_FILE"]

_MOST_LINES = 2_000
_LONGEST_LINE = 2_000
_MOST_CHARACTERS = 60_000
_LARGEST_MEDIA = 10 * 2**20
_BOM = b"\xef\xbb\xbf"


def _read_file(desk: Desk, path: str, offset: int, limit: int) -> Result:
    try:
        content = desk.backend.read_bytes(path)
    except ReadLimitError as error:
        if is_answer(error):
            raise
        return _part_of_large(desk, path, offset, limit)
    desk.note(path, content)
    kind = media_type(path, content)
    if kind is not None:
        return _media(path, content, kind)
    return _part(path, content.removeprefix(_BOM).decode("utf-8", "replace"), offset, limit)


def _part(path: str, text: str, offset: int, limit: int) -> str:
    """Return some lines of *text*, which is all of a file, and how to see the next ones."""
    lines = _lines(text)
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        return ErrorText(f"Error: {printable(path)} has {len(lines):,} lines: there is no line {offset:,}.")
    page = _page(lines[offset - 1 : offset - 1 + limit], offset)
    last = offset + len(page) - 1
    if last < len(lines):
        page.append(f"... cut at {last:,} of {len(lines):,} lines: read_file(path={path!r}, offset={last + 1})")
    if "\r\n" in text:
        page.append("(lines end in \\r\\n, not \\n)")
    return "\n".join(page)


def _part_of_large(desk: Desk, path: str, offset: int, limit: int) -> Result:
    """Return some lines of a file that is too large to be read whole."""
    text = desk.backend.read(path, offset=offset - 1, limit=limit)
    if "\0" in text:
        return ErrorText(f"Error: {printable(path)} is no text, and too large to be returned.")
    lines = _lines(text)
    page = _page(lines, offset)
    if page:
        page.append(f"... cut: read_file(path={path!r}, offset={offset + len(page)}) goes on, unless this was the end")
    return "\n".join(page) or ErrorText(f"Error: {printable(path)} has no line {offset:,}.")


def _media(path: str, content: bytes, kind: str) -> Result:
    if len(content) <= _LARGEST_MEDIA:
        return Media(content, kind)
    told = f"{printable(path)} ({kind}) holds {len(content):,} bytes, and at most {_LARGEST_MEDIA:,} are returned"
    return ErrorText(f"Error: {told}: make a smaller one.")


def _lines(text: str) -> list[str]:
    """Return *text* line by line, without the ends."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _page(lines: list[str], first: int) -> list[str]:
    """Return as many *lines*, numbered from *first*, as a model can take in."""
    numbered = [f"{number:6}\t{cut_line(line, _LONGEST_LINE)}" for number, line in enumerate(lines, first)]
    return take_until_full(numbered, _MOST_CHARACTERS)


READ_FILE = ToolDefinition(
    name="read_file",
    description=(
        "Read a file. Text comes with line numbers: each line is the number, a tab, then the line itself. "
        f"At most {_MOST_LINES:,} lines come at once; where the text is cut, its last line tells the next call. "
        "Images, PDFs and other binary files come as they are."
    ),
    parameters=(
        Parameter("path", "string", "The file: relative to the work directory, or absolute.", longest=LONGEST_NAME),
        Parameter("offset", "integer", "The first line wanted, from 1. Default 1.", 1, least=1),
        Parameter(
            "limit",
            "integer",
            f"How many lines, from 1 to {_MOST_LINES:,}, which is the default.",
            _MOST_LINES,
            least=1,
            most=_MOST_LINES,
        ),
    ),
    run=_read_file,
    operations=("read",),
)
