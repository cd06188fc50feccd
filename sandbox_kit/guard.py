"""The guard: any backend, under rules.

A guard implements every primitive by passing it on with a judge in the place of ``authorize``,
and inherits every public method. So what is built on the primitives is covered the day it is
written, and a guard over a guard holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, BinaryIO, Literal, Self, TypeVar, overload

from attrs import evolve

from sandbox_kit.arguments import CommandMode, check_callable, check_commands, check_ruleset
from sandbox_kit.contract import Backend, Process, Sandbox
from sandbox_kit.errors import InvalidArgumentError, PathError, PathNotDirectoryError, UnsupportedError
from sandbox_kit.inspection import inspect
from sandbox_kit.judge import Approvals, Ask, Judge, judged
from sandbox_kit.judged_command import JudgedCommand
from sandbox_kit.live_rules import LiveRules
from sandbox_kit.paths import display, named, normalise
from sandbox_kit.primitives import Authorize, Command, Entry, Masks, MaskSource, Operations, Query
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.masks import RuleMasks
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import Capabilities, CommandResult, FileInfo, Identity, Operation, Usage

__all__ = ["GuardedBackend", "GuardedSandbox", "guarding"]

_T = TypeVar("_T")
_LISTED: Operations = ("ls",)
_COPIED: Operations = ("read",)
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
        if not isinstance(inner, Backend):
            raise InvalidArgumentError(f"inner: {inner!r} is not a Backend")
        check_ruleset(ruleset, optional=False)
        check_callable(ask, "ask")
        self._inner = inner
        self._ruleset = ruleset
        self._approvals = Approvals(ask, ask_fallback)
        self._rules = LiveRules(inner, ruleset)

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

    @property
    def rulesets(self) -> tuple[PermissionRuleset, ...]:
        """Its own ruleset, then those of the guards beneath it."""
        beneath = self._inner.rulesets if isinstance(self._inner, GuardedBackend) else ()
        return (self._ruleset, *beneath)

    def _asking(self, approvals: Approvals) -> Self:
        """Return this guard with other *approvals*."""
        guard = copy(self)
        guard._approvals = approvals
        return guard

    def _over(self, inner: Backend) -> GuardedBackend:
        """Return a guard of the files of another backend, which is alike, by the same rules, compiled once for both.

        Args:
            inner: with the same work directory, by the same name, on the same file system.
        """
        approvals = self._approvals
        guard = GuardedBackend(inner, self._ruleset, ask=approvals.ask, ask_fallback=approvals.fallback)
        guard._rules = self._rules.over(inner)
        return guard

    def _judge(self, target: str, authorize: Authorize) -> Judge:
        return Judge(self._rules.checker(), self._approvals, authorize, target)

    def _judge_tree(self, target: str, authorize: Authorize, top: str, goal: str | None = None) -> Judge:
        """Return the judge of a call that takes *top*, as typed, with all beneath it, and may name it *goal*."""
        tree, new = (
            None if name is None else named(name, self._inner.work_dir, self._inner._as_given()) for name in (top, goal)
        )
        return Judge(self._rules.checker(), self._approvals, authorize, target, tree=tree, goal=new)

    def _judged(self, target: str, authorize: Authorize, act: Callable[[Authorize], _T]) -> _T:
        return judged(self._judge(target, authorize), act)

    def _made(self, target: str, authorize: Authorize, act: Callable[[Authorize], _T]) -> _T:
        """As :meth:`_judged`, of what may make something: the same call may have that again."""
        judge = self._judge(target, authorize)
        result = judged(judge, act)
        judge.note_made()
        return result

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

    def _resolve_prefixes(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        return self._inner._resolve_prefixes(prefixes)

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        return self._judged(
            path, authorize, lambda judge: self._inner._stat(path, operations=operations, authorize=judge)
        )

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        """As in the contract; a question is put together with those of the look at *path* that comes next."""
        judge = self._judge(path, authorize)

        def scan(each: Authorize) -> Generator[Entry, None, None]:
            return self._inner._scandir(path, operations=operations, authorize=each, depth=depth)

        def scan_and_look(each: Authorize) -> Generator[Entry, None, None]:
            try:
                entries = scan(each)
            except PathNotDirectoryError as error:
                if judge.asks:
                    self._look_for(error, path, operations, each)
                raise
            if judge.asks and operations == _COPIED:
                self._look(path, operations, each)
            return entries

        if operations not in (_LISTED, _COPIED):
            return judged(judge, scan)
        return judged(judge, lambda _: judge.gather(scan_and_look))

    def _look(self, path: str, operations: Operations, authorize: Authorize) -> None:
        """Ask for what a call that walks *path* goes on to describe: the entry that is listed, or what is copied."""
        if operations == _COPIED:
            (identity,) = self._inner._resolve((path,), operations=operations, authorize=authorize)
            path = display(identity.name, self._inner.work_dir)
        self._inner._stat(path, operations=operations, authorize=authorize)

    def _look_for(self, error: PathNotDirectoryError, path: str, operations: Operations, authorize: Authorize) -> None:
        """Look at what *error* says is no directory; where it is nothing, either, *error* is the cause of the next."""
        try:
            self._look(path, operations, authorize)
        except PathError as nothing:
            raise nothing from error

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
        return self._made(
            path,
            authorize,
            lambda judge: self._inner._open_write(
                path, operations=operations, authorize=judge, expect=expect, mode=mode
            ),
        )

    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize, mode: int | None = None) -> None:
        self._made(
            path,
            authorize,
            lambda judge: self._inner._mkdir(path, operations=operations, authorize=judge, mode=mode),
        )

    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        with self._rules.distrusted():
            self._made(
                path,
                authorize,
                lambda judge: self._inner._symlink(target, path, operations=operations, authorize=judge),
            )

    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        with self._rules.distrusted():
            judged(
                self._judge_tree(path, authorize, path),
                lambda judge: self._inner._remove(path, operations=operations, authorize=judge, recursive=recursive),
            )

    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        with self._rules.distrusted():
            judged(
                self._judge_tree(f"{source} to {target}", authorize, source, target),
                lambda judge: self._inner._rename(source, target, operations=operations, authorize=judge),
            )

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
            and otherwise asks for every command, if any path can be refused. Which, is found out for each command.

    Raises:
        UnsupportedError: ``"confined"`` where the kernel cannot, also at the start and for a command later.
    """

    _inner: Sandbox

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
        self._mode = commands
        self._check_confined()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_life"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Sandbox.__init__(self)
        self.__dict__.update(state)

    @property
    def default_timeout(self) -> float | None:
        return self._inner.default_timeout

    @default_timeout.setter
    def default_timeout(self, seconds: float | None) -> None:
        self._inner.default_timeout = seconds

    @property
    def temporary(self) -> bool:
        return self._inner.temporary

    @property
    def capabilities(self) -> Capabilities:
        inner = self._inner.capabilities
        return inner if self._confines(self._ruleset) else evolve(inner, commands="inspected")

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        return self._mode != "inspected" and self._inner._confines(ruleset)

    def _asks_for_all(self) -> bool:
        """Whether every command would be asked for now, as the kernel would hide nothing from it."""
        refuses = self._mode == "auto" and _refuses_paths(PermissionChecker(self._ruleset))
        return refuses and not self._confines(self._ruleset)

    def _check_confined(self) -> bool:
        """Return whether the kernel holds the rules for commands now.

        Raises:
            UnsupportedError: it does not, and nothing less will do.
        """
        confined = self._confines(self._ruleset)
        if self._mode == "confined" and not confined:
            raise UnsupportedError(
                f"commands='confined': nothing can hide files from the commands of {self._inner!r} now; "
                "what must know the rules at its start has to be started by its guard"
            )
        return confined

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        own = (self._rules,) if self._check_confined() and self._rules.may_mask() else ()
        with self._inner._life:
            self._inner._start((*masks, *own))
        self._rules.restarted()

    def _stop(self, purge: bool) -> None:
        self._inner.stop(purge=purge)

    def _is_alive(self) -> bool:
        return self._inner.is_alive()

    def _usage(self) -> Usage:
        return self._inner.usage()

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        own = self._own_masks()
        both = _joined(masks, own)
        with self._rules.distrusted():
            return self._commanded(
                command,
                authorize,
                own,
                lambda judge: self._inner._run(command, operations=operations, authorize=judge, masks=both),
            )

    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> Process:
        own = self._own_masks()
        both = _joined(masks, own)
        process = self._commanded(
            command,
            authorize,
            own,
            lambda judge: self._inner._spawn(command, operations=operations, authorize=judge, masks=both),
        )
        self._rules.watch(process)
        return process

    def _commanded(
        self, command: Command, authorize: Authorize, own: RuleMasks | None, act: Callable[[Authorize], _T]
    ) -> _T:
        """Return what *act* does once *command* is judged; the kernel holds *own*, None for nothing."""
        checker, work_dir = self._rules.checker(), self.work_dir
        unconfined = self._mode == "auto" and own is None and _refuses_paths(checker)
        asked = JudgedCommand(command, unconfined=unconfined, work_dir=work_dir, masks=own)
        judge = Judge(checker, self._approvals, authorize, asked.text, asked)
        cwd = normalise(command.cwd, work_dir)

        def inspect_and_act(judged_by: Authorize) -> _T:
            known = checker.literal_prefixes
            inspect(self._inner, asked.line, cwd, work_dir, judge, confined=own is not None, known=known)
            judge.about(cwd)
            return act(judged_by)

        return judged(judge, inspect_and_act)

    def _own_masks(self) -> RuleMasks | None:
        """Return what the kernel is to hide from a command; None where it cannot, and the rules' text has to do."""
        return self._rules.masks() if self._check_confined() else None


