"""``write_file`` and ``edit_file``: neither goes over what another one has changed since it was read."""

from __future__ import annotations

from sandbox_kit.console.desk import Desk
from sandbox_kit.console.parameters import LONGEST_NAME, Parameter
from sandbox_kit.console.results import ErrorText, Result
from sandbox_kit.console.tool import ToolDefinition
from sandbox_kit.errors import LimitExceededError, printable
from sandbox_kit.streams import as_bytes

__all__ = ["EDIT_FILE", "WRITE_FILE"]


def _write_file(desk: Desk, path: str, content: str) -> Result:
    data, most = as_bytes(content, "content"), desk.backend.max_read_bytes
    if len(data) > most:
        raise LimitExceededError(f"content: holds {len(data):,} bytes, more than {most:,}", most)
    desk.current(path)
    desk.backend.write(path, data)
    desk.note(path, data)
    return f"Wrote {len(data):,} B to {printable(path)}."


def _edit_file(desk: Desk, path: str, old_text: str, new_text: str, replace_all: bool) -> Result:
    old, new = as_bytes(old_text, "old_text"), as_bytes(new_text, "new_text")
    if old == new:
        return ErrorText("Error: old_text and new_text are the same: there is nothing to change.")
    known = desk.current(path)
    done = desk.backend.edit(path, old, new, replace_all=replace_all)
    if known is not None and known.count(old) == done.replacements:
        desk.note(path, known.replace(old, new))
    return f"Replaced {done.replacements:,} in {printable(path)}."


WRITE_FILE = ToolDefinition(
    name="write_file",
    description=(
        "Make a file, or replace one whole; parent directories are made. To change a part of a file use edit_file. "
        "Read a file that exists before you replace it: one that has changed since you read it is left as it is."
    ),
    parameters=(
        Parameter("path", "string", "The file: relative to the work directory, or absolute.", longest=LONGEST_NAME),
        Parameter("content", "string", "All that the file is to hold."),
    ),
    run=_write_file,
    operations=("write",),
)

EDIT_FILE = ToolDefinition(
    name="edit_file",
    description=(
        "Replace a piece of a file; everything else in it stays. Read the file first, and copy the text from there "
        "without the line numbers. A file that has changed since you read it is left as it is."
    ),
    parameters=(
        Parameter("path", "string", "The file: relative to the work directory, or absolute.", longest=LONGEST_NAME),
        Parameter(
            "old_text",
            "string",
            "The text to replace, exactly as in the file, with its blanks and line ends. It must occur just once, "
            "unless replace_all is set.",
        ),
        Parameter("new_text", "string", "What takes its place; may be empty."),
        Parameter("replace_all", "boolean", "Whether to replace every occurrence. Default false.", False),
    ),
    run=_edit_file,
    operations=("edit", "read", "write"),
)
