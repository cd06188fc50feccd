"""How the command ends: its exit codes, and which error ends in which."""

from __future__ import annotations

from enum import IntEnum

from sandbox_kit.errors import (
    InvalidArgumentError,
    PathEscapeError,
    PatternError,
    PermissionDeniedError,
    PolicyError,
    SandboxTimeoutError,
)

__all__ = ["EPILOG", "ExitCode", "RefusedError", "UsageError", "exit_code"]


class ExitCode(IntEnum):
    """What the shell sees."""

    DONE = 0
    NO = 1
    USAGE = 2
    TIMEOUT = 124
    FAILED = 125
    REFUSED = 126
    INTERRUPTED = 130
    BROKEN_PIPE = 141


EPILOG = """\
exit codes:
  0    done; grep: something matched; check: allowed
  1    grep: nothing matched; check: denied, or would be asked;
       rules, policy check: the document is refused;
       session close: no such session, or another process holds it;
       doctor: something needed is missing
  2    the arguments cannot be used: unknown option, bad pattern, bad ruleset
  124  the time limit was reached
  125  the sandbox or the file system failed
  126  a rule refused, approval is needed, a path leads outside the root, or
       commands cannot be confined
  130  interrupted
  141  nobody reads the output any more
run ends with the command's own exit code, 128 + N after signal N. A line on
standard error that starts with "sandbox-kit:" tells its own codes apart.
"""


class UsageError(Exception):
    """The arguments cannot be used."""


class RefusedError(Exception):
    """The command is not run, because nothing can confine it and nobody agreed to that."""


_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (UsageError, ExitCode.USAGE),
    (RefusedError, ExitCode.REFUSED),
    (PermissionDeniedError, ExitCode.REFUSED),
    (PathEscapeError, ExitCode.REFUSED),
    (SandboxTimeoutError, ExitCode.TIMEOUT),
    (InvalidArgumentError, ExitCode.USAGE),
    (PatternError, ExitCode.USAGE),
    (PolicyError, ExitCode.USAGE),
)


def exit_code(error: Exception) -> ExitCode:
    """Return the exit code that *error* ends in."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)
