"""The parameters of a tool: as JSON Schema, and as a check of what a model gave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from sandbox_kit.console.cutting import cut_line
from sandbox_kit.errors import printable

__all__ = ["LONGEST_NAME", "ArgumentsError", "Parameter", "check", "parse", "schema", "strict"]

REQUIRED: Final = object()
LONGEST_NAME: Final = 4_096
"""How many characters a path or a pattern has at most."""

_LARGEST = 10**15
_SHOWN, _SHOWN_LENGTH = 5, 100
_KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


class ArgumentsError(Exception):
    """What a model gave is not what the tool takes; its text says what is wrong, and what the tool takes."""


@frozen
class Parameter:
    """One parameter of a tool.

    Attributes:
        name: of the keyword argument.
        kind: its JSON type.
        description: for a model.
        default: what the tool gets where the model gives nothing, or null; a parameter without one is required.
        least, most: the bounds of a number, included; None for none but what any number has: 10**15.
        longest: how many characters a string has at most; None for ``max_read_bytes`` of the backend.
    """

    name: str
    kind: Literal["string", "integer", "number", "boolean"]
    description: str
    default: Any = REQUIRED
    least: int | None = None
    most: int | None = None
    longest: int | None = None

    @property
    def required(self) -> bool:
        """Whether a model has to give it."""
        return self.default is REQUIRED

    def problem(self, value: object, longest: int) -> str | None:
        """Return what is wrong with *value*, as one phrase; None where it is fine.

        Args:
            longest: how many characters any string has at most.
        """
        if not isinstance(value, _KINDS[self.kind]) or (isinstance(value, bool) and self.kind != "boolean"):
            return f"{self.name} is {_kind_of(value)}, not {_with_article(self.kind)}"
        if isinstance(value, int | float) and not self._in_bounds(value):
            return f"{self.name} is {value if abs(value) <= _LARGEST else 'too large'}, not {self._bounds()}"
        if isinstance(value, str) and len(value) > (most := longest if self.longest is None else self.longest):
            return f"{self.name} has {len(value):,} characters, more than {most:,}"
        return None

    def _in_bounds(self, value: float) -> bool:
        least = -_LARGEST if self.least is None else self.least
        return least <= value <= (_LARGEST if self.most is None else self.most)

    def _bounds(self) -> str:
        least, most = self.least, self.most
        if most is not None:
            return f"from {-_LARGEST if least is None else least:,} to {most:,}"
        return "a usual one" if least is None else f"from {least:,} on"


def schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the JSON Schema of an object with *parameters* and nothing else."""
    return {
        "type": "object",
        "properties": {each.name: {"type": each.kind, "description": each.description} for each in parameters},
        "required": [each.name for each in parameters if each.required],
        "additionalProperties": False,
    }


def strict(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of :func:`schema` in which each property is required, and null stands for what is left out."""
    required = plain["required"]
    properties = {
        name: dict(each) if name in required else {**each, "type": [each["type"], "null"]}
        for name, each in plain["properties"].items()
    }
    return {**plain, "properties": properties, "required": list(properties)}


def parse(arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """Return the arguments of a call, of which a model may have given the JSON text.

    Raises:
        ArgumentsError: the text is no JSON object.
    """
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"the arguments are no valid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ArgumentsError(f"the arguments are {_kind_of(parsed)}, not an object")
    return parsed


def check(parameters: Sequence[Parameter], given: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """Return a value for each of *parameters*.

    Args:
        longest: how many characters any string has at most.

    Raises:
        ArgumentsError: with every problem of *given*.
    """
    known = {each.name: each for each in parameters}
    whole = {name: _whole(value) for name, value in given.items() if value is not None}
    problems = _unknown([name for name in given if name not in known])
    problems += [f"{each.name} is missing" for each in parameters if each.required and each.name not in whole]
    problems += filter(None, (known[name].problem(value, longest) for name, value in whole.items() if name in known))
    if problems:
        raise ArgumentsError(f"{'; '.join(problems)}. It takes {_told(parameters)}")
    return {name: whole.get(name, each.default) for name, each in known.items()}


def _unknown(names: Sequence[str]) -> list[str]:
    told = [f"there is no {cut_line(printable(str(name)), _SHOWN_LENGTH)}" for name in names[:_SHOWN]]
    more = len(names) - _SHOWN
    return [*told, f"nor {more:,} others that were given"] if more > 0 else told


def _whole(value: Any) -> Any:
    """Return *value*; JSON Schema takes 2.0 for an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _told(parameters: Iterable[Parameter]) -> str:
    told = [f"{each.name} ({each.kind}{', required' if each.required else ''})" for each in parameters]
    return ", ".join(told) or "no arguments"


def _kind_of(value: object) -> str:
    names = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (Mapping, "object"))
    kind = next((name for each, name in names if isinstance(value, each)), None)
    return _with_article(kind) if kind else "null" if value is None else "an array"


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeio" else f"a {kind}"
