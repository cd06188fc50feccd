"""Locks between workspaces that lie in each other.

A command may rename what lies anywhere beneath its workspace, so also what another command's
masks there depend on. So two workspaces of which one lies in the other are not used at once, unless
neither is under masks. Each command marks its own directory and all above it, in bytes of one
file that the kernel locks, and looks whether a mark stands that it must not meet. Two
that come at once may both find the other's, and both step back.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Sequence
from hashlib import blake2b

__all__ = ["NESTING", "Key", "lineage_of", "take_lineage"]

Key = tuple[int, int]
"""Device and inode of a directory."""

NESTING = "nesting"
"""The name of the file, which is empty."""

_MAX_DEPTH = 512
_RECORD = struct.Struct("hhqqi4x")
_IDENTITY = struct.Struct("QQ")
_PLAIN_BENEATH, _MASKED_BENEATH, _MASKED_HERE, _PLAIN_HERE = range(4)
"""Marks of one directory: those that two commands must not set both are neighbours."""


def lineage_of(root_fd: int) -> list[Key]:
    """The directory *root_fd* and those above it, up to the top."""
    lineage: list[Key] = []
    path = "."
    for _ in range(_MAX_DEPTH):
        status = os.stat(path, dir_fd=root_fd)
        key = status.st_dev, status.st_ino
        if lineage and lineage[-1] == key:
            break
        lineage.append(key)
        path = "../" * len(lineage)
    return lineage


def take_lineage(fd: int, lineage: Sequence[Key], *, masked: bool) -> bool:
    """Mark a workspace and all above it as used, until *fd* is closed; whether nothing overlaps it.

    Args:
        fd: open on the file of marks, by nobody else.
        lineage: see :func:`lineage_of`.
        masked: whether the command is under masks.
    """
    if sys.platform != "linux":
        return True
    here, beneath = (_MASKED_HERE, _MASKED_BENEATH) if masked else (_PLAIN_HERE, _PLAIN_BENEATH)
    places = [_place(key) for key in lineage]
    for number, place in enumerate(places):
        _mark(fd, place + (beneath if number else here))
    overlaps = (_is_marked(fd, place, above=number > 0, any_kind=masked) for number, place in enumerate(places))
    return not any(overlaps)


def _place(key: Key) -> int:
    """Where the marks of a directory begin."""
    digest = blake2b(_IDENTITY.pack(*key), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 4 << 2


def _mark(fd: int, place: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _RECORD.pack(fcntl.F_RDLCK, os.SEEK_SET, place, 1, 0))


def _is_marked(fd: int, place: int, *, above: bool, any_kind: bool) -> bool:
    """Whether another than *fd* has a mark at *place* that it must not meet.

    Args:
        above: whether to look for those who are there, above; else for those beneath it.
        any_kind: whether those without masks count.
    """
    first = _MASKED_HERE if above else _PLAIN_BENEATH if any_kind else _MASKED_BENEATH
    asked = _RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, place + first, 1 + any_kind, 0)
    answer: tuple[int, ...] = _RECORD.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
    return answer[0] != fcntl.F_UNLCK
