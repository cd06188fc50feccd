"""The ``sandbox-kit`` command."""

from __future__ import annotations

from sandbox_kit.cli.app import main

__all__ = ["main"]
