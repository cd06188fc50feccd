"""Commands with fields that each item fills."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from attrs import Factory, field, frozen

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.jobs.quoting import assigned, obstacle

__all__ = ["CommandTemplate"]


_VARIABLE = "__field_"
"""What the names of variables begin with that hold the values of fields."""


@frozen
class _Field:
    """A field, with the text before it."""

    before: str
    name: str
    spec: str

    def filled(self, values: Mapping[str, Any]) -> str:
        """The field's text.

        Raises:
            InvalidArgumentError: there is no value for it, or none that has a text.
        """
        if self.name not in values:
            raise InvalidArgumentError(f"work: the item has no {self.name!r}; it has {', '.join(map(str, values))}")
        value = values[self.name]
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, str | int | float):
            raise InvalidArgumentError(f"work: {self.name}: is a text, a number or a path, not {type(value).__name__}")
        try:
            return format(value, self.spec)
        except ValueError as error:
            raise InvalidArgumentError(f"work: {self.name}: {error}") from error


@frozen
class _Text:
    """Text with fields: each with what is before it, then the rest."""

    fields: tuple[_Field, ...]
    rest: str

    def filled(self, values: Mapping[str, Any]) -> str:
        """The text, with the fields' values as they are."""
        return "".join(each.before + each.filled(values) for each in self.fields) + self.rest

    def line(self, values: Mapping[str, Any]) -> str:
        """A line of the shell that first assigns the fields' values to variables, and then refers to them."""
        told = {(each.name, each.spec): each.filled(values) for each in self.fields}
        variables = {key: f"{_VARIABLE}{number}" for number, key in enumerate(told, 1)}
        referring = (f'{each.before}"${{{variables[each.name, each.spec]}}}"' for each in self.fields)
        assignments = " ".join(assigned(variables[key], value) for key, value in told.items())
        return (assignments and assignments + "\n") + "".join(referring) + self.rest


def _source(source: str | Sequence[str]) -> str | tuple[str, ...]:
    words = (source,) if isinstance(source, str) else source
    if not isinstance(words, Sequence) or not words or not all(isinstance(word, str) and word for word in words):
        raise InvalidArgumentError("work: is a command, a sequence of words, or a function; not empty")
    if isinstance(source, str) and _VARIABLE in source:
        raise InvalidArgumentError(f"work: names that begin with {_VARIABLE} are those of the fields")
    return source if isinstance(source, str) else tuple(words)


def _texts(template: CommandTemplate) -> tuple[_Text, ...]:
    if isinstance(template.source, str):
        line = _parsed(template.source)
        _check_places(line)
        return (line,)
    return tuple(map(_parsed, template.source))


@frozen
class CommandTemplate:
    """A command with fields: ``{item}``, or where the items are mappings ``{name}`` for each of their keys.

    Args:
        source: a text goes to ``/bin/sh -c``, each field one word there, or a part of one: a reference, in quotes, to
            a variable that holds the value. A sequence is the program and its arguments, each field filled in as it
            is. A brace that is none of a field is written twice. A field may have a format: ``{number:03d}``.

    Raises:
        InvalidArgumentError: it is malformed, or a field of a text stands within quotes or where it would be no word.
    """

    source: str | tuple[str, ...] = field(converter=_source)
    _texts: tuple[_Text, ...] = field(default=Factory(_texts, takes_self=True), init=False, repr=False, eq=False)

    def command(self, item: Any) -> str | tuple[str, ...]:
        """Return the command for *item*.

        Raises:
            InvalidArgumentError: it has no value for a field, or one that is neither text, number nor path.
        """
        values = item if isinstance(item, Mapping) else {"item": item}
        if isinstance(self.source, str):
            return self._texts[0].line(values)
        return tuple(text.filled(values) for text in self._texts)


def _parsed(text: str) -> _Text:
    fields, before = [], ""
    try:
        for literal, name, spec, conversion in Formatter().parse(text):
            before += literal
            if name is not None:
                _check_field(name, spec or "", conversion)
                fields.append(_Field(before, name, spec or ""))
                before = ""
    except ValueError as error:
        raise InvalidArgumentError(
            f"work: {text!r}: {error}; a brace that is none of a field is written twice"
        ) from error
    return _Text(tuple(fields), before)


def _check_field(name: str, spec: str, conversion: str | None) -> None:
    if not name.isidentifier() or conversion or "{" in spec:
        raise ValueError(f"{name!r} is no field's name")


def _check_places(line: _Text) -> None:
    before = ""
    for each in line.fields:
        before += each.before
        if (where := obstacle(before)) is not None:
            raise InvalidArgumentError(
                f"work: {{{each.name}}} stands {where}: it is a quoted word of its own; give a sequence of words"
            )
        before += "x"
