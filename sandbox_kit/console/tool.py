"""Tool: one thing that a model may do, in the shapes that agent frameworks take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

from attrs import field, frozen

from sandbox_kit.answers import is_answer
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.failures import explain
from sandbox_kit.console.parameters import ArgumentsError, Parameter, check, parse, schema, strict
from sandbox_kit.console.results import ErrorText, Media, Result
from sandbox_kit.errors import InvalidArgumentError, SandboxError
from sandbox_kit.types import Operation

__all__ = ["Tool", "ToolDefinition"]


@frozen
class ToolDefinition:
    """A tool, before it has a backend.

    Attributes:
        name: of letters, digits and ``_``.
        description: for a model.
        parameters: what it takes.
        run: called with a :class:`~sandbox_kit.console.desk.Desk` and a value for each parameter, by its name. It
            works with ``desk.backend``, so that the console's rules hold for it; what it raises of this library's
            errors becomes text.
        operations: what rules must be able to allow, or it does not exist.
        needs: what the backend must have.
        asks: whether a rule may ask about it, for what it does itself.
    """

    name: str
    description: str
    parameters: Sequence[Parameter]
    run: Callable[..., Result]
    operations: Sequence[Operation]
    needs: Literal["files", "commands", "spawn"] = "files"
    asks: bool = True


@frozen(eq=False)
class Tool:
    """A tool for a model. Call it with keyword arguments, or pass :meth:`call` what the model gave.

    Any number of threads may use it. It pickles where its backend does.

    Attributes:
        name: for the model.
        description: for the model.
        schema: the JSON Schema of its arguments.
        needs_approval: whether a call is asked about unless a rule says otherwise.
    """

    name: str
    description: str = field(repr=False)
    schema: dict[str, Any] = field(repr=False)
    needs_approval: bool
    _definition: ToolDefinition = field(repr=False)
    _desk: Desk = field(repr=False)

    @classmethod
    def over(cls, desk: Desk, definition: ToolDefinition, *, needs_approval: bool) -> Tool:
        """Return the tool of *definition*, which works at *desk*."""
        parameters = schema(definition.parameters)
        return cls(definition.name, definition.description, parameters, needs_approval, definition, desk)

    def __call__(self, **arguments: Any) -> Result:
        """Do it, and return text or :class:`Media`; as :meth:`call`."""
        return self.call(arguments)

    def call(self, arguments: Mapping[str, Any] | str, *, approved: bool = False) -> Result:
        """Do it. What cannot be done is an :class:`ErrorText`, not an exception.

        Args:
            arguments: by name, or their JSON text, as a model gives them.
            approved: whether a person has approved this call: what the console's guard would ask about it is answered
                with yes. Other calls are not affected, nothing is remembered, and a denial stays one.

        Raises:
            InvalidArgumentError: *arguments* is neither a mapping nor text: the fault of the program, not of the model.
        """
        if not isinstance(arguments, Mapping | str):
            raise InvalidArgumentError(f"arguments: is a mapping or JSON text, not {type(arguments).__name__}")
        try:
            values = check(self._definition.parameters, parse(arguments))
        except ArgumentsError as error:
            return _sendable(ErrorText(f"Error: {self.name}: {error}."))
        return _sendable(self._run(self._desk.approved() if approved is True else self._desk, values))

    def _run(self, desk: Desk, values: Mapping[str, Any]) -> Result:
        try:
            return self._definition.run(desk, **values)
        except SandboxError as error:
            if is_answer(error):
                raise
            return explain(error)

    def openai(self, *, api: Literal["chat", "responses"] = "chat") -> dict[str, Any]:
        """Return the tool as OpenAI's APIs take it, in strict mode.

        Args:
            api: ``"chat"`` for Chat Completions, ``"responses"`` for Responses.

        Raises:
            InvalidArgumentError: *api* is neither.
        """
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": strict(deepcopy(self.schema)),
            "strict": True,
        }
        if api == "chat":
            return {"type": "function", "function": function}
        if api == "responses":
            return {"type": "function", **function}
        raise InvalidArgumentError(f"api: {api!r} is neither 'chat' nor 'responses'")

    def anthropic(self) -> dict[str, Any]:
        """Return the tool as Anthropic's Messages API takes it."""
        return {"name": self.name, "description": self.description, "input_schema": deepcopy(self.schema)}


def _sendable(result: Result) -> Result:
    """Return *result*, of text what UTF-8 can hold: the names of files may have other bytes, which are escaped."""
    if isinstance(result, Media) or result.isascii():
        return result
    text = result.encode("utf-8", "backslashreplace").decode()
    return ErrorText(text, needs_approval=result.needs_approval) if isinstance(result, ErrorText) else text
