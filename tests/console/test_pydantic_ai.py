"""The capability, in agents of the real pydantic-ai with its scripted models."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    AgentRunResult,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelResponse,
    RunContext,
    RunUsage,
    TextPart,
    ToolCallPart,
    ToolDenied,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import console_tools
from sandbox_kit.console.pydantic_ai import ConsoleCapability, Tokens
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset

Step = tuple[str, dict[str, Any]]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
RULES = PermissionRuleset(rules=[PermissionRule("**/.env", "deny")], write=OperationPermissions("ask"))
WITHOUT_IT = """
import sys
sys.modules["pydantic_ai"] = None
from sandbox_kit import MissingDependencyError
try:
    import sandbox_kit.console.pydantic_ai
except MissingDependencyError as error:
    assert error.extra == "pydantic-ai" and "sandbox-kit[pydantic-ai]" in str(error)
else:
    sys.exit("it was imported")
"""


def agent(capability: ConsoleCapability, *steps: Step) -> Agent[None, Any]:
    """Return an agent whose model calls a tool at each step, then says "done"."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        taken = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(parts=[ToolCallPart(*steps[taken]) if taken < len(steps) else TextPart("done")])

    return Agent(FunctionModel(model), capabilities=[capability], output_type=[str, DeferredToolRequests])


def run(asked: Agent[None, Any], *given: Any, **options: Any) -> AgentRunResult[Any]:
    return asyncio.run(asked.run(*given, **options))


def returned(result: AgentRunResult[Any]) -> list[ToolReturnPart]:
    return [part for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]


def test_an_agent_is_offered_the_tools_of_the_console() -> None:
    seen: list[AgentInfo] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart("done")])

    run(Agent(FunctionModel(model), capabilities=[ConsoleCapability(StateBackend(), RULES)]), "go")
    offered = [(tool.name, tool.description, tool.parameters_json_schema) for tool in seen[0].function_tools]
    assert offered == [(tool.name, tool.description, tool.schema) for tool in console_tools(StateBackend(), RULES)]


def test_every_tool_can_be_called_by_the_test_model() -> None:
    result = run(Agent(TestModel(), capabilities=[ConsoleCapability(StateBackend({"a": "text"}))]), "go")
    assert {part.tool_name for part in returned(result)} == {tool.name for tool in console_tools(StateBackend())}


def test_text_comes_as_text_and_an_image_as_an_image() -> None:
    capability = ConsoleCapability(StateBackend({"a": "text", "p": PNG, "d": b"%PDF-1", "z": b"\0\1"}))
    steps = [("read_file", {"path": path}) for path in "apdz"]
    text, image, document, other = (part.content for part in returned(run(agent(capability, *steps), "go")))
    assert text == "     1\ttext"
    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type) == (PNG, "image/png")
    assert isinstance(document, BinaryContent)
    assert document.media_type == "application/pdf"
    assert "application/octet-stream, 2 bytes" in str(other)


def test_what_fails_is_a_failed_result_however_often_and_the_agent_goes_on() -> None:
    capability = ConsoleCapability(StateBackend({".env": "secret", "a": "text"}), RULES)
    steps: list[Step] = [("read_file", {"path": ".env"})] * 5 + [("read_file", {}), ("read_file", {"path": "a"})]
    result = run(agent(capability, *steps), "go")
    assert result.output == "done"
    assert [part.outcome for part in returned(result)] == ["failed"] * 6 + ["success"]
    assert "secret" not in str(result.all_messages())


def deferred(backend: StateBackend) -> tuple[Agent[None, Any], AgentRunResult[Any], ToolCallPart]:
    """Return an agent that waits for the approval of a write."""
    waiting = agent(ConsoleCapability(backend, RULES), ("write_file", {"path": "x", "content": "new"}))
    result = run(waiting, "go")
    assert isinstance(result.output, DeferredToolRequests)
    (call,) = result.output.approvals
    metadata = result.output.metadata[call.tool_call_id]
    assert [metadata[name] for name in ("operation", "target", "reason")] == ["write", "x", "write: by default"]
    assert not backend.exists("x")
    return waiting, result, call


def test_a_call_that_needs_approval_is_deferred_and_done_once_approved() -> None:
    backend = StateBackend()
    waiting, result, call = deferred(backend)
    approvals = DeferredToolResults(approvals={call.tool_call_id: True})
    after = run(waiting, message_history=result.all_messages(), deferred_tool_results=approvals)
    assert after.output == "done"
    assert backend.read("x") == "new"


