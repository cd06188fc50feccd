"""A handle is total: every primitive is its own, and none reaches a sandbox past what the handle checks."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import SandboxClosedError
from sandbox_kit.primitives import Command, CommandPrimitives, FilePrimitives, Query, allow
from sandbox_kit.search.dialect import parse
from sandbox_kit.sessions.borrowed import BorrowedSandbox
from sandbox_kit.sessions.forwarding import ForwardingSandbox
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy

PRIMITIVES = sorted(FilePrimitives.__abstractmethods__ | CommandPrimitives.__abstractmethods__)
LIFE = {"_start", "_stop", "_is_alive", "_usage"}
RUNS = {"operations": ("execute",), "authorize": allow}
READS = {"operations": ("read",), "authorize": allow}

CALLS = {
    "_as_given": ((), {}),
    "_resolve_prefixes": ((("/x",),), {}),
    "_resolve": ((("f",),), READS),
    "_stat": (("f",), READS),
    "_scandir": ((".",), READS),
    "_readlink": (("f",), READS),
    "_open_read": (("f",), READS),
    "_open_write": (("f",), READS),
    "_mkdir": (("d",), READS),
    "_symlink": (("f", "l"), READS),
    "_remove": (("f",), {**READS, "recursive": False}),
    "_rename": (("f", "g"), READS),
    "_search": ((Query(parse("x")), "."), READS),
    "_run": ((Command(("true",)),), RUNS),
    "_spawn": ((Command(("true",)),), RUNS),
}


def test_every_primitive_is_tried_below() -> None:
    assert set(CALLS) | LIFE == set(PRIMITIVES)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive_is_the_handles_own_with_the_contracts_parameters(name: str) -> None:
    assert name in vars(BorrowedSandbox if name in LIFE else ForwardingSandbox)
    ours, theirs = (inspect.signature(getattr(cls, name)).parameters for cls in (BorrowedSandbox, Sandbox))
    assert [*ours] == [*theirs]
    assert [each.default for each in ours.values()] == [each.default for each in theirs.values()]


def test_a_handle_overrides_no_public_method() -> None:
    classes = (BorrowedSandbox, ForwardingSandbox)
    functions = [name for cls in classes for name, value in vars(cls).items() if inspect.isfunction(value)]
    assert [name for name in functions if name[0] != "_"] == ["keep", "renew"]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_no_primitive_works_on_a_handle_that_was_returned(name: str, tmp_path: Path) -> None:
    arguments, options = CALLS[name]
    with SessionManager(SandboxPolicy(), workspace_root=tmp_path / "root", reap_every=None) as manager:
        with manager.open("a") as box:
            box.write("f", "x")
        with pytest.raises(SandboxClosedError):
            getattr(box, name)(*arguments, **options)
        assert manager.open("a").read("f") == "x"
