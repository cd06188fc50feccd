"""Session ids: names that are one directory on any file system, and nothing else anywhere."""

from __future__ import annotations

import re

from sandbox_kit.errors import InvalidArgumentError

__all__ = ["WORKSPACE", "check_session_id", "is_session_id"]

WORKSPACE = "workspace"
"""The name of the directory with a session's files, beneath the one that has the session's id."""

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_SHOWN = 80


def is_session_id(value: object) -> bool:
    """Return whether *value* is what :func:`check_session_id` accepts."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None and _DEVICE.fullmatch(value) is None


def check_session_id(value: str) -> str:
    """Return *value*, without any I/O.

    An id is 1 to 64 of the characters ``A-Za-z0-9._-``, starts with a letter or digit, does not end
    with a dot, and is no device name of Windows such as ``CON`` or ``nul.txt``.

    Raises:
        InvalidArgumentError: it is no such id.
    """
    if is_session_id(value):
        return value
    shown = repr(value) if len(repr(value)) <= _SHOWN else f"{value!r:.{_SHOWN}}..."
    raise InvalidArgumentError(
        f"session_id: {shown} is not 1 to 64 of A-Za-z0-9._- that start with a letter or digit, "
        "do not end with a dot, and name no device"
    )