def test_an_approval_is_good_for_what_was_shown_also_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("safe")
    (tmp_path / "y").write_text("safe")
    step = ("write_file", {"path": "link", "content": "new"})
    (tmp_path / "link").symlink_to("x")
    result = run(agent(ConsoleCapability(LocalBackend(tmp_path), RULES), step), "go")
    (request,) = result.output.approvals
    assert str(tmp_path / "x") in result.output.metadata[request.tool_call_id]["reason"]

    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("y")
    given: list[dict[str, Any]] = [{}, result.output.metadata]
    for metadata in given:
        other = agent(ConsoleCapability(LocalBackend(tmp_path), RULES), step)
        approvals = DeferredToolResults(approvals={request.tool_call_id: True}, metadata=metadata)
        again = run(other, message_history=result.all_messages(), deferred_tool_results=approvals)
        assert str(tmp_path / "y") in again.output.metadata[request.tool_call_id]["reason"]
        assert (tmp_path / "y").read_text() == "safe"

    other = agent(ConsoleCapability(LocalBackend(tmp_path), RULES), step)
    approvals = DeferredToolResults(approvals={request.tool_call_id: True}, metadata=again.output.metadata)
    assert run(other, message_history=result.all_messages(), deferred_tool_results=approvals).output == "done"
    assert (tmp_path / "y").read_text() == "new"


def test_the_oldest_waiting_calls_are_forgotten() -> None:
    tokens = Tokens()
    for number in range(10_001):
        tokens.keep(str(number), "token")
    assert [tokens.take(approved(call)) for call in ("0", "1")] == ["", "token"]


def test_of_two_that_wait_under_one_number_neither_is_taken() -> None:
    tokens = Tokens()
    for token in ("of one run", "of another"):
        tokens.keep("call_0", token)
    assert tokens.take(approved("call_0")) == ""
    tokens.keep("call_0", "asked again")
    assert tokens.take(approved("call_0")) == "asked again"


def approved(call: str) -> RunContext[None]:
    return RunContext(deps=None, model=TestModel(), usage=RunUsage(), tool_call_id=call, tool_call_approved=True)


def test_a_call_that_is_refused_is_not_done() -> None:
    backend = StateBackend()
    waiting, result, call = deferred(backend)
    approvals = DeferredToolResults(approvals={call.tool_call_id: ToolDenied("no")})
    assert run(waiting, message_history=result.all_messages(), deferred_tool_results=approvals).output == "done"
    assert not backend.exists("x")


def test_somebody_to_ask_is_asked_at_once() -> None:
    backend = StateBackend()
    capability = ConsoleCapability(backend, RULES, ask=lambda operation, target, reason: target == "x")
    steps = [("write_file", {"path": path, "content": "new"}) for path in "xy"]
    result = run(agent(capability, *steps), "go")
    assert [part.outcome for part in returned(result)] == ["success", "failed"]
    assert [info.path for info in backend.ls()] == ["x"]


def test_a_denied_call_is_nothing_to_approve() -> None:
    steps = ("write_file", {"path": ".env", "content": "new"})
    rules = PermissionRuleset(write=OperationPermissions("ask", [PermissionRule("**/.env", "deny")]))
    assert run(agent(ConsoleCapability(StateBackend(), rules), steps), "go").output == "done"


def test_two_consoles_in_one_agent_have_names() -> None:
    first, second = (ConsoleCapability(StateBackend(), id=name) for name in ("first", "second"))
    assert [first.get_toolset().id, second.get_toolset().id] == ["first", "second"]


def test_tools_do_not_block_the_loop() -> None:
    asked = asyncio.Event()

    async def main() -> str:
        loop = asyncio.get_running_loop()

        def ask(operation: str, target: str, reason: str) -> bool:
            asyncio.run_coroutine_threadsafe(wake(), loop).result(30)
            return True

        async def wake() -> None:
            asked.set()

        step = ("write_file", {"path": "x", "content": ""})
        result = await agent(ConsoleCapability(StateBackend(), RULES, ask=ask), step).run("go")
        return str(result.output)

    assert asyncio.run(main()) == "done"
    assert asked.is_set()


def test_a_missing_library_is_named_with_its_extra() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_IT], timeout=60, check=True)


@pytest.mark.parametrize("module", ["sandbox_kit", "sandbox_kit.console"])
def test_nothing_else_needs_the_library(module: str) -> None:
    code = f"import sys; sys.modules['pydantic_ai'] = None; import {module}"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
