"""Tools go where their backend goes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import ApprovalRequest, ErrorText, Media, Tool, console_tools
from sandbox_kit.rules.presets import SECRETS

from .consoles import tools

Copy = Callable[[Any], Any]


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


COPIES = pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickled", "copied"])


@COPIES
def test_tools_work_elsewhere_by_the_same_rules_and_know_what_was_seen(copied: Copy, tmp_path: Path) -> None:
    before = console_tools(LocalBackend(tmp_path), SECRETS)
    (tmp_path / "x").write_text("one")
    {tool.name: tool for tool in before}["read_file"](path="x")
    after: dict[str, Tool] = {tool.name: tool for tool in copied(before)}
    assert [tool.openai() for tool in after.values()] == [tool.openai() for tool in before]
    assert "denied" in str(after["read_file"](path=".env"))
    (tmp_path / "x").write_text("two")
    assert "has changed" in str(after["write_file"](path="x", content=""))
    after["read_file"](path="x")
    assert after["write_file"](path="x", content="3") == "Wrote 1 B to x."


@COPIES
def test_a_copy_has_none_of_the_processes(copied: Copy) -> None:
    with LocalSandbox() as box:
        console = tools(box)
        console["run_in_background"](command="sleep 60")
        assert copied(console["list_processes"])() == "Nothing was started in the background."


@COPIES
def test_results_travel_whole(copied: Copy) -> None:
    request = ApprovalRequest("read", "x", "read: by default", "token")
    error = copied(ErrorText("text", request=request))
    assert (type(error), error, error.request, error.needs_approval) == (ErrorText, "text", request, True)
    assert copied(Media(b"\0", "image/png")) == Media(b"\0", "image/png")


def test_a_tool_shows_its_name_alone() -> None:
    (tool,) = (tool for tool in console_tools(StateBackend({".env": "secret"})) if tool.name == "ls")
    assert repr(tool) == "Tool(name='ls', needs_approval=False)"
