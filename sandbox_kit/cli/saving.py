"""Files of the host that a command writes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.errors import SandboxTimeoutError, printable
from sandbox_kit.host.system import Descriptor, told_of
from sandbox_kit.host.trail import DIRECTORY
from sandbox_kit.streams import as_chunks

__all__ = ["alone", "save"]

_WITHIN = 10.0
_POLL = 0.02


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Keep others who would change *path* as well waiting until the block ends.

    Who does not ask is not kept from it. The directory that the file is really in is locked, so that nothing is
    left behind, and a file may be replaced meanwhile.

    Raises:
        SandboxTimeoutError: others change something there all the time.
        PathError: the directory cannot be opened or locked.
    """
    with _locked_directory(path):
        yield


def _locked_directory(path: str) -> Descriptor:
    deadline = time.monotonic() + _WITHIN
    with told_of(path):
        directory = Descriptor.open(os.path.dirname(os.path.realpath(path)), DIRECTORY)
        while not _locked(directory):
            if time.monotonic() > deadline:
                raise SandboxTimeoutError(f"{printable(path)} was being changed by others for {_WITHIN} s", _WITHIN)
            time.sleep(_POLL)
    return directory


def _locked(directory: Descriptor) -> bool:
    try:
        fcntl.flock(directory.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
