"""The Python that runs this process, for commands and for helper programs, which are started here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

__all__ = ["helper_interpreter", "interpreter", "start_helper"]


def interpreter() -> str:
    """The name of a Python program; one that embeds Python is not taken for it."""
    if os.path.basename(sys.executable).startswith(("python", "pypy")):
        return sys.executable
    return str(Path(sys.base_exec_prefix, "bin", "python{}.{}".format(*sys.version_info)))


def helper_interpreter() -> str:
    """The real name that the program had when the library was imported.

    Helper programs run by it: a link to it may lie where commands can replace it.
    """
    return _REAL


def start_helper(program: str, far: socket.socket) -> subprocess.Popen[bytes]:
    """Start a helper program, in a session of its own and with nothing of this process's environment.

    Args:
        program: its file, for a Python that imports nothing but the standard library.
        far: its end of a socket pair, which is its standard input.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(
        [helper_interpreter(), "-I", "-S", program],
        stdin=far.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        cwd="/",
        start_new_session=True,
    )


_REAL = os.path.realpath(interpreter())
