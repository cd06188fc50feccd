"""The directory of the library's own that all processes of one user share, outside every workspace."""

from __future__ import annotations

import os
from functools import cache

from sandbox_kit.backends.local.locks import remove_old_locks
from sandbox_kit.errors import SandboxError, UnsupportedError
from sandbox_kit.host.private import shared_directory

__all__ = ["own_directory", "tidy"]


def own_directory() -> str:
    """Make the directory, unless it is there; its name depends on nothing but the user.

    Raises:
        UnsupportedError: it cannot be made, something else has the name, or others may enter.
    """
    try:
        return os.fspath(shared_directory())
    except SandboxError as error:
        raise UnsupportedError(f"{error}: commands cannot be confined") from error


@cache
def tidy() -> None:
    """Remove what nobody uses any more from the directory; once in a process."""
    remove_old_locks(own_directory())
