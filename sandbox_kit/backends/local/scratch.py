"""The directory of the library's own that all processes of one user share, outside every workspace."""

from __future__ import annotations

import os
import stat
from functools import cache

from sandbox_kit.backends.local.locks import remove_old_locks
from sandbox_kit.errors import UnsupportedError

__all__ = ["own_directory", "tidy"]

_NAME = "/tmp/sandbox_kit-{uid}"


def own_directory() -> str:
    """Make the directory, unless it is there; its name depends on nothing but the user.

    Raises:
        UnsupportedError: it cannot be made, something else has the name, or others may enter.
    """
    directory = _NAME.format(uid=os.geteuid())
    if not os.path.lexists(directory):
        _make(directory)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise UnsupportedError(f"{directory} is not a directory of this user alone: commands cannot be confined")
    return directory


def _make(directory: str) -> None:
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise UnsupportedError(
            f"{directory} cannot be made: {error.strerror}; commands cannot be confined without"
        ) from error


@cache
def tidy() -> None:
    """Remove what nobody uses any more from the directory; once in a process."""
    remove_old_locks(own_directory())
