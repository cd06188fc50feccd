"""A user's own rights to a directory, which a command of that user's can take away from itself."""

from __future__ import annotations

import os
import stat
import sys

from sandbox_kit.host.system import Descriptor
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW

__all__ = ["has_all", "open_up", "set_mode"]


def has_all(mode: int) -> bool:
    """Whether *mode* lets the owner read, change and enter."""
    return mode & stat.S_IRWXU == stat.S_IRWXU


def set_mode(pin: Descriptor, mode: int) -> None:
    """Change what *pin* is open on, for its identity alone: by its number, which no name can redirect."""
    os.chmod(f"/proc/self/fd/{pin.fd}", stat.S_IMODE(mode))


def open_up(parent: Descriptor, name: str, mode: int) -> None:
    """Give this user back what it has closed to itself of a directory of its own, never through a link.

    Args:
        parent: the directory that it lies in.
        name: its name there.
        mode: what it has now.

    Raises:
        OSError: it is not this user's, or no directory any more.
    """
    if has_all(mode):
        return
    if sys.platform == "linux":
        set_mode(Descriptor.open(name, os.O_PATH | DIRECTORY | NOFOLLOW, parent.fd), mode | stat.S_IRWXU)
    else:
        os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=parent.fd, follow_symlinks=False)
