"""The directories of a tree, opened one after the other, in time linear in their number and not in their depth."""

from __future__ import annotations

import errno
import os
from collections import deque

from sandbox_kit.host.system import Descriptor, open_beneath
from sandbox_kit.paths import parts

__all__ = ["DIRECTORY", "HELD", "NOFOLLOW", "PATH", "WALK", "Trail", "descend"]

DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
PATH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
WALK = (errno.ELOOP, errno.ENOSYS, errno.EPERM, errno.EAGAIN)
"""What ``openat2`` says where a path has to be walked component by component."""

_STEP = 15
HELD = 32
"""How many directories a trail holds open, at most."""


class Trail:
    """A way into a tree: the directories entered last are held, and the next one is opened from the nearest.

    No link is ever on the way, and each directory is opened by its name in the one above. In the
    order of a walk, or in its reverse, a directory of any depth is entered from the one above it,
    but for one in :data:`HELD` levels, which is entered from the top.

    Args:
        top: where paths start.
        flags: as for ``os.open``.
    """

    def __init__(self, top: Descriptor, flags: int = DIRECTORY) -> None:
        self._top = top
        self._flags = flags
        self._held: deque[tuple[str, Descriptor]] = deque(maxlen=HELD)

    def enter(self, path: str) -> Descriptor:
        """Open a directory.

        Args:
            path: beneath the top, without ``..``; empty for the top itself.

        Raises:
            OSError: the system's own word on the path.
        """
        while self._held and not _leads_to(self._held[-1][0], path):
            self._held.pop()
        above, at = self._held[-1] if self._held else ("", self._top)
        if path == above:
            return at
        names = path[len(above) :].strip("/").split("/")
        far = names[:-HELD]
        if far:
            at = descend(at, "/".join(far), self._flags)
            above = f"{above}/{'/'.join(far)}".lstrip("/")
        for name in names[len(far) :]:
            at = descend(at, name, self._flags)
            above = f"{above}/{name}" if above else name
            self._held.append((above, at))
        return at


def _leads_to(above: str, path: str) -> bool:
    return path.startswith(above) and (len(path) == len(above) or path[len(above)] == "/")


def descend(top: Descriptor, path: str, flags: int = DIRECTORY) -> Descriptor:
    """Open a directory beneath another, where no link is on the way.

    Args:
        top: where *path* starts.
        path: relative, of any length, without ``..``.
        flags: as for ``os.open``.

    Raises:
        OSError: the system's own word on the path.
    """
    at, names = top, parts(path)
    while names:
        step, names = names[:_STEP], names[_STEP:]
        at = _descend(at, step, PATH if names else flags)
    return at


def _descend(at: Descriptor, names: list[str], flags: int) -> Descriptor:
    """Open a directory a few levels beneath another, in one call where the system has it."""
    try:
        return open_beneath(at.fd, "/".join(names), flags)
    except OSError as error:
        if error.errno not in (*WALK, errno.ENAMETOOLONG):
            raise
    for name in names[:-1]:
        at = Descriptor.open(name, PATH | NOFOLLOW, at.fd)
    return Descriptor.open(names[-1], flags | NOFOLLOW, at.fd)
