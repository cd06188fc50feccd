"""Directories that their owner has closed to itself, opened for as long as it takes to remove them.

A command of an ordinary user can take its own rights to a directory (``chmod 000``), which keeps
the library out as well. Who may remove the tree may give them back, as ``chmod -R u+rwx`` would.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from sandbox_kit.host.rights import has_all, set_mode
from sandbox_kit.host.system import Descriptor
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW, Trail

__all__ = ["Opened"]

_PATH = getattr(os, "O_PATH", 0)


class Opened:
    """The directories of one tree that were opened, to be closed again unless they are removed.

    Args:
        parent: the directory that the tree lies in.
        name: its name there.
    """

    def __init__(self, parent: Descriptor, name: str) -> None:
        self._name = name
        self._pins = Trail(parent, _PATH | DIRECTORY | NOFOLLOW)
        self._changed: list[tuple[str, os.stat_result]] = []

    def enter(self, path: str) -> Descriptor:
        """Open a directory to list and change what it holds; its name has been judged.

        Args:
            path: beneath the tree's own directory, which is ``""``.

        Raises:
            OSError: it belongs to somebody else who keeps this user out, or is no directory.
        """
        full = f"{self._name}/{path}" if path else self._name
        if not _PATH:
            return self._pins.enter(full)
        pin = self._pins.enter(full)
        info = os.fstat(pin.fd)
        if info.st_uid == os.geteuid() and not has_all(info.st_mode):
            self._changed.append((full, info))
            set_mode(pin, info.st_mode | stat.S_IRWXU)
        return Descriptor.open(".", DIRECTORY, pin.fd)

    def close(self) -> None:
        """Give every directory that is still there the mode that it had, the innermost first."""
        while self._changed:
            path, info = self._changed.pop()
            with suppress(OSError):
                pin = self._pins.enter(path)
                if os.path.samestat(os.fstat(pin.fd), info):
                    set_mode(pin, info.st_mode)
