"""Backends by name. A backend's module is imported when it is first asked for."""

from __future__ import annotations

import re
from importlib import import_module

from attrs import frozen

from sandbox_kit.contract import Backend
from sandbox_kit.errors import InvalidArgumentError, MissingDependencyError

__all__ = ["backend_class", "backend_names", "check_backend_name", "register_backend"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@frozen
class _Entry:
    """Where a backend is, and the extra of this package that brings the library it needs."""

    target: str
    extra: str | None = None


_entries = {
    "docker": _Entry("sandbox_kit.backends.docker:DockerSandbox", extra="docker"),
    "files": _Entry("sandbox_kit.backends.local:LocalBackend"),
    "local": _Entry("sandbox_kit.backends.local:LocalSandbox"),
    "remote": _Entry("sandbox_kit.backends.remote:RemoteSandbox"),
    "state": _Entry("sandbox_kit.backends.state:StateBackend"),
}


def register_backend(name: str, target: str, *, extra: str | None = None) -> None:
    """Give a backend a name; registering the same one twice is fine.

    Args:
        name: 1 to 64 of ``a-z0-9_-``, first a letter.
        target: ``"module:Class"``; nothing is imported yet.
        extra: the extra of this package to name where the module's own imports fail.

    Raises:
        InvalidArgumentError: *name* or *target* is malformed, or another backend has the name.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(f"backend: {name!r} is not 1 to 64 of a-z0-9_-, first a letter")
    if not isinstance(target, str) or not _TARGET.fullmatch(target):
        raise InvalidArgumentError(f"backend {name}: {target!r} is not 'module:Class'")
    entry = _Entry(target, extra)
    if _entries.setdefault(name, entry) != entry:
        raise InvalidArgumentError(f"backend {name}: the name belongs to {_entries[name].target}")


def backend_names() -> list[str]:
    """Return every name, sorted."""
    return sorted(_entries)


def check_backend_name(name: str) -> str:
    """Return *name*.

    Raises:
        InvalidArgumentError: no backend has it; lists those that there are.
    """
    if not isinstance(name, str) or name not in _entries:
        raise InvalidArgumentError(f"backend: {name!r} is none of {', '.join(backend_names())}")
    return name


def backend_class(name: str) -> type[Backend]:
    """Import and return the class of the backend *name*.

    Raises:
        InvalidArgumentError: no backend has the name, or what has it is no backend.
        MissingDependencyError: a library that it needs is not installed; names the extra.
    """
    entry = _entries[check_backend_name(name)]
    module, _, attribute = entry.target.partition(":")
    try:
        found = getattr(import_module(module), attribute, None)
    except MissingDependencyError:
        raise
    except ImportError as error:
        raise _missing(name, entry, error) from error
    if not isinstance(found, type) or not issubclass(found, Backend):
        raise InvalidArgumentError(f"backend {name}: {entry.target} is no Backend class")
    return found


def _missing(name: str, entry: _Entry, error: ImportError) -> MissingDependencyError:
    advice = f": pip install 'sandbox-kit[{entry.extra}]'" if entry.extra else ""
    return MissingDependencyError(f"backend {name} cannot be imported ({error}){advice}", entry.extra)
