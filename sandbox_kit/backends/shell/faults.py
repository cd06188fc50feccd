"""What a tool of the sandbox says of a path, as the library's own error."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox_kit.backends.shell.spots import parse_spot
from sandbox_kit.errors import (
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
    SandboxError,
    printable,
)

__all__ = ["refuse_failure"]

_REASONS: dict[str, type[PathError]] = {
    "No such file or directory": PathNotFoundError,
    "File exists": PathExistsError,
    "Is a directory": PathIsDirectoryError,
    "Not a directory": PathNotDirectoryError,
    "Permission denied": PathAccessError,
    "Operation not permitted": PathAccessError,
    "Read-only file system": PathAccessError,
    "Too many levels of symbolic links": NotRegularFileError,
    "Symbolic link loop": NotRegularFileError,
}
"""The texts of strerror in glibc and musl, which stand at a message's end."""


def refuse_failure(path: str, records: Sequence[str]) -> None:
    """Return where a change was made.

    Args:
        path: what errors call the place.
        records: the reply.

    Raises:
        PathError: of the kind that the tool tells.
        SandboxConflictError: something else took the place.
    """
    for place, record in enumerate(records):
        if record[:1] == "e" and len(record) == len("e!"):
            raise _failure(path, record[1:], records[:place], records[place:])


def _failure(path: str, code: str, before: Sequence[str], after: Sequence[str]) -> SandboxError:
    if code == "!":
        return _told(path, before[-1] if before else "")
    if code == "x":
        return PathExistsError(path)
    if code == "o":
        return PathError(path, "the other name is on another file system")
    if code == "c":
        return SandboxConflictError(f"{printable(path)}: replaced by something else meanwhile")
    return parse_spot(after).error(path)


def _told(path: str, message: str) -> PathError:
    reason = message.rstrip("\n").rpartition(": ")[2]
    if reason in ("Directory not empty", "Not empty"):
        return PathIsDirectoryError(path, "directory is not empty")
    kind = _REASONS.get(reason)
    return PathError(path, reason.lower() or "could not be changed") if kind is None else kind(path)
