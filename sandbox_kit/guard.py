"""The guard: any backend, under rules.

A guard implements every primitive by passing it on with a judge in the place of ``authorize``,
and inherits every public method. So what is built on the primitives is covered the day it is
written, and a guard over a guard holds both.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Literal, TypeVar, overload

from attrs import evolve

from sandbox_kit.contract import Backend, Process, Sandbox
from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError, UnsupportedError
from sandbox_kit.inspection import inspect
from sandbox_kit.judge import Approvals, Ask, Judge, judged
from sandbox_kit.paths import normalise, within
from sandbox_kit.primitives import Authorize, Command, Entry, Masks, Operations, Query
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.commands import split_command
from sandbox_kit.rules.masks import RuleMasks
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import Capabilities, CommandResult, FileInfo, Identity, Operation, Usage

__all__ = ["GuardedBackend", "GuardedSandbox", "guarding"]

CommandMode = Literal["auto", "confined", "inspected"]
_T = TypeVar("_T")
_PATH_OPERATIONS: tuple[Operation, ...] = ("read", "write", "edit", "ls", "glob", "grep")


class GuardedBackend(Backend):
    """A backend whose every operation is held to a ruleset, for the path as typed and as links resolve it.

    Args:
        inner: the backend.
        ruleset: the rules.
        ask: ``ask(operation, target, reason)``, called in the calling thread where a rule says "ask";
            only True approves.
        ask_fallback: with no *ask*, whether "ask" raises ApprovalRequiredError or plainly refuses.
    """

    def __init__(
        self,
        inner: Backend,
        ruleset: PermissionRuleset,
        *,
        ask: Ask | None = None,
        ask_fallback: Literal["error", "deny"] = "error",
    ) -> None:
        if ask_fallback not in ("error", "deny"):
            raise InvalidArgumentError(f"ask_fallback: {ask_fallback!r} is neither 'error' nor 'deny'")
        self._inner = inner
        self._ruleset = ruleset
        self._approvals = Approvals(ask, ask_fallback)
        self._rules = _LiveRules(inner, ruleset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    @property
    def max_read_bytes(self) -> int:
        return self._inner.max_read_bytes

    @max_read_bytes.setter
    def max_read_bytes(self, count: int) -> None:
        self._inner.max_read_bytes = count

    @property
    def file_timeout(self) -> float:
        return self._inner.file_timeout

    @file_timeout.setter
    def file_timeout(self, seconds: float) -> None:
        self._inner.file_timeout = seconds

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def work_dir(self) -> str:
        return self._inner.work_dir

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def checker(self) -> PermissionChecker:
        """The rules, with the prefixes that they spell out as links resolve them now."""
        return self._rules.checker()

    def _judge(self, target: str, authorize: Authorize) -> Judge:
        return Judge(self._rules.checker(), self._approvals, authorize, target)

    def _judged(self, target: str, authorize: Authorize, act: Callable[[Authorize], _T]) -> _T:
        return judged(self._judge(target, authorize), act)

    def _resolve(
        self, paths: Sequence[str], *, operations: Operations, authorize: Authorize, follow: bool = True
    ) -> tuple[Identity, ...]:
        judge = self._judge(paths[0], authorize)
        return judged(
            judge,
            lambda _: judge.gather(
                lambda each: self._inner._resolve(paths, operations=operations, authorize=each, follow=follow)
            ),
        )

    def _as_given(self) -> str:
        return self._inner._as_given()

    def _resolve_prefix(self, prefix: str) -> str:
        return self._inner._resolve_prefix(prefix)

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        return self._judged(
            path, authorize, lambda judge: self._inner._stat(path, operations=operations, authorize=judge)
        )

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        return self._judged(
            path,
            authorize,
            lambda judge: self._inner._scandir(path, operations=operations, authorize=judge, depth=depth),
        )

    def _readlink(self, path: str, *, operations: Operations, authorize: Authorize) -> str:
        return self._judged(
            path, authorize, lambda judge: self._inner._readlink(path, operations=operations, authorize=judge)
        )

    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        return self._judged(
            path,
            authorize,
            lambda judge: self._inner._open_read(path, operations=operations, authorize=judge, expect=expect),
        )

    def _open_write(
        self,
        path: str,
        *,
        operations: Operations,
        authorize: Authorize,
        expect: Identity | None = None,
        mode: int | None = None,
    ) -> AbstractContextManager[BinaryIO]:
        return self._judged(
            path,
            authorize,
            lambda judge: self._inner._open_write(
                path, operations=operations, authorize=judge, expect=expect, mode=mode
            ),
        )

    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize) -> None:
        self._judged(path, authorize, lambda judge: self._inner._mkdir(path, operations=operations, authorize=judge))

    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        self._judged(
            path, authorize, lambda judge: self._inner._symlink(target, path, operations=operations, authorize=judge)
        )
        self._rules.changed(path)

    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        self._judged(
            path,
            authorize,
            lambda judge: self._inner._remove(path, operations=operations, authorize=judge, recursive=recursive),
        )
        self._rules.changed(path)

    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        self._judged(
            source,
            authorize,
            lambda judge: self._inner._rename(source, target, operations=operations, authorize=judge),
        )
        self._rules.changed(source, target)

    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        return self._judged(
            path, authorize, lambda judge: self._inner._search(query, path, operations=operations, authorize=judge)
        )


class GuardedSandbox(GuardedBackend, Sandbox):
    """A sandbox whose every operation is held to a ruleset, commands too.

    Args:
        inner, ruleset, ask, ask_fallback: as for :class:`GuardedBackend`.
        commands: ``"confined"`` lets the kernel hide denied files from commands, ``"inspected"``
            accepts that only their text is looked at, ``"auto"`` is confined where the kernel can
            and otherwise asks for every command, if any path can be refused.

    Raises:
        UnsupportedError: ``"confined"`` where the kernel cannot.
    """

    def __init__(
        self,
        inner: Sandbox,
        ruleset: PermissionRuleset,
        *,
        ask: Ask | None = None,
        ask_fallback: Literal["error", "deny"] = "error",
        commands: CommandMode = "auto",
    ) -> None:
        GuardedBackend.__init__(self, inner, ruleset, ask=ask, ask_fallback=ask_fallback)
        Sandbox.__init__(self)
        if commands not in ("auto", "confined", "inspected"):
            raise InvalidArgumentError(f"commands: {commands!r} is none of 'auto', 'confined', 'inspected'")
        able = inner.capabilities.commands == "confined"
        if commands == "confined" and not able:
            raise UnsupportedError("commands='confined': nothing here can hide files from commands")
        self._sandbox = inner
        self._mode = commands
        self._confined = able and commands != "inspected"

    @property
    def default_timeout(self) -> float | None:
        return self._sandbox.default_timeout

    @default_timeout.setter
    def default_timeout(self, seconds: float | None) -> None:
        self._sandbox.default_timeout = seconds

    @property
    def temporary(self) -> bool:
        return self._sandbox.temporary

    @property
    def capabilities(self) -> Capabilities:
        inner = self._inner.capabilities
        return inner if self._confined else evolve(inner, commands="inspected")

    def _start(self) -> None:
        self._sandbox.start()
        self._rules.restarted()

    def _stop(self, purge: bool) -> None:
        self._sandbox.stop(purge=purge)

    def _is_alive(self) -> bool:
        return self._sandbox.is_alive()

    def _usage(self) -> Usage:
        return self._sandbox.usage()

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        both = self._masks(masks)
        try:
            return self._commanded(
                command,
                authorize,
                lambda judge: self._sandbox._run(command, operations=operations, authorize=judge, masks=both),
            )
        finally:
            self._rules.restarted()

    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> Process:
        both = self._masks(masks)
        process = self._commanded(
            command,
            authorize,
            lambda judge: self._sandbox._spawn(command, operations=operations, authorize=judge, masks=both),
        )
        self._rules.watch(process)
        return process

    def _commanded(self, command: Command, authorize: Authorize, act: Callable[[Authorize], _T]) -> _T:
        checker = self._rules.checker()
        line = split_command(command.argv if command.line is None else command.line)
        unconfined = self._mode == "auto" and not self._confined and _refuses_paths(checker)
        judge = Judge(checker, self._approvals, authorize, line.line, line, unconfined)
        cwd = normalise(command.cwd, self.work_dir)

        def inspect_and_act(authorize: Authorize) -> _T:
            inspect(self._inner, line, cwd, self.work_dir, judge, confined=self._confined)
            return act(authorize)

        return judged(judge, inspect_and_act)

    def _masks(self, outer: tuple[Masks, ...] | None) -> tuple[Masks, ...] | None:
        if not self._confined:
            return outer or None
        own = self._rules.masks()
        return (*(outer or ()), own) if own.any() else (outer or ())


class _LiveRules:
    """The checker of a guard, with the rules' literal prefixes as links resolve them now.

    Commands and changes may turn a prefix into a link, so it is resolved anew after them,
    when it is next needed; and at every call while a background process lives.
    """

    def __init__(self, inner: Backend, ruleset: PermissionRuleset) -> None:
        self._inner = inner
        self._ruleset = ruleset
        self._lock = threading.Lock()
        self._plain: PermissionChecker | None = None
        self._last: tuple[PermissionChecker, RuleMasks] | None = None
        self._current: tuple[PermissionChecker, RuleMasks] | None = None
        self._processes: list[weakref.ReferenceType[Process]] = []

    def __getstate__(self) -> tuple[Backend, PermissionRuleset]:
        return self._inner, self._ruleset

    def __setstate__(self, state: tuple[Backend, PermissionRuleset]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def checker(self) -> PermissionChecker:
        """Return the rules, with every prefix resolved."""
        return self._both()[0]

    def masks(self) -> RuleMasks:
        """Return what the rules hide from commands."""
        return self._both()[1]

    def _both(self) -> tuple[PermissionChecker, RuleMasks]:
        current = self._current
        if current is None or (self._processes and self._alive()):
            with self._lock:
                current = self._last = self._current = self._resolved()
        return current

    def restarted(self) -> None:
        """Forget what every prefix leads to."""
        self._current = None

    def changed(self, *paths: str) -> None:
        """Forget what the prefixes lead to that go through one of *paths*."""
        checker = self._plain
        names = [normalise(path, self._inner.work_dir) for path in paths]
        if checker is None or any(within(prefix, name) for prefix in checker.literal_prefixes for name in names):
            self.restarted()

    def watch(self, process: Process) -> None:
        """Distrust every prefix for as long as *process* lives."""
        self._processes.append(weakref.ref(process))
        self.restarted()

    def _alive(self) -> bool:
        before = len(self._processes)
        self._processes = [each for each in self._processes if _runs(each())]
        return bool(before)

    def _resolved(self) -> tuple[PermissionChecker, RuleMasks]:
        """Resolve every prefix; what was compiled stays as long as they lead where they did."""
        inner = self._inner
        if self._plain is None or self._plain.work_dir != inner.work_dir:
            plain = PermissionChecker(self._ruleset, inner.work_dir, inner.capabilities.case_sensitive)
            self._plain = plain.with_alias(inner._as_given(), inner.work_dir)
        prefixes = {prefix: inner._resolve_prefix(prefix) for prefix in self._plain.literal_prefixes}
        checker = self._plain.with_prefixes({prefix: real for prefix, real in prefixes.items() if real != prefix})
        if self._last is not None and self._last[0] == checker:
            return self._last
        return checker, RuleMasks(checker, inner.work_dir)


def _runs(process: Process | None) -> bool:
    """Whether a background process may still change names; one whose end is not known has ended."""
    try:
        return process is not None and process.poll() is None
    except SandboxUnavailableError:
        return False


def _refuses_paths(checker: PermissionChecker) -> bool:
    return any(checker.can_refuse(operation) for operation in _PATH_OPERATIONS)


@overload
def guarding(
    backend: Sandbox,
    ruleset: PermissionRuleset | None,
    *,
    ask: Ask | None = None,
    ask_fallback: Literal["error", "deny"] = "error",
    commands: CommandMode = "auto",
) -> Sandbox: ...


@overload
def guarding(
    backend: Backend,
    ruleset: PermissionRuleset | None,
    *,
    ask: Ask | None = None,
    ask_fallback: Literal["error", "deny"] = "error",
    commands: CommandMode = "auto",
) -> Backend: ...


def guarding(
    backend: Backend,
    ruleset: PermissionRuleset | None,
    *,
    ask: Ask | None = None,
    ask_fallback: Literal["error", "deny"] = "error",
    commands: CommandMode = "auto",
) -> Backend:
    """Return *backend* under *ruleset*.

    With no ruleset, or the one that it already enforces with the same *ask* and *commands*, the
    backend comes back untouched. The same ruleset with others of these makes a new guard over
    the same inner backend; another ruleset makes one over the guard, and both hold.

    Args:
        backend: any backend; a sandbox stays one.
        ruleset, ask, ask_fallback, commands: as for :class:`GuardedSandbox`.

    Raises:
        UnsupportedError: ``commands="confined"`` where the kernel cannot.
        InvalidArgumentError: *commands* or *ask_fallback* is none of its values.
    """
    if ruleset is None:
        return backend
    if isinstance(backend, GuardedBackend) and backend._ruleset == ruleset:
        approvals = backend._approvals
        mode = backend._mode if isinstance(backend, GuardedSandbox) else commands
        if approvals.ask == ask and approvals.fallback == ask_fallback and mode == commands:
            return backend
        backend = backend._inner
    if isinstance(backend, Sandbox):
        return GuardedSandbox(backend, ruleset, ask=ask, ask_fallback=ask_fallback, commands=commands)
    return GuardedBackend(backend, ruleset, ask=ask, ask_fallback=ask_fallback)
