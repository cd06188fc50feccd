"""Checks as a user without any privilege."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from sandbox_kit.backends.local import mounting, probe

from .confinement import Workspace


def in_child_as_nobody(check: Callable[[Workspace], object], base_directory: Path) -> str:
    """Run *check* in a forked child that is an ordinary user; what it raised, empty for nothing."""
    assert probe.can_confine() is None  # found out now: the user may not be able to run this Python
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
            root, own = (Path(tempfile.mkdtemp(dir=base_directory)) for _ in range(2))
            mounting.works.cache_clear()
            check(Workspace(str(root), str(own)))
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with open(read, encoding="utf-8") as said:
        return said.read()
