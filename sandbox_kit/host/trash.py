"""Removal of whole trees: their names go at once, their files in a time that grows with their number alone.

Sandboxed code chooses the shape of a tree. So nothing recurses: a directory moves to the top of the trash
before anything in it is looked at. What is mounted cannot be moved, and is never entered.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from sandbox_kit.host.rights import open_up
from sandbox_kit.host.system import Descriptor
from sandbox_kit.host.trail import DIRECTORY, NOFOLLOW

__all__ = ["Trash"]

logger = logging.getLogger("sandbox_kit")


class Trash:
    """A directory of this user's own, on the file system of what is thrown into it.

    Args:
        path: it exists when it is used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def throw(self, path: Path) -> None:
        """Take a file or tree away under its name, then remove it; one that is gone is fine.

        Raises:
            OSError: it cannot be moved; it is as it was.
        """
        name = f"{path.name}.{uuid4().hex}"
        with suppress(FileNotFoundError):
            os.rename(path, self._path / name)
            self._remove([name])

    def empty(self) -> None:
        """Remove everything that was thrown in; another process may do the same.

        Raises:
            OSError: it cannot be listed.
        """
        with suppress(FileNotFoundError):
            self._remove(os.listdir(self._path))

    def _remove(self, names: list[str]) -> None:
        """Remove entries of the trash; what cannot be removed is logged and stays."""
        top = Descriptor.open(os.fspath(self._path), DIRECTORY | NOFOLLOW)
        while names:
            name = names.pop()
            with _logged(self._path / name):
                _remove_from(top, name, names, self._path / name)


@contextmanager
def _logged(path: Path) -> Generator[None, None, None]:
    """Log that *path* could not be removed, and go on; what is gone already is fine."""
    try:
        yield
    except FileNotFoundError:
        logger.debug("%s is gone already", path)
    except OSError as error:
        logger.warning("what was thrown away could not be removed: %s: %s", path, error)


def _remove_from(top: Descriptor, name: str, names: list[str], path: Path) -> None:
    """Remove an entry of *top*, which is *path*; add the new names there of the directories in it to *names*."""
    mode = _mode(top, name)
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=top.fd)
        return
    open_up(top, name, mode)
    here = Descriptor.open(name, DIRECTORY | NOFOLLOW, top.fd)
    for each in os.listdir(here.fd):
        with _logged(path / each):
            if (new := _moved_up(here, each, top)) is not None:
                names.append(new)
    os.rmdir(name, dir_fd=top.fd)


def _moved_up(here: Descriptor, name: str, top: Descriptor) -> str | None:
    """Remove an entry, or move it to *top* if it is a directory; return its new name there."""
    mode = _mode(here, name)
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=here.fd)
        return None
    new = uuid4().hex
    open_up(here, name, mode)
    os.rename(name, new, src_dir_fd=here.fd, dst_dir_fd=top.fd)
    return new


def _mode(parent: Descriptor, name: str) -> int:
    return os.stat(name, dir_fd=parent.fd, follow_symlinks=False).st_mode
