"""The Python that runs this process, for helper programs and for commands."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["interpreter"]


def interpreter() -> str:
    """The name of a Python program; one that embeds Python is not taken for it."""
    if Path(sys.executable).name.startswith(("python", "pypy")):
        return sys.executable
    return str(Path(sys.base_exec_prefix, "bin", "python{}.{}".format(*sys.version_info)))
