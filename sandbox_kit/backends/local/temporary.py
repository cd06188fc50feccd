"""A directory that the library makes for a sandbox, and removes with all that commands left in it."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile

__all__ = ["make", "remove"]

logger = logging.getLogger("sandbox_kit")


def make() -> str:
    """Make a directory that only this user may enter; return its name."""
    return tempfile.mkdtemp(prefix="sandbox-kit-")


def remove(directory: str, owner: int) -> None:
    """Remove *directory*; one that is gone is fine, and what cannot be removed is logged.

    Args:
        owner: the process that made it; no other one, such as a forked child, removes it.
    """
    if os.getpid() != owner:
        return
    try:
        _remove(directory)
    except FileNotFoundError:
        return
    except (OSError, RecursionError) as error:
        logger.warning("the temporary directory of a sandbox could not be removed: %s: %s", directory, error)


def _remove(directory: str) -> None:
    try:
        shutil.rmtree(directory)
    except PermissionError:
        _open_up(directory)
        shutil.rmtree(directory)


def _open_up(directory: str) -> None:
    """Let this user change every directory of a tree, parents first."""
    os.chmod(directory, 0o700)
    for parent, names, _ in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
