"""Files and commands as the tools of a language model, for any agent framework."""

from __future__ import annotations

from sandbox_kit.console.desk import Desk
from sandbox_kit.console.parameters import Parameter
from sandbox_kit.console.results import ApprovalRequest, ErrorText, Media
from sandbox_kit.console.tool import Tool, ToolDefinition
from sandbox_kit.console.toolset import backend_for, console_tools

__all__ = [
    "ApprovalRequest",
    "Desk",
    "ErrorText",
    "Media",
    "Parameter",
    "Tool",
    "ToolDefinition",
    "backend_for",
    "console_tools",
]
