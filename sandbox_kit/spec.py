"""SandboxSpec: a sandbox to be, as plain values that travel between processes."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from attrs import NOTHING, asdict, field, fields, frozen

from sandbox_kit.arguments import CommandMode, check_commands, check_ruleset
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.guard import guarding
from sandbox_kit.registry import backend_class, check_backend_name
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.runtime import Runtime
from sandbox_kit.types import Limits

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from sandbox_kit.jobs.inputs import Files
    from sandbox_kit.jobs.mapping import Progress
    from sandbox_kit.jobs.result import JobResult

__all__ = ["SandboxSpec"]

_KEYS = ("backend", "options", "ruleset", "commands")
_RECORDS: dict[str, type[Limits] | type[Runtime]] = {"limits": Limits, "image": Runtime}
"""Options that are records, where a mapping is given."""


def _backend(name: str) -> str:
    return check_backend_name(name)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise InvalidArgumentError(f"options: is a mapping, not {type(options).__name__}")
    copied: dict[str, Any] = _plain(options, "options")
    return copied


def _ruleset(ruleset: PermissionRuleset | None) -> PermissionRuleset | None:
    check_ruleset(ruleset)
    return ruleset


def _commands(mode: CommandMode) -> CommandMode:
    check_commands(mode)
    return mode


@frozen
class SandboxSpec:
    """What it takes to make a sandbox. It pickles, compares, and goes through JSON unchanged.

    Args:
        backend: a name of the registry.
        options: keyword arguments of the backend's class, as JSON has them. A path becomes a
            string; ``Limits``, and a ``Runtime`` as *image*, a mapping of what is set in it.
        ruleset: the rules to put it under; None for none.
        commands: as for :func:`~sandbox_kit.guard.guarding`.

    Raises:
        InvalidArgumentError: no backend has the name, an option is nothing that JSON has, or
            another argument is none of its values.
    """

    backend: str = field(converter=_backend)
    options: dict[str, Any] = field(factory=dict, converter=_options)
    ruleset: PermissionRuleset | None = field(default=None, converter=_ruleset)
    commands: CommandMode = field(default="auto", converter=_commands)

    def __hash__(self) -> int:
        return hash((self.backend, tuple(sorted(self.options)), self.commands))

    def open(self) -> Backend:
        """Make the backend, under its rules. A sandbox is not started yet: use ``with`` or ``start()``.

        Raises:
            MissingDependencyError: a library that the backend needs is not installed.
            InvalidArgumentError: the backend has no such option, or refuses its value.
            UnsupportedError: ``commands="confined"`` where the kernel cannot.
        """
        made = backend_class(self.backend)
        options = dict(self.options)
        _check_names(made, options, self.backend)
        for option, kind in _RECORDS.items():
            if isinstance(options.get(option), dict):
                options[option] = _record(kind, options[option], option)
        return guarding(made(**options), self.ruleset, commands=self.commands)

    def map(
        self,
        work: str | Sequence[str] | Callable[[Sandbox, Any], Any],
        items: Iterable[Any],
        *,
        executor: Executor | None = None,
        sandboxes: int = 1,
        files: Files | None = None,
        artifacts: str | Sequence[str] = (),
        artifacts_to: str | os.PathLike[str] | None = None,
        artifact_limit: int | str = "64m",
        timeout: float | None = None,
        window: int = 256,
        progress: Progress | None = None,
    ) -> list[JobResult]:
        """Do *work* for each of *items*, each in a fresh sandbox of this spec; return the results in their order.

        Args:
            work: a command with fields, or ``work(sandbox, item)``, trusted code that runs in the worker and not in
                the sandbox; see :class:`~sandbox_kit.jobs.Job`.
            items: any values that the executor can pass on; they may be many, and are taken as they are needed.
            executor: any ``concurrent.futures.Executor``, which stays the caller's; None does it in this process,
                in *sandboxes* threads, or in the calling thread where that is 1.
            sandboxes: how many there are at once in one process.
            files, artifacts, artifacts_to, artifact_limit, timeout: as for :class:`~sandbox_kit.jobs.Job`.
            window: how many items are handed to *executor* at once: no less than its workers can do.
            progress: called as ``progress(done, total)`` after each item, in the calling thread; *total* is None
                where *items* has no length. What it raises ends the map.

        What goes wrong with an item is its result's error, a worker that died too. An exception in the calling thread,
        such as Ctrl-C, cancels what has not begun and ends the sandboxes in this process; those in other
        processes end with their jobs.

        Raises:
            InvalidArgumentError: an argument is none of its values, this spec names an id or a workspace, or the
                command lacks a value for one of *items*, where that is a sequence. Nothing has been started.
        """
        from sandbox_kit.jobs import Job, map_job

        job = Job(
            self,
            work,
            files={} if files is None else files,
            artifacts=artifacts,
            artifacts_to=artifacts_to,
            artifact_limit=artifact_limit,
            timeout=timeout,
            sandboxes=sandboxes,
        )
        return map_job(job, items, executor=executor, window=window, progress=progress)

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON has it."""
        rules = None if self.ruleset is None else self.ruleset.to_dict()
        return {
            "backend": self.backend,
            "options": _plain(self.options, "options"),
            "ruleset": rules,
            "commands": self.commands,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the spec that :meth:`to_dict` wrote; what is left out has its default.

        Raises:
            InvalidArgumentError: *document* is no mapping, lacks the backend, has another key, or a
                value is refused.
            PolicyError: the ruleset is refused.
        """
        if not isinstance(document, Mapping) or "backend" not in document:
            raise InvalidArgumentError("a sandbox spec is a mapping with a backend")
        unknown = sorted(str(key) for key in document if key not in _KEYS)
        if unknown:
            raise InvalidArgumentError(f"a sandbox spec has no {', '.join(unknown)}")
        values = dict(document)
        if values.get("ruleset") is not None:
            values["ruleset"] = PermissionRuleset.from_dict(values["ruleset"])
        return cls(**values)


def _plain(value: Any, place: str) -> Any:
    """A deep copy of *value* in the terms of JSON.

    Raises:
        InvalidArgumentError: JSON has nothing for it; names the *place*.
    """
    if isinstance(value, Limits | Runtime):
        told = asdict(value, recurse=False)
        return {name: _plain(each, place) for name, each in told.items() if each not in (None, (), {})}
    if isinstance(value, os.PathLike):
        return _plain(os.fspath(value), place)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise InvalidArgumentError(f"{place}: the keys are not all texts")
        return {key: _plain(each, f"{place}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, f"{place}[{index}]") for index, each in enumerate(value)]
    if isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise InvalidArgumentError(f"{place}: {value!r} is nothing that JSON has")


def _check_names(made: type[Backend], options: Mapping[str, Any], name: str) -> None:
    parameters = inspect.signature(made).parameters.values()
    known = {each.name: each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    unknown = sorted(set(options) - set(known))
    if unknown and not takes_any:
        raise InvalidArgumentError(f"backend {name} has no option {', '.join(unknown)}; it has {', '.join(known)}")
    missing = [key for key, each in known.items() if each.default is each.empty and key not in options]
    if missing:
        raise InvalidArgumentError(f"backend {name} needs the option {', '.join(missing)}")


def _record(kind: type[Limits] | type[Runtime], values: Mapping[str, Any], option: str) -> Limits | Runtime:
    known = {each.name: each for each in fields(kind)}
    if unknown := sorted(set(values) - set(known)):
        raise InvalidArgumentError(f"options.{option}: there is no {', '.join(unknown)}")
    missing = [name for name, each in known.items() if each.default is NOTHING and name not in values]
    if missing:
        raise InvalidArgumentError(f"options.{option}: needs {', '.join(missing)}")
    return kind(**values)