def _joined(outer: tuple[Masks, ...] | None, own: RuleMasks | None) -> tuple[Masks, ...] | None:
    if own is None:
        return outer or None
    return (*(outer or ()), own) if own.any() else (outer or ())


def _refuses_paths(checker: PermissionChecker) -> bool:
    return any(checker.can_refuse(operation) for operation in _PATH_OPERATIONS)


@overload
def guarding(
    backend: Sandbox,
    ruleset: PermissionRuleset,
    *,
    ask: Ask | None = None,
    ask_fallback: Literal["error", "deny"] = "error",
    commands: CommandMode = "auto",
) -> GuardedSandbox: ...


@overload
def guarding(
    backend: Sandbox,
    ruleset: None,
    *,
    ask: Ask | None = None,
    ask_fallback: Literal["error", "deny"] = "error",
    commands: CommandMode = "auto",
) -> Sandbox: ...


@overload
def guarding(
    backend: Backend,
    ruleset: PermissionRuleset,
    *,
    ask: Ask | None = None,
    ask_fallback: Literal["error", "deny"] = "error",
    commands: CommandMode = "auto",
) -> GuardedBackend: ...


@overload
def guarding(
    backend: Backend,
    ruleset: None,
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
        ruleset, ask, ask_fallback: as for :class:`GuardedBackend`.
        commands: as for :class:`GuardedSandbox`; a backend without commands has nothing to confine.

    Raises:
        UnsupportedError: ``commands="confined"`` where the kernel cannot.
        InvalidArgumentError: *commands* or *ask_fallback* is none of its values.
    """
    check_commands(commands)
    if ask_fallback not in ("error", "deny"):
        raise InvalidArgumentError(f"ask_fallback: {ask_fallback!r} is neither 'error' nor 'deny'")
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
