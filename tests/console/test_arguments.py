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
from sandbox_kit.console import Desk, ErrorText, Parameter, Tool, ToolDefinition, console_tools
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
        ({"path": "x", "offset": 10**5000}, "offset is too large, not from 1 on"),
        ({"path": "x", "offset": float("inf")}, "offset is a number, not an integer"),
        ({"path": "x", "limit": -(10**5000)}, "limit is too large, not from 1 to 2,000"),
        ({"path": "x" * 4_097}, "path has 4,097 characters, more than 4,096"),
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


@pytest.mark.parametrize("tool", ALL, ids=names)
def test_no_answer_echoes_much(tool: Tool) -> None:
    given = dict.fromkeys(tool.schema["properties"], "x" * 10**6)
    others = {f"{number}{'y' * 10**6}\n": 1 for number in range(100)}
    for arguments in (given, {**given, **others}, json.dumps(given | others)):
        result = tool.call(arguments)
        assert isinstance(result, ErrorText) or not given
        assert len(text(result)) < 2_000


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("x" * 4_096, ": file name too long."),
        ("x/" * 2_048, ": file name too long."),
        ("\ud800" * 4_096, "; correct the argument."),
    ],
    ids=["name", "path", "surrogates"],
)
def test_a_path_is_told_in_short_and_so_is_what_is_wrong(path: str, advice: str) -> None:
    result = text(READ(path=path))
    assert len(result) < 2_000
    assert result.endswith(advice)


def test_a_number_without_bounds_has_some() -> None:
    def double(desk: Desk, number: float) -> str:
        return str(2 * number)

    own = ToolDefinition("double", "Double.", [Parameter("number", "number", "A number.")], double, [])
    tool = tools(StateBackend(), extra=[own])["double"]
    assert tool(number=-1.5) == "-3.0"
    for number in (float("inf"), float("nan"), 10**400):
        assert "number is too large, not a usual one" in text(tool(number=number))


@pytest.mark.parametrize("returned", [None, 3, b"text", ["text"]], ids=repr)
def test_a_tool_of_ones_own_that_returns_no_result_is_told_to_its_programmer(returned: Any) -> None:
    own = ToolDefinition("own", "Own.", [], lambda desk: returned, [])
    with pytest.raises(InvalidArgumentError, match=f"the tool own returned {type(returned).__name__}: text or Media"):
        tools(StateBackend(), extra=[own])["own"]()


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
