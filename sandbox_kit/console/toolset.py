"""console_tools: the tools of an agent over one backend, under rules."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox_kit.arguments import CommandMode, check_callable, check_commands, check_ruleset
from sandbox_kit.console.approving import Answers, nothing
from sandbox_kit.console.background import KILL_PROCESS, LIST_PROCESSES, READ_OUTPUT, RUN_IN_BACKGROUND
from sandbox_kit.console.changing import EDIT_FILE, WRITE_FILE
from sandbox_kit.console.desk import Desk
from sandbox_kit.console.listing import GLOB, LS
from sandbox_kit.console.reading import READ_FILE
from sandbox_kit.console.running import EXECUTE
from sandbox_kit.console.searching import GREP
from sandbox_kit.console.tool import Tool, ToolDefinition
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.guard import GuardedBackend, GuardedSandbox, guarding
from sandbox_kit.judge import Approvals, Ask
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.types import Operation

__all__ = ["backend_for", "console_tools"]

_FOR_FILES = (LS, READ_FILE, WRITE_FILE, EDIT_FILE, GLOB, GREP)
_FOR_COMMANDS = (EXECUTE, RUN_IN_BACKGROUND, READ_OUTPUT, KILL_PROCESS, LIST_PROCESSES)


def console_tools(
    backend: Backend,
    ruleset: PermissionRuleset | None = None,
    *,
    ask: Ask | None = None,
    commands: CommandMode = "auto",
    extra: Sequence[ToolDefinition] = (),
) -> list[Tool]:
    """Return the tools that a model may have over *backend*.

    What the rules refuse throughout has no tool. Without commands there are those of files alone.

    Args:
        backend: what they work with. A sandbox is started and stopped by whoever made it; make its guard first and
            start that, or pass one that is not started, where commands are to be confined.
        ruleset: the rules; None for those that *backend* is under already.
        ask: asked by the guard where a rule says "ask"; without one, such a call needs ``approved=``. It takes nobody's
            place: a guard that *backend* has already goes on asking its own person.
        commands: as for :func:`~sandbox_kit.guard.guarding`, with *ruleset*.
        extra: tools of your own, which come last.

    Raises:
        InvalidArgumentError: an argument is none of its values, or two tools have one name.
        UnsupportedError: ``commands="confined"`` where the kernel cannot.
    """
    desk = _desk(backend, backend_for(backend, ruleset, ask=ask, commands=commands))
    definitions = [*_FOR_FILES, *_FOR_COMMANDS, *extra]
    names = [each.name for each in definitions]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgumentError(f"extra: there is a tool {', '.join(twice)} already")
    offered = [each for each in definitions if _has(desk.backend, each) and _may(desk.backend, each)]
    return [Tool.over(desk, each, needs_approval=each.asks and _asks(desk.backend, each)) for each in offered]


def backend_for(
    backend: Backend,
    ruleset: PermissionRuleset | None = None,
    *,
    ask: Ask | None = None,
    commands: CommandMode = "auto",
) -> Backend:
    """Return *backend* as every tool gets it: under *ruleset*, and under the rules and the person that it has already.

    Args:
        backend, ruleset, ask, commands: as for :func:`console_tools`.

    Raises:
        InvalidArgumentError: an argument is none of its values.
        UnsupportedError: ``commands="confined"`` where the kernel cannot.
    """
    if not isinstance(backend, Backend):
        raise InvalidArgumentError(f"backend: {backend!r} is no Backend; a SandboxSpec is opened first")
    check_ruleset(ruleset)
    check_commands(commands)
    check_callable(ask, "ask")
    if ruleset is None and commands != "auto":
        raise InvalidArgumentError("commands: is how commands are held to a ruleset: give that, too")
    if ruleset is None:
        return backend if ask is None else _asking(backend, ask)
    return _guarded(backend, ruleset, ask, commands)


def _asking(backend: Backend, ask: Ask) -> Backend:
    """Return *backend* with *ask*, where its guard has nobody else."""
    if not isinstance(backend, GuardedBackend):
        raise InvalidArgumentError("ask: no rules of this backend would ask it: give a ruleset, too")
    if not backend._approvals.nobody:
        raise InvalidArgumentError("ask: the guard of this backend has its own answer: give a ruleset, too")
    return backend._asking(Approvals(ask, "error"))


def _guarded(backend: Backend, ruleset: PermissionRuleset, ask: Ask | None, commands: CommandMode) -> Backend:
    """Return *backend* in a guard: another one over its own, unless that is the same in all."""
    guarded = guarding(backend, ruleset, ask=ask, commands=commands)
    if guarded is backend or not isinstance(backend, GuardedBackend):
        return guarded
    if isinstance(backend, Sandbox):
        return GuardedSandbox(backend, ruleset, ask=ask, commands=commands)
    return GuardedBackend(backend, ruleset, ask=ask)


def _desk(given: Backend, guarded: Backend) -> Desk:
    """Return the desk over *guarded*, which the console has made, unless it is *given*."""
    if not isinstance(guarded, GuardedBackend):
        return Desk(guarded)
    if guarded._approvals.nobody:
        return Desk(guarded._asking(Answers(nothing)), answers=True)
    return Desk(guarded, answers=guarded is not given)


def _has(backend: Backend, definition: ToolDefinition) -> bool:
    """Whether *backend* can do what the tool needs."""
    if definition.needs == "files":
        return True
    return isinstance(backend, Sandbox) and (definition.needs == "commands" or backend.capabilities.spawn)


def _may(backend: Backend, definition: ToolDefinition) -> bool:
    """Whether the rules leave the tool anything to do."""
    rulesets = backend.rulesets if isinstance(backend, GuardedBackend) else ()
    return all(_opens(ruleset, operation) for ruleset in rulesets for operation in definition.operations)


def _opens(ruleset: PermissionRuleset, operation: Operation) -> bool:
    if ruleset.default_for(operation) != "deny":
        return True
    return any(rule.action != "deny" for rule in ruleset.rules_for(operation))


def _asks(backend: Backend, definition: ToolDefinition) -> bool:
    """Whether the console's guard asks about the tool, unless a rule says otherwise."""
    if not isinstance(backend, GuardedBackend):
        return False
    if definition.needs != "files" and isinstance(backend, GuardedSandbox) and backend._asks_for_all():
        return True
    return any(_asks_for(backend.rulesets[0], operation) for operation in definition.operations)


def _asks_for(ruleset: PermissionRuleset, operation: Operation) -> bool:
    default = ruleset.default_for(operation)
    opening = {rule.action for rule in ruleset.rules_for(operation)} - {"deny"}
    return default == "ask" or (default == "deny" and opening == {"ask"})
