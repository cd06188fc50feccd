"""The console as a capability of pydantic-ai: an agent's tools, with its approvals, retries and binary content."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import asdict

from sandbox_kit.arguments import CommandMode
from sandbox_kit.console.results import ErrorText, Media
from sandbox_kit.console.tool import Tool, ToolDefinition
from sandbox_kit.console.toolset import console_tools
from sandbox_kit.contract import Backend
from sandbox_kit.errors import MissingDependencyError
from sandbox_kit.judge import Ask
from sandbox_kit.rules.ruleset import PermissionRuleset

try:
    from pydantic_ai import ApprovalRequired, BinaryContent, RunContext
    from pydantic_ai import Tool as AgentTool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise MissingDependencyError(
        f"ConsoleCapability needs pydantic-ai ({error}): pip install 'sandbox-kit[pydantic-ai]'", "pydantic-ai"
    ) from error

__all__ = ["ConsoleCapability"]

_MOST_WAITING = 10_000


class Tokens:
    """The tokens of calls that wait for approval in this process, by the number of the call."""

    def __init__(self) -> None:
        self._kept: dict[str | None, str] = {}
        self._lock = threading.Lock()

    def keep(self, call: str | None, token: str) -> None:
        """Keep *token*; the oldest are forgotten past a great many, and their calls asked about again.

        Where another one waits under that number, neither is kept: numbers may come again in another run.
        """
        with self._lock:
            self._kept[call] = token if self._kept.get(call, token) == token else ""
            if len(self._kept) > _MOST_WAITING:
                del self._kept[next(iter(self._kept))]

    def take(self, context: RunContext[Any]) -> str:
        """Return the token of an approved call, from its metadata or kept here; empty where nobody saw a request."""
        if not context.tool_call_approved:
            return ""
        with self._lock:
            kept = self._kept.pop(context.tool_call_id, "")
        metadata = context.tool_call_metadata
        given = metadata.get("token") if isinstance(metadata, dict) else None
        return given if isinstance(given, str) else kept


class ConsoleCapability(AbstractCapability[Any]):
    """Gives an agent the tools of :func:`~sandbox_kit.console.console_tools`; they run in pydantic-ai's threads.

    Where a rule asks and there is no *ask*, the call is deferred as one that needs approval: give the agent
    ``DeferredToolRequests`` among its output types, or a handler of those. The metadata of the call has ``operation``,
    ``target``, ``reason`` and ``token`` of an :class:`~sandbox_kit.console.ApprovalRequest`; an approval is good for
    that alone, and whatever else the call asks for by then is deferred again. What cannot be done is a failed result,
    which costs no retry. Images and PDFs come as ``BinaryContent``; other binary content is described in its place.

    Args:
        backend, ruleset, ask, commands, extra: as for :func:`~sandbox_kit.console.console_tools`.
        id: its name in an agent, where there are several.

    Raises:
        InvalidArgumentError, UnsupportedError: as for :func:`~sandbox_kit.console.console_tools`.
    """

    def __init__(
        self,
        backend: Backend,
        ruleset: PermissionRuleset | None = None,
        *,
        ask: Ask | None = None,
        commands: CommandMode = "auto",
        extra: Sequence[ToolDefinition] = (),
        id: str | None = None,
    ) -> None:
        self.id = id
        self.tools = console_tools(backend, ruleset, ask=ask, commands=commands, extra=extra)
        self._tokens = Tokens()

    def get_toolset(self) -> FunctionToolset[Any]:
        """Return the tools as pydantic-ai has them."""
        return FunctionToolset([_agent_tool(tool, self._tokens) for tool in self.tools], id=self.id)


def _agent_tool(tool: Tool, tokens: Tokens) -> AgentTool[Any]:
    return AgentTool.from_schema(
        partial(_call, tool, tokens),
        tool.name,
        tool.description,
        json_schema=tool.anthropic()["input_schema"],
        takes_ctx=True,
    )


def _call(tool: Tool, tokens: Tokens, context: RunContext[Any], /, **arguments: Any) -> str | BinaryContent:
    """Call *tool*.

    Raises:
        ApprovalRequired: a person's approval is missing.
        ToolFailed: it could not be done.
    """
    result = tool.call(arguments, approved=tokens.take(context))
    if isinstance(result, Media):
        return _content(result)
    if not isinstance(result, ErrorText):
        return result
    if result.request is not None:
        tokens.keep(context.tool_call_id, result.request.token)
        raise ApprovalRequired(metadata=asdict(result.request))
    raise ToolFailed(str(result))


def _content(media: Media) -> str | BinaryContent:
    content = BinaryContent(data=media.data, media_type=media.media_type)
    if content.is_image or content.media_type == "application/pdf":
        return content
    return f"({media.media_type}, {len(media.data):,} bytes, which cannot be shown: look at it with a program)"
