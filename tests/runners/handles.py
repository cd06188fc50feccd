"""Everything that a caller holds, sent to a worker and used there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit import (
    AsyncBackend,
    AsyncSandbox,
    Backend,
    CommandFailedError,
    CommandResult,
    Job,
    JobResult,
    Listing,
    LocalBackend,
    LocalSandbox,
    Media,
    PermissionChecker,
    Runtime,
    Sandbox,
    SandboxError,
    SandboxPolicy,
    SandboxSpec,
    SessionManager,
    StateBackend,
    Tool,
    WorkspaceArchive,
    console_tools,
    guarding,
)

from .agreement import RULES


def use(handle: object) -> str:
    """What a handle is good for, as text."""
    match handle:
        case AsyncBackend() | AsyncSandbox():
            return use(handle.inner)
        case Job():
            return str(handle("x").check().value.stdout.strip())
        case SandboxSpec():
            return use(handle.open())
        case Sandbox():
            with handle:
                return handle.execute("cat file.txt || echo empty", timeout=60).stdout.strip() + hidden(handle)
        case Backend():
            return handle.read("file.txt") + hidden(handle)
        case WorkspaceArchive():
            return handle.read("session", "file.txt")
        case PermissionChecker():
            return handle.verdict("read", "/a/.env").action
        case [Tool(name="read_file") as read_file]:
            return f"{'x' in str(read_file(path='file.txt'))}, {'secret' in str(read_file(path='.env'))}"
        case Listing():
            return ", ".join(info.path for info in handle)
        case _:
            return repr(handle)


def use_session(root: Path, session_id: str) -> str:
    """What a worker finds in the session that has the id, by a manager of its own."""
    with SessionManager(SandboxPolicy(), workspace_root=root) as manager, manager.open(session_id) as session:
        return session.execute("cat file.txt", timeout=60).stdout


def hidden(backend: Backend) -> str:
    """Whether ``.env`` can be read."""
    try:
        return backend.read(".env")
    except SandboxError as error:
        return f", {type(error).__name__}"


def _root(place: Path) -> Path:
    root = place / "archive" / "session" / "workspace"
    root.mkdir(parents=True, exist_ok=True)
    (root / "file.txt").write_text("x")
    (root / ".env").write_text(", secret")
    return root


def _reader(root: Path) -> list[Tool]:
    return [tool for tool in console_tools(LocalBackend(root), RULES) if tool.name == "read_file"]


def _with_its_text(value: object) -> tuple[object, str]:
    return value, repr(value)


HANDLES: dict[str, Callable[[Path], tuple[object, str]]] = {
    "local files": lambda place: (LocalBackend(_root(place)), "x, secret"),
    "local sandbox": lambda place: (LocalSandbox(_root(place)), "x, secret"),
    "started sandbox": lambda place: (LocalSandbox(_root(place)).start(), "x, secret"),
    "temporary sandbox": lambda place: (LocalSandbox(), "empty, PathNotFoundError"),
    "guarded files": lambda place: (guarding(LocalBackend(_root(place)), RULES), "x, PermissionDeniedError"),
    "guarded sandbox": lambda place: (
        guarding(LocalSandbox(_root(place)), RULES, commands="inspected"),
        "x, PermissionDeniedError",
    ),
    "files in memory": lambda place: (StateBackend({"file.txt": "x", ".env": ", secret"}), "x, secret"),
    "spec": lambda place: (
        SandboxSpec("local", {"root": _root(place)}, RULES, "inspected"),
        "x, PermissionDeniedError",
    ),
    "files for asyncio": lambda place: (AsyncBackend(LocalBackend(_root(place))), "x, secret"),
    "sandbox for asyncio": lambda place: (AsyncSandbox(LocalSandbox(_root(place))), "x, secret"),
    "job": lambda place: (Job(SandboxSpec("local"), "echo {item}"), "x"),
    "archive": lambda place: (WorkspaceArchive(_root(place).parents[1]), "x"),
    "checker": lambda place: (PermissionChecker(RULES), "deny"),
    "tools": lambda place: (_reader(_root(place)), "True, False"),
    "listing": lambda place: (LocalBackend(_root(place)).ls(), ".env, file.txt"),
    "ruleset": lambda place: _with_its_text(RULES),
    "runtime": lambda place: _with_its_text(Runtime("base", pip=["numpy"])),
    "policy": lambda place: _with_its_text(SandboxPolicy.from_dict({"max_sessions": 3}).snapshot()),
    "result": lambda place: _with_its_text(CommandResult(3, "out", "err")),
    "job's result": lambda place: _with_its_text(JobResult(3, CommandResult(0, "out"), artifacts={"a": b"\xff"})),
    "tool's result": lambda place: _with_its_text(Media(b"\xff", "image/png")),
    "error": lambda place: _with_its_text(CommandFailedError(CommandResult(3, "out", "err"))),
}
"""By name, what is made in a directory, and what a worker is to make of it."""

every_handle = pytest.mark.parametrize("name", HANDLES)
