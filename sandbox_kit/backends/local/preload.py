"""What is loaded on first use elsewhere, loaded before the first command starts.

A host program that lies in the workspace has it first in ``sys.path``, so a module that is
imported after a command ran can be one that the command left there.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

__all__ = ["load_all"]

_LOADED_LATE = ("array", "tomllib", "traceback", "sandbox_kit.rules.documents")
"""By a function of the standard library or of the package's own; the last brings cattrs."""


@cache
def load_all() -> None:
    """Load every public name of the package, and what functions import; once in a process."""
    package = sys.modules["sandbox_kit"]
    for name in package.__all__:
        getattr(package, name)
    for name in _LOADED_LATE:
        import_module(name)
