"""The Python that runs this process, for helper programs and for commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["helper_interpreter", "interpreter"]


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


_REAL = os.path.realpath(interpreter())
