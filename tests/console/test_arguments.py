"""What a model gives, and the shapes in which it is told what to give."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.console import ErrorText, Tool, console_tools
from sandbox_kit.errors import InvalidArgumentError

from .consoles import text, tools

ALL = console_tools(LocalSandbox())
READ = tools(StateBackend({"x": "1\n2\n3\n"}))["read_file"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def names(tool: Tool) -> str:
    return tool.name


@pytest.mark.parametrize("tool", ALL, ids=names)
def test_a_schema_describes_every_parameter_and_takes_no_other(tool: Tool) -> None:
    schema = tool.schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    assert all(each["description"] and each["type"] for each in schema["properties"].values())
    assert tool.description


@pytest.mark.parametrize("tool", ALL, ids=names)
def test_openai_gets_a_strict_function(tool: Tool) -> None:
    chat = tool.openai()
    function = chat["function"]
    assert (chat["type"], function["name"], function["description"]) == ("function", tool.name, tool.description)
    assert function["strict"] is True
    parameters = function["parameters"]
    assert parameters["additionalProperties"] is False
    assert parameters["required"] == list(parameters["properties"]) == list(tool.schema["properties"])
    optional = {name for name, each in parameters["properties"].items() if "null" in each["type"]}
    assert optional == set(tool.schema["properties"]) - set(tool.schema["required"])
    assert tool.openai(api="responses") == {"type": "function", **function}


@pytest.mark.parametrize("tool", ALL, ids=names)
def test_anthropic_gets_an_input_schema(tool: Tool) -> None:
    assert tool.anthropic() == {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def test_what_was_handed_out_can_be_changed() -> None:
    before = copy.deepcopy(READ.schema)
    READ.anthropic()["input_schema"]["properties"].clear()
    READ.openai()["function"]["parameters"]["properties"]["path"].clear()
    assert READ.schema == before


def test_an_api_that_there_is_not_raises() -> None:
    with pytest.raises(InvalidArgumentError, match="api"):
        READ.openai(api="assistants")  # type: ignore[arg-type]


def test_null_stands_for_what_is_left_out() -> None:
    assert READ.call({"path": "x", "offset": None, "limit": None}) == READ(path="x")


def test_arguments_may_be_their_json_text() -> None:
    assert READ.call('{"path": "x", "offset": 3}') == "     3\t3"
    assert tools(LocalSandbox())["list_processes"].call("") == "Nothing was started in the background."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "path is missing"),
        ({"path": None}, "path is missing"),
        ({"path": 3}, "path is an integer, not a string"),
        ({"path": ["x"]}, "path is an array, not a string"),
        ({"path": "x", "offset": "10"}, "offset is a string, not an integer"),
        ({"path": "x", "offset": True}, "offset is a boolean, not an integer"),
        ({"path": "x", "offset": 1.5}, "offset is a number, not an integer"),
        ({"path": "x", "offset": 0}, "offset is 0, not from 1 on"),
        ({"path": "x", "limit": 10**6}, "limit is 1000000, not from 1 to 2,000"),
        ({"path": "x", "file": "y"}, "there is no file"),
        ("{", "no valid JSON"),
        ("[]", "the arguments are an array, not an object"),
        ("null", "the arguments are null, not an object"),
        ("[" * 100_000, "no valid JSON"),
        ({"path": "x\0"}, "cannot hold a NUL"),
    ],
)
def test_wrong_arguments_are_named(arguments: Any, said: str) -> None:
    result = READ.call(arguments)
    assert isinstance(result, ErrorText)
    assert said in result


def test_every_problem_is_told_at_once_with_what_the_tool_takes() -> None:
    result = text(READ.call({"offset": "1", "file": "x"}))
    assert "there is no file; path is missing; offset is a string, not an integer" in result
    assert "It takes path (string, required), offset (integer), limit (integer)" in result


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    assert READ.call('{"path": "x", "offset": 2.0, "limit": 1}') == READ(path="x", offset=2, limit=1)


@given(arguments=st.dictionaries(st.sampled_from(["path", "offset", "limit", "other"]), JSON))
def test_whatever_a_model_gives_is_answered_with_text_that_can_be_sent(arguments: dict[str, Any]) -> None:
    for given_ in (arguments, json.dumps(arguments)):
        text(READ.call(given_)).encode()


@pytest.mark.parametrize("arguments", [None, 3, ["path"]], ids=["none", "number", "list"])
def test_arguments_that_no_model_gives_raise(arguments: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="arguments"):
        READ.call(arguments)
