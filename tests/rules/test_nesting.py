"""How deep a document is, against what a parser makes of it."""

from __future__ import annotations

import json
import tomllib
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.rules.nesting import DEEPEST, check_json_depth, check_toml_depth

SIZE = 400_000
SECONDS = 5


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def deep(levels: int) -> Any:
    value: Any = "]}[{\"'"
    for number in range(levels):
        value = {"k]": value} if number % 2 else [value, "\\"]
    return value


values = st.recursive(
    st.integers() | st.text(st.sampled_from('"\\[]{}a')),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(st.sampled_from('"\\[{')), inner, max_size=2),
    max_leaves=8,
)


@given(values, st.integers(0, DEEPEST + 3))
def test_json_is_as_deep_as_it_is_parsed(value: Any, around: int) -> None:
    for _ in range(around):
        value = [value]
    text = json.dumps(value)
    if depth_of(json.loads(text)) <= DEEPEST:
        check_json_depth(text)
        return
    with pytest.raises(ValueError, match="deeper"):
        check_json_depth(text)


def test_the_limit_itself_is_allowed() -> None:
    check_json_depth(json.dumps(deep(DEEPEST)))
    with pytest.raises(ValueError, match="deeper"):
        check_json_depth(json.dumps(deep(DEEPEST + 1)))


dotted = ".".join(["a"] * DEEPEST)
parts = st.sampled_from(["a", "b-1", '"x.y"', "'.'", '"\\"."', '"#"', '""', "''"])
fillers = st.sampled_from(
    [
        f'v = "{dotted}.a"',
        f"v = '{dotted}.a'",
        f'v = """{dotted}.a"\n{dotted}.a"""',
        f'v = """\\"""{dotted}.a""""',
        f'v = """{dotted}"""""',
        f"v = '''{dotted}.a'\n{dotted}.a'''''",
        f"# {dotted}.a",
        f"v = 1.5 # {dotted}.a",
        "v = [1.5, 2.5, 1979-05-27T07:32:00.999]",
        '[[v]]\nx.y = { "a" = ["]", \'[\'] }',
        f"v = {'[' * DEEPEST}{']' * DEEPEST}",
        "",
    ]
)


@given(fillers, st.lists(parts, min_size=DEEPEST - 1, max_size=DEEPEST + 2), st.sampled_from([".", " . ", "\t."]))
def test_a_key_is_found_behind_whatever_a_parser_takes(filler: str, key: list[str], dot: str) -> None:
    longest = dot.join(key)
    for text in (f"{filler}\n{longest} = 1", f"{filler}\n[{longest}]", f"{filler}\nlast = {{ f = 1, {longest} = 2 }}"):
        tomllib.loads(text)
        if len(key) <= DEEPEST:
            check_toml_depth(text)
            continue
        with pytest.raises(ValueError, match="parts"):
            check_toml_depth(text)


@pytest.mark.parametrize(
    "text", ['f = { s = """x"""", KEY = 1 }', "f = { s = '''x''''', KEY = 1 }", 'f = { s = """\\"""", KEY = 1 }']
)
def test_quotes_at_the_end_of_a_text_hide_nothing(text: str) -> None:
    for key in (dotted, f"{dotted}.a"):
        tomllib.loads(text.replace("KEY", key))
    check_toml_depth(text.replace("KEY", dotted))
    with pytest.raises(ValueError, match="parts"):
        check_toml_depth(text.replace("KEY", f"{dotted}.a"))


@pytest.mark.parametrize(
    "text",
    ['a = "' + '\\"' * SIZE, 'a = """' + '\\"' * SIZE, '"' * SIZE, "'" * SIZE, "a" * SIZE, " " * SIZE, "a. " * SIZE],
    ids=["escapes", "escapes in lines", "quotes", "literals", "name", "blanks", "dots"],
)
def test_it_takes_linear_time(text: str) -> None:
    before = monotonic()
    for check in (check_json_depth, check_toml_depth):
        try:
            check(text)
        except ValueError:
            continue
    assert monotonic() - before < SECONDS
