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
    from sandbox_kit.backends.local import LocalBackend, LocalSandbox
    from sandbox_kit.backends.state import StateBackend
    from sandbox_kit.guard import GuardedBackend, GuardedSandbox, guarding
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
    from sandbox_kit.search.matches import Matches

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
    "ArchiveError",
    "Backend",
    "Capabilities",
    "CommandFailedError",
    "CommandResult",
    "CommandTimeoutError",
    "EditError",
    "EditResult",
    "FileInfo",
    "GrepMatch",
    "GuardedBackend",
    "GuardedSandbox",
    "Identity",
    "InvalidArgumentError",
    "LimitExceededError",
    "Limits",
    "Listing",
    "LocalBackend",
    "LocalSandbox",
    "Matches",
    "MissingDependencyError",
    "NotRegularFileError",
    "Operation",
    "OperationPermissions",
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
    "PresetRow",
    "Process",
    "ReadLimitError",
    "RemoteProtocolError",
    "Sandbox",
    "SandboxClosedError",
    "SandboxConflictError",
    "SandboxError",
    "SandboxTimeoutError",
    "SandboxUnavailableError",
    "SessionLimitError",
    "Skipped",
    "StateBackend",
    "UnsupportedError",
    "Usage",
    "Verdict",
    "combine",
    "guarding",
    "parse_size",
    "preset_table",
]

_LOADED_ON_FIRST_USE = {
    "LocalBackend": "sandbox_kit.backends.local",
    "LocalSandbox": "sandbox_kit.backends.local",
    "StateBackend": "sandbox_kit.backends.state",
    "GuardedBackend": "sandbox_kit.guard",
    "GuardedSandbox": "sandbox_kit.guard",
    "guarding": "sandbox_kit.guard",
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
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used: what is not used costs no time at import."""
        if name not in _LOADED_ON_FIRST_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_LOADED_ON_FIRST_USE[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
