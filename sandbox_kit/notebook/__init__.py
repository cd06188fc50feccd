"""Sandboxes in a notebook: output that grows in the cell, the pictures that a command made, ``%%sandbox``.

Records show themselves as HTML in any notebook, without this. ``%load_ext sandbox_kit.notebook`` adds
the magic commands of :mod:`sandbox_kit.notebook.magics`; :func:`run` needs no loading. Everything is
plain synchronous code, so a running event loop, as that of a notebook, is no matter.
"""

from __future__ import annotations

from sandbox_kit.notebook.changes import Changes
from sandbox_kit.notebook.magics import load_ipython_extension, unload_ipython_extension
from sandbox_kit.notebook.running import run
from sandbox_kit.notebook.status import Status, status

__all__ = ["Changes", "Status", "load_ipython_extension", "run", "status", "unload_ipython_extension"]
