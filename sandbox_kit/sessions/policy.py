"""The policy of an operator: one set of values at a time, and the one way to change it while it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.host.forks import ForkedFreeLock
from sandbox_kit.sessions.environment import read_environment
from sandbox_kit.sessions.files import named, read_document
from sandbox_kit.sessions.loading import dump_values, load_values
from sandbox_kit.sessions.updates import changed_names, updated
from sandbox_kit.sessions.values import PolicyValues

__all__ = ["SandboxPolicy", "apply_policy_update"]


class SandboxPolicy:
    """Holds the values that are in force; safe from several threads.

    :func:`apply_policy_update` changes them. Copied or pickled, it holds the values of that moment.

    Args:
        values: None for one that sets nothing.

    Raises:
        InvalidArgumentError: *values* is something else.
    """

    def __init__(self, values: PolicyValues | None = None) -> None:
        if values is not None and not isinstance(values, PolicyValues):
            raise InvalidArgumentError(f"values: is a PolicyValues, not {type(values).__name__}")
        self._values = values or PolicyValues()
        self._lock = ForkedFreeLock()

    def __repr__(self) -> str:
        return f"SandboxPolicy({self._values!r})"

    def __reduce__(self) -> tuple[type[SandboxPolicy], tuple[PolicyValues]]:
        return SandboxPolicy, (self._values,)

    def snapshot(self) -> PolicyValues:
        """The values now: never half of a change, and the same for good."""
        return self._values

    def to_dict(self) -> dict[str, Any]:
        """The values as a document of plain ones, without what is at its default; sizes in bytes."""
        return dump_values(self._values)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> SandboxPolicy:
        """Make a policy of plain values.

        Args:
            document: the fields by name; a runtime's are a mapping, its limits among them, or a bare
                image. None leaves a field at its default.

        Raises:
            PolicyError: with every problem of the values; if each is right alone, with all that contradict.
        """
        return cls(load_values(document))

    @classmethod
    def from_file(cls, path: str | Path) -> SandboxPolicy:
        """Make a policy of a file of the host.

        Args:
            path: UTF-8; JSON or TOML by its suffix, at most 1 MiB.

        Raises:
            PolicyError: with every problem of the document, each with the file's name and its place.
            PathNotFoundError: there is no such file.
            PathAccessError: it cannot be opened.
            NotRegularFileError: it is no file.
            PathError: another failure to read it.
        """
        with named(path):
            return cls.from_dict(read_document(path))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> SandboxPolicy:
        """Make a policy of environment variables, such as ``SANDBOX_KIT_MAX_SESSIONS=3``.

        Args:
            environ: ``SANDBOX_KIT_RUNTIMES`` is a JSON object; every other field is as it stands.

        Raises:
            PolicyError: with every problem; a variable with the prefix that is unknown is one.
        """
        return cls(load_values(*read_environment(environ)))

    def _exchange(self, expected: PolicyValues, values: PolicyValues) -> bool:
        """Put *values* in force if *expected* still is; return whether it was."""
        with self._lock:
            if self._values is not expected:
                return False
            self._values = values
            return True


def apply_policy_update(policy: SandboxPolicy, update: Mapping[str, Any], *, dry_run: bool = False) -> list[str]:
    """Change ceilings and lifetimes of *policy* while it is in force, all of *update* or nothing.

    Two updates at once are both made. ``max_read_bytes``, ``execute_timeout`` and the ceilings on sessions
    hold from the next call, limits of a sandbox from the next sandbox.

    Args:
        update: fields by name; under ``runtimes`` the limits of each alias, which must exist. What is
            absent stays as it is; None clears.
        dry_run: change nothing.

    Returns:
        The dotted names of what changed, or would, sorted: ``["max_sessions", "runtimes.locked.mem_limit"]``.

    Raises:
        PolicyError: with every field that is refused and why; nothing has changed.
    """
    while True:
        old = policy.snapshot()
        new = updated(old, update)
        names = changed_names(old, new)
        if dry_run or not names or policy._exchange(old, new):
            return names
