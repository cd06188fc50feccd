"""Tool: one thing that a model may do, in the shapes that agent frameworks take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

from attrs import field, frozen

from sandbox_kit.answers import is_answer
from sandbox_kit.console.approving import UnansweredError, Yes
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.failures import explain, explain_unanswered
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

    def call(self, arguments: Mapping[str, Any] | str, *, approved: bool | str = False) -> Result:
        """Do it. What cannot be done is an :class:`ErrorText`, not an exception.

        Args:
            arguments: by name, or their JSON text, as a model gives them.
            approved: the token of the request that this very call was answered with: a person has seen it and says
                yes to just that, and what else the call asks for by now is another request. True is a yes to whatever
                the console's guard asks about the call, seen by nobody. Either is good for this call alone, and a
                denial stays one.

        Raises:
            InvalidArgumentError: the program is at fault, not the model: *arguments* is neither a mapping nor text, or
                a tool of its own returned something else than a result.
        """
        if not isinstance(arguments, Mapping | str):
            raise InvalidArgumentError(f"arguments: is a mapping or JSON text, not {type(arguments).__name__}")
        try:
            values = check(self._definition.parameters, parse(arguments), self._desk.backend.max_read_bytes)
        except ArgumentsError as error:
            return _sendable(ErrorText(f"Error: {self.name}: {error}."))
        return self._checked(
            self._run(Yes(self.name, values, approved if isinstance(approved, str) else approved is True))
        )

    def _checked(self, result: object) -> Result:
        if isinstance(result, str | Media):
            return _sendable(result)
        kind = type(result).__name__
        raise InvalidArgumentError(f"the tool {self.name} returned {kind}: text or Media is what a tool returns")

    def _run(self, yes: Yes) -> Result:
        desk = self._desk.approved(yes) if yes.given else self._desk
        try:
            return self._definition.run(desk, **yes.values)
        except UnansweredError as error:
            return explain_unanswered(error, yes.request(error.question))
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
    return ErrorText(text, request=result.request) if isinstance(result, ErrorText) else text
