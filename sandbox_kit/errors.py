"""Every error that the library raises, in one tree.

Each is also the builtin that a Python programmer would catch::

    SandboxError
      PathError (OSError)
        PathNotFoundError (FileNotFoundError)
        PathExistsError (FileExistsError)
        PathIsDirectoryError (IsADirectoryError)
        PathNotDirectoryError (NotADirectoryError)
        PathAccessError (PermissionError)
        NotRegularFileError
      PathEscapeError (PermissionError)
      PermissionDeniedError (PermissionError)
        ApprovalRequiredError
      CommandFailedError
      SandboxTimeoutError (TimeoutError)
        CommandTimeoutError
      LimitExceededError
        ReadLimitError
        SessionLimitError
      EditError (ValueError)
      InvalidArgumentError (ValueError)
      UnsupportedError (NotImplementedError)
      SandboxUnavailableError (ConnectionError)
        SandboxClosedError
        RemoteProtocolError
      SandboxConflictError
      PatternError (ValueError)
      PolicyError (ValueError)
      ArchiveError
      MissingDependencyError (ImportError)
      JobError

A command that exits with a non-zero code is a result, not an error. All of them pickle
and deep-copy whole.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from sandbox_kit.types import CommandResult

__all__ = [
    "ApprovalRequiredError",
    "ArchiveError",
    "CommandFailedError",
    "CommandTimeoutError",
    "EditError",
    "InvalidArgumentError",
    "JobError",
    "LimitExceededError",
    "MissingDependencyError",
    "NotRegularFileError",
    "PathAccessError",
    "PathError",
    "PathEscapeError",
    "PathExistsError",
    "PathIsDirectoryError",
    "PathNotDirectoryError",
    "PathNotFoundError",
    "PatternError",
    "PermissionDeniedError",
    "PolicyError",
    "ReadLimitError",
    "RemoteProtocolError",
    "SandboxClosedError",
    "SandboxConflictError",
    "SandboxError",
    "SandboxTimeoutError",
    "SandboxUnavailableError",
    "SessionLimitError",
    "UnsupportedError",
]


def _rebuild(cls: type[SandboxError], values: tuple[Any, ...], state: dict[str, Any]) -> SandboxError:
    error = cls(*values)
    error.__dict__.update(state)
    return error


class SandboxError(Exception):
    """The root of the tree.

    A subclass names in ``_fields`` the attributes that its constructor takes, in order;
    copying and pickling rebuild the error from them, then restore every other attribute.
    """

    _fields: ClassVar[tuple[str, ...]] = ("message",)

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, name) for name in self._fields)
        return _rebuild, (type(self), values, dict(self.__dict__))


class PathError(SandboxError, OSError):
    """A path that an operation named could not be used.

    Args:
        path: the path, as it is named inside the sandbox.
        reason: what is wrong with it; the default is the class's own.

    ``errno``, ``strerror`` and ``filename`` are set as for any ``OSError``.
    """

    _fields = ("path", "reason")
    _errno: ClassVar[int] = errno.EIO
    _reason: ClassVar[str] = "could not be used"

    def __init__(self, path: str, reason: str | None = None) -> None:
        self.path = path
        self.reason = reason or self._reason
        OSError.__init__(self, self._errno, self.reason, path)
        self.message = f"{printable(path) or repr(path)}: {self.reason}"


class PathNotFoundError(PathError, FileNotFoundError):
    """Nothing has that name."""

    _errno = errno.ENOENT
    _reason = "no such file or directory"


class PathExistsError(PathError, FileExistsError):
    """Something has that name already."""

    _errno = errno.EEXIST
    _reason = "already exists"


class PathIsDirectoryError(PathError, IsADirectoryError):
    """A directory stands where a file belongs."""

    _errno = errno.EISDIR
    _reason = "is a directory"


class PathNotDirectoryError(PathError, NotADirectoryError):
    """A file stands where a directory belongs."""

    _errno = errno.ENOTDIR
    _reason = "not a directory"


class PathAccessError(PathError, PermissionError):
    """The file system, not a rule, refused."""

    _errno = errno.EACCES
    _reason = "permission denied by the file system"


class NotRegularFileError(PathError):
    """A FIFO, socket, device or link loop stands where a regular file belongs."""

    _errno = errno.EINVAL
    _reason = "not a regular file"


class PathEscapeError(SandboxError, PermissionError):
    """The path leads outside the root, as typed or through a link."""

    _fields = ("path", "reason")

    def __init__(self, path: str, reason: str = "leads outside the root") -> None:
        self.path = path
        self.reason = reason
        OSError.__init__(self, errno.EACCES, reason, path)
        self.message = f"{printable(path)}: {reason}"


class PermissionDeniedError(SandboxError, PermissionError):
    """A rule refused the operation; nothing has happened.

    Args:
        operation: the operation that was judged: ``"read"``, ``"execute"``, ...
        target: the path or command line, as the caller gave it; an argument vector quoted as for a shell.
        rule: the rule that decided, as text; None for a default.
        message: the whole sentence; made from the other three when not given.

    ``errno`` is ``EACCES`` and ``strerror`` the message; ``filename`` is the path, None for a command line.
    """

    _fields: ClassVar[tuple[str, ...]] = ("operation", "target", "rule", "message")
    _verb: ClassVar[str] = "denied"

    def __init__(self, operation: str, target: str, rule: str | None = None, message: str = "") -> None:
        by = f"by rule {rule}" if rule is not None else "by default"
        self.message = message or f"{operation} {printable(target)}: {self._verb} {by}"
        OSError.__init__(self, errno.EACCES, self.message, *([] if operation == "execute" else [target]))
        self.operation = operation
        self.target = target
        self.rule = rule


class ApprovalRequiredError(PermissionDeniedError):
    """A rule says "ask", and nobody was there to ask."""

    _verb = "needs approval"


class CommandFailedError(SandboxError):
    """``check=True`` or ``CommandResult.check()`` met a non-zero exit code."""

    _fields = ("result",)

    def __init__(self, result: CommandResult) -> None:
        detail = (result.stderr or result.stdout).strip().splitlines()[-1:]
        super().__init__(": ".join([f"command exited with {result.exit_code}", *map(printable, detail)]))
        self.result = result


class SandboxTimeoutError(SandboxError, TimeoutError):
    """An operation did not end within its limit.

    Args:
        message: what was cut short.
        timeout: the limit, in seconds.
    """

    _fields = ("message", "timeout")

    def __init__(self, message: str = "", timeout: float | None = None) -> None:
        super().__init__(message)
        self.timeout = timeout


class CommandTimeoutError(SandboxTimeoutError):
    """A command ran over its time limit and its whole process tree was killed.

    Args:
        result: what it had printed until then; its ``exit_code`` is None.
        timeout: the limit, in seconds.
    """

    _fields = ("result", "timeout")

    def __init__(self, result: CommandResult, timeout: float | None = None) -> None:
        super().__init__(f"command ran over its limit of {timeout} s and was killed", timeout)
        self.result = result


class LimitExceededError(SandboxError):
    """A configured ceiling would be exceeded.

    Args:
        message: what was asked for.
        limit: the ceiling, in the unit that the message names.
    """

    _fields = ("message", "limit")

    def __init__(self, message: str = "", limit: float | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class ReadLimitError(LimitExceededError):
    """A file holds more bytes than ``max_read_bytes``; none of them is returned."""


class SessionLimitError(LimitExceededError):
    """A ceiling on the number of sessions is reached."""


class EditError(SandboxError, ValueError):
    """The text to replace is not there, or not unique; the file is as it was.

    Args:
        path: the file.
        count: how often the text occurs.
    """

    _fields = ("path", "count", "message")

    def __init__(self, path: str, count: int, message: str = "") -> None:
        found = "does not occur" if count == 0 else f"occurs {count} times, not once"
        super().__init__(message or f"{printable(path)}: the text to replace {found}")
        self.path = path
        self.count = count


class InvalidArgumentError(SandboxError, ValueError):
    """An argument that no call could use: a NUL, a negative offset, a zero or NaN time-out."""


class UnsupportedError(SandboxError, NotImplementedError):
    """This backend, or this machine, cannot do what was asked."""


class SandboxUnavailableError(SandboxError, ConnectionError):
    """What runs the sandbox cannot be reached."""


class SandboxClosedError(SandboxUnavailableError):
    """The sandbox is not started, or stopped."""


class RemoteProtocolError(SandboxUnavailableError):
    """A service answered with something that its protocol does not have."""


class SandboxConflictError(SandboxError):
    """What has the name is not what was meant: another configuration, or another file by now."""


class PatternError(SandboxError, ValueError):
    """A glob or regular expression that cannot be used.

    Args:
        message: what is wrong.
        pattern: the pattern, whole.
        offset: where in it, in characters from 0; None when no single place is to blame.
    """

    _fields = ("reason", "pattern", "offset")

    def __init__(self, message: str, pattern: str = "", offset: int | None = None) -> None:
        at = f" at offset {offset}" if offset is not None else ""
        super().__init__(f"{message}{at} in pattern {pattern!r}")
        self.reason = message
        self.pattern = pattern
        self.offset = offset


class PolicyError(SandboxError, ValueError):
    """A policy or ruleset document is refused, whole.

    Args:
        problems: one sentence a problem, each with its place in the document.
    """

    _fields = ("problems",)

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class ArchiveError(SandboxError):
    """An archive holds something that is refused: a device, a link that leads outside."""


class MissingDependencyError(SandboxError, ImportError):
    """A backend needs a library that is not installed.

    Args:
        message: what needs which library.
        extra: the extra of this package that brings it.
    """

    _fields = ("message", "extra")

    def __init__(self, message: str, extra: str | None = None) -> None:
        super().__init__(message)
        self.extra = extra


class JobError(SandboxError):
    """What a job raised does not pickle: this stands for it.

    Args:
        kind: the name of its class.
        text: what it said.
        traceback: where it was raised, as text.
    """

    _fields = ("kind", "text", "traceback")

    def __init__(self, kind: str, text: str = "", traceback: str = "") -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
        self.text = text
        self.traceback = traceback


def printable(text: str) -> str:
    """*text* as it can stand in a message: control characters and lone surrogates escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
