"""The names of files that are being written, where the file system has none without a name.

They are nobody's files yet, and a rule that names the file to be does not name them: no walk lists
them, and no search looks into them.
"""

from __future__ import annotations

import re
import secrets

__all__ = ["is_unfinished", "new_name"]

_NAME = re.compile(r"\.sandbox-kit-[0-9a-f]{32}\.tmp")


def new_name() -> str:
    """Return a name for a file that is about to be written; none that could be guessed."""
    return f".sandbox-kit-{secrets.token_hex(16)}.tmp"


def is_unfinished(name: str) -> bool:
    """Whether the last component of a path is such a name."""
    return name.endswith(".tmp") and _NAME.fullmatch(name) is not None
