"""Consoles for the tests: tools by name."""

from __future__ import annotations

from typing import Any

from sandbox_kit.console import Media, Tool, console_tools
from sandbox_kit.contract import Backend

HANGS_AFTER = 60.0


def tools(backend: Backend, *given: Any, **options: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in console_tools(backend, *given, **options)}


def text(result: str | Media) -> str:
    """Return *result*, which is text."""
    assert isinstance(result, str)
    return result
