"""What could not be done, as text that a model can act on: what failed, by which rule, and what to do next."""

from __future__ import annotations

from sandbox_kit.console.cutting import shorten
from sandbox_kit.console.results import ApprovalRequest, ErrorText
from sandbox_kit.errors import (
    ApprovalRequiredError,
    EditError,
    InvalidArgumentError,
    LimitExceededError,
    NotRegularFileError,
    PathAccessError,
    PathEscapeError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    PatternError,
    PermissionDeniedError,
    ReadLimitError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    UnsupportedError,
    printable,
)

__all__ = ["explain", "explain_unanswered"]

_LONGEST = 1_000

_NEXT: tuple[tuple[type[SandboxError], str], ...] = (
    (PermissionDeniedError, "nothing was done; this is the operator's rule, so work without it or tell the user"),
    (PathNotFoundError, "look for its name with ls or glob"),
    (PathIsDirectoryError, "name a file in it, or list it with ls"),
    (PathNotDirectoryError, "a file is in the way: look at its parents with ls"),
    (PathExistsError, "choose another name"),
    (PathAccessError, "the permissions of the file system do not allow it"),
    (NotRegularFileError, "only regular files can be read and written"),
    (PathEscapeError, "only what lies beneath the work directory can be reached: use a relative path"),
    (ReadLimitError, "take a part of it with grep, or with offset and limit"),
    (PatternError, "correct the pattern"),
    (InvalidArgumentError, "correct the argument"),
    (SandboxConflictError, "read it again with read_file, then decide anew"),
    (SandboxTimeoutError, "try something smaller"),
    (LimitExceededError, "stay within the limit"),
    (UnsupportedError, "do it another way"),
    (SandboxUnavailableError, "if it happens again, tell the user"),
)
"""What to do after each kind of error; the first that fits."""


def explain(error: SandboxError) -> ErrorText:
    """Return the text of *error* for a model."""
    if isinstance(error, ApprovalRequiredError):
        return ErrorText(f"Error: {_approval(error)}, as nobody can be asked here; work without it or tell the user.")
    if isinstance(error, SandboxClosedError):
        return ErrorText("Error: the sandbox does not run; tell the user.")
    said = shorten(str(error), _LONGEST)
    if isinstance(error, EditError):
        return ErrorText(f"Error: {said}; {_after_edit(error.count)}.")
    advice = next((text for kind, text in _NEXT if isinstance(error, kind)), None)
    return ErrorText(f"Error: {said}{f'; {advice}' if advice else ''}.")


def explain_unanswered(error: ApprovalRequiredError, request: ApprovalRequest) -> ErrorText:
    """Return the text of what the console's own guard asks; *request* goes to a person."""
    return ErrorText(
        f"Error: {_approval(error)}: ask the user to approve it, or work without it.",
        request=request,
    )


def _approval(error: ApprovalRequiredError) -> str:
    by = f"rule {error.rule}" if error.rule is not None else "default"
    return f"{error.operation} {shorten(printable(error.target), _LONGEST)}: needs approval by {by}; nothing was done"


def _after_edit(count: int) -> str:
    if count:
        return "nothing was changed: give more of the text around it, or set replace_all"
    return (
        "nothing was changed: read the file again and copy the text exactly, with its blanks and line ends "
        "and without the line numbers that read_file shows"
    )
