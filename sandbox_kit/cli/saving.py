"""Files of the host that a command writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.streams import as_chunks

__all__ = ["save"]


def save(content: str | BinaryIO, path: str) -> int:
    """Write *content* to *path*, through links; a file then has the old content or the new one.

    A device or FIFO is written to as it is, never replaced.

    Returns:
        How many bytes were written.

    Raises:
        PathNotFoundError: there is no such directory.
        PathIsDirectoryError: it is a directory.
        PathError: another failure of the file system.
        OSError: the same, of a device or FIFO.
    """
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        with open(path, "wb") as out:
            return sum(map(out.write, as_chunks(content)))
    target = Path(os.path.realpath(path))
    LocalBackend(target.parent).write(target.name, content)
    return target.stat().st_size
