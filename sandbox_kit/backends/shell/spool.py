"""Where much is kept that came, or is to go, at once: in memory first, then on the host's disk."""

from __future__ import annotations

import tempfile
from typing import BinaryIO, cast

__all__ = ["new_spool"]

_IN_MEMORY = 2**22


def new_spool() -> BinaryIO:
    """Return an empty temporary file, of which up to 4 MiB stay in memory."""
    return cast(BinaryIO, tempfile.SpooledTemporaryFile(_IN_MEMORY))
