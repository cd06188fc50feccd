"""Work with files and commands in an isolated workspace, under an operator's rules."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sandbox_kit.contract import Backend, Process, Sandbox
from sandbox_kit.errors import (
    ApprovalRequiredError,
    ArchiveError,
    CommandFailedError,
    CommandTimeoutError,
    EditError,
    InvalidArgumentError,
    JobError,
    LimitExceededError,
    MissingDependencyError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathEscapeError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    PatternError,
    PermissionDeniedError,
    PolicyError,
    ReadLimitError,
    RemoteProtocolError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    SessionLimitError,
    UnsupportedError,
)
from sandbox_kit.types import (
    Action,
    Capabilities,
    CommandResult,
    EditResult,
    FileInfo,
    GrepMatch,
    Identity,
    Limits,
    Listing,
    Operation,
    Skipped,
    Usage,
    Verdict,
    parse_size,
)

if TYPE_CHECKING:
    from sandbox_kit.aio import AsyncBackend, AsyncProcess, AsyncSandbox
    from sandbox_kit.archives import Archive, Entries
    from sandbox_kit.backends.docker import DockerSandbox as DockerSandbox
    from sandbox_kit.backends.local import LocalBackend, LocalSandbox
    from sandbox_kit.backends.remote import RemoteSandbox, read_remote_policy, update_remote_policy
    from sandbox_kit.backends.state import StateBackend
    from sandbox_kit.console import ErrorText, Media, Tool, ToolDefinition, console_tools
    from sandbox_kit.exports import Export
    from sandbox_kit.guard import GuardedBackend, GuardedSandbox, guarding
    from sandbox_kit.jobs import Job, JobResult
    from sandbox_kit.leftovers import Leftover, Swept
    from sandbox_kit.pool import SandboxPool
    from sandbox_kit.primitives import (
        Authorize,
        Command,
        CommandPrimitives,
        Entry,
        FilePrimitives,
        Masks,
        MaskSource,
        Operations,
        Query,
        allow,
        settle,
    )
    from sandbox_kit.registry import backend_class, backend_names, register_backend
    from sandbox_kit.rules.checker import PermissionChecker
    from sandbox_kit.rules.presets import (
        DANGEROUS_COMMANDS,
        DEFAULT,
        NOT_SECRET_PATTERNS,
        PERMISSIVE,
        PRESETS,
        READONLY,
        SECRET_PATTERNS,
        SECRETS,
        STRICT,
        SYSTEM_PATTERNS,
        PresetRow,
        combine,
        preset_table,
    )
    from sandbox_kit.rules.ruleset import (
        OPERATIONS,
        PATH_OPERATIONS,
        OperationPermissions,
        PermissionRule,
        PermissionRuleset,
    )
    from sandbox_kit.runtime import Runtime
    from sandbox_kit.search.matches import Matches
    from sandbox_kit.sessions.archive import WorkspaceArchive
    from sandbox_kit.sessions.events import SessionEvent
    from sandbox_kit.sessions.ids import check_session_id
    from sandbox_kit.sessions.makers import Factory
    from sandbox_kit.sessions.manager import SessionManager
    from sandbox_kit.sessions.overrides import PolicyOverrides
    from sandbox_kit.sessions.policy import SandboxPolicy, apply_policy_update
    from sandbox_kit.sessions.reaper import Reaped
    from sandbox_kit.sessions.remote_archive import RemoteWorkspaceArchive
    from sandbox_kit.sessions.schema import SessionInfo
    from sandbox_kit.sessions.values import PolicyValues, RuntimeProfile
    from sandbox_kit.sessions.volume_archive import VolumeArchive
    from sandbox_kit.spec import SandboxSpec
    from sandbox_kit.sweep import sweep_engine

__all__ = [
    "DANGEROUS_COMMANDS",
    "DEFAULT",
    "NOT_SECRET_PATTERNS",
    "OPERATIONS",
    "PATH_OPERATIONS",
    "PERMISSIVE",
    "PRESETS",
    "READONLY",
    "SECRETS",
    "SECRET_PATTERNS",
    "STRICT",
    "SYSTEM_PATTERNS",
    "Action",
    "ApprovalRequiredError",
    "Archive",
    "ArchiveError",
    "AsyncBackend",
    "AsyncProcess",
    "AsyncSandbox",
    "Authorize",
    "Backend",
    "Capabilities",
    "Command",
    "CommandFailedError",
    "CommandPrimitives",
    "CommandResult",
    "CommandTimeoutError",
    "EditError",
    "EditResult",
    "Entries",
    "Entry",
    "ErrorText",
    "Export",
    "Factory",
    "FileInfo",
    "FilePrimitives",
    "GrepMatch",
    "GuardedBackend",
    "GuardedSandbox",
    "Identity",
    "InvalidArgumentError",
    "Job",
    "JobError",
    "JobResult",
    "Leftover",
    "LimitExceededError",
    "Limits",
    "Listing",
    "LocalBackend",
    "LocalSandbox",
    "MaskSource",
    "Masks",
    "Matches",
    "Media",
    "MissingDependencyError",
    "NotRegularFileError",
    "Operation",
    "OperationPermissions",
    "Operations",
    "PathAccessError",
    "PathError",
    "PathEscapeError",
    "PathExistsError",
    "PathIsDirectoryError",
    "PathNotDirectoryError",
    "PathNotFoundError",
    "PatternError",
    "PermissionChecker",
    "PermissionDeniedError",
    "PermissionRule",
    "PermissionRuleset",
    "PolicyError",
    "PolicyOverrides",
    "PolicyValues",
    "PresetRow",
    "Process",
    "Query",
    "ReadLimitError",
    "Reaped",
    "RemoteProtocolError",
    "RemoteSandbox",
    "RemoteWorkspaceArchive",
    "Runtime",
    "RuntimeProfile",
    "Sandbox",
    "SandboxClosedError",
    "SandboxConflictError",
    "SandboxError",
    "SandboxPolicy",
    "SandboxPool",
    "SandboxSpec",
    "SandboxTimeoutError",
    "SandboxUnavailableError",
    "SessionEvent",
    "SessionInfo",
    "SessionLimitError",
    "SessionManager",
    "Skipped",
    "StateBackend",
    "Swept",
    "Tool",
    "ToolDefinition",
    "UnsupportedError",
    "Usage",
    "Verdict",
    "VolumeArchive",
    "WorkspaceArchive",
    "allow",
    "apply_policy_update",
    "backend_class",
    "backend_names",
    "check_session_id",
    "combine",
    "console_tools",
    "guarding",
    "parse_size",
    "preset_table",
    "read_remote_policy",
    "register_backend",
    "settle",
    "sweep_engine",
    "update_remote_policy",
]

_LOADED_ON_FIRST_USE = {
    "AsyncBackend": "sandbox_kit.aio",
    "AsyncProcess": "sandbox_kit.aio",
    "AsyncSandbox": "sandbox_kit.aio",
    "Archive": "sandbox_kit.archives",
    "Entries": "sandbox_kit.archives",
    "LocalBackend": "sandbox_kit.backends.local",
    "LocalSandbox": "sandbox_kit.backends.local",
    "RemoteSandbox": "sandbox_kit.backends.remote",
    "read_remote_policy": "sandbox_kit.backends.remote",
    "update_remote_policy": "sandbox_kit.backends.remote",
    "StateBackend": "sandbox_kit.backends.state",
    "ErrorText": "sandbox_kit.console",
    "Media": "sandbox_kit.console",
    "Tool": "sandbox_kit.console",
    "ToolDefinition": "sandbox_kit.console",
    "console_tools": "sandbox_kit.console",
    "Export": "sandbox_kit.exports",
    "GuardedBackend": "sandbox_kit.guard",
    "GuardedSandbox": "sandbox_kit.guard",
    "guarding": "sandbox_kit.guard",
    "Job": "sandbox_kit.jobs",
    "JobResult": "sandbox_kit.jobs",
    "Leftover": "sandbox_kit.leftovers",
    "Swept": "sandbox_kit.leftovers",
    "Authorize": "sandbox_kit.primitives",
    "Command": "sandbox_kit.primitives",
    "CommandPrimitives": "sandbox_kit.primitives",
    "Entry": "sandbox_kit.primitives",
    "FilePrimitives": "sandbox_kit.primitives",
    "MaskSource": "sandbox_kit.primitives",
    "Masks": "sandbox_kit.primitives",
    "Operations": "sandbox_kit.primitives",
    "Query": "sandbox_kit.primitives",
    "allow": "sandbox_kit.primitives",
    "settle": "sandbox_kit.primitives",
    "PermissionChecker": "sandbox_kit.rules.checker",
    "DANGEROUS_COMMANDS": "sandbox_kit.rules.presets",
    "DEFAULT": "sandbox_kit.rules.presets",
    "NOT_SECRET_PATTERNS": "sandbox_kit.rules.presets",
    "PERMISSIVE": "sandbox_kit.rules.presets",
    "PRESETS": "sandbox_kit.rules.presets",
    "PresetRow": "sandbox_kit.rules.presets",
    "READONLY": "sandbox_kit.rules.presets",
    "SECRETS": "sandbox_kit.rules.presets",
    "SECRET_PATTERNS": "sandbox_kit.rules.presets",
    "STRICT": "sandbox_kit.rules.presets",
    "SYSTEM_PATTERNS": "sandbox_kit.rules.presets",
    "combine": "sandbox_kit.rules.presets",
    "preset_table": "sandbox_kit.rules.presets",
    "OPERATIONS": "sandbox_kit.rules.ruleset",
    "OperationPermissions": "sandbox_kit.rules.ruleset",
    "PATH_OPERATIONS": "sandbox_kit.rules.ruleset",
    "PermissionRule": "sandbox_kit.rules.ruleset",
    "PermissionRuleset": "sandbox_kit.rules.ruleset",
    "Matches": "sandbox_kit.search.matches",
    "PolicyOverrides": "sandbox_kit.sessions.overrides",
    "SandboxPolicy": "sandbox_kit.sessions.policy",
    "apply_policy_update": "sandbox_kit.sessions.policy",
    "PolicyValues": "sandbox_kit.sessions.values",
    "RuntimeProfile": "sandbox_kit.sessions.values",
    "Factory": "sandbox_kit.sessions.makers",
    "Reaped": "sandbox_kit.sessions.reaper",
    "RemoteWorkspaceArchive": "sandbox_kit.sessions.remote_archive",
    "SessionEvent": "sandbox_kit.sessions.events",
    "SessionInfo": "sandbox_kit.sessions.schema",
    "SessionManager": "sandbox_kit.sessions.manager",
    "VolumeArchive": "sandbox_kit.sessions.volume_archive",
    "WorkspaceArchive": "sandbox_kit.sessions.archive",
    "check_session_id": "sandbox_kit.sessions.ids",
    "Runtime": "sandbox_kit.runtime",
    "SandboxPool": "sandbox_kit.pool",
    "SandboxSpec": "sandbox_kit.spec",
    "backend_class": "sandbox_kit.registry",
    "backend_names": "sandbox_kit.registry",
    "register_backend": "sandbox_kit.registry",
    "sweep_engine": "sandbox_kit.sweep",
}


_NEEDS_AN_EXTRA = {"DockerSandbox": "docker"}
"""Backends whose library may not be installed: not in ``__all__``, so that a star import works without it."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used: what is not used costs no time at import."""
        if name in _NEEDS_AN_EXTRA:
            value = import_module("sandbox_kit.registry").backend_class(_NEEDS_AN_EXTRA[name])
        elif name in _LOADED_ON_FIRST_USE:
            value = getattr(import_module(_LOADED_ON_FIRST_USE[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
