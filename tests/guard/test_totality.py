"""The guard is total: no primitive gets past it, on any class, and none is passed on without a judge."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from sandbox_kit.backends.state import StateBackend
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.guard import GuardedBackend, GuardedSandbox, guarding
from sandbox_kit.primitives import CommandPrimitives, FilePrimitives, Query, allow
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.search.dialect import parse

FILES = sorted(FilePrimitives.__abstractmethods__)
COMMANDS = sorted(CommandPrimitives.__abstractmethods__)
UNJUDGED = {"_as_given", "_resolve_prefixes"}


def primitives(cls: type) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(cls).items() if name.startswith("_") and callable(value)}


@pytest.mark.parametrize("name", FILES)
def test_every_file_primitive_is_the_guards_own(name: str) -> None:
    assert name in vars(GuardedBackend)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_primitive_is_the_guards_own(name: str) -> None:
    assert name in vars(GuardedSandbox)


@pytest.mark.parametrize("name", [*FILES, *COMMANDS])
def test_a_primitive_has_the_same_parameters_as_in_the_contract(name: str) -> None:
    contract = FilePrimitives if name in FILES else CommandPrimitives
    guard = GuardedBackend if name in FILES else GuardedSandbox
    ours, theirs = (inspect.signature(getattr(cls, name)).parameters for cls in (guard, contract))
    assert [*ours] == [*theirs]
    assert [each.default for each in ours.values()] == [each.default for each in theirs.values()]


@pytest.mark.parametrize("cls", [GuardedBackend, GuardedSandbox])
def test_the_guard_overrides_no_public_method(cls: type) -> None:
    assert [name for name, value in vars(cls).items() if inspect.isfunction(value) and name[0] != "_"] == []


CALLS: dict[str, Callable[[Any], Any]] = {
    "_resolve": lambda files: files._resolve(("f",), operations=("read",), authorize=allow),
    "_stat": lambda files: files._stat("f", operations=("ls",), authorize=allow),
    "_scandir": lambda files: files._scandir(".", operations=("ls",), authorize=allow),
    "_readlink": lambda files: files._readlink("f", operations=("read",), authorize=allow),
    "_open_read": lambda files: files._open_read("f", operations=("read",), authorize=allow),
    "_open_write": lambda files: files._open_write("f", operations=("write",), authorize=allow),
    "_mkdir": lambda files: files._mkdir("d", operations=("write",), authorize=allow),
    "_symlink": lambda files: files._symlink("f", "l", operations=("write",), authorize=allow),
    "_remove": lambda files: files._remove("f", operations=("write",), authorize=allow, recursive=False),
    "_rename": lambda files: files._rename("f", "g", operations=("read", "write"), authorize=allow),
    "_search": lambda files: files._search(Query(parse("x")), ".", operations=("grep", "read"), authorize=allow),
}


def test_every_judged_primitive_is_tried_below() -> None:
    assert set(CALLS) | UNJUDGED == set(FILES)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_denying_ruleset_stops_every_primitive_before_the_backend_acts(name: str) -> None:
    backend = StateBackend({"f": "text"})
    before = backend.to_dict()
    with pytest.raises(PermissionDeniedError):
        CALLS[name](guarding(backend, PermissionRuleset("deny")))
    assert backend.to_dict() == before
