"""The rules of a guard, with their literal prefixes as links resolve them now."""

from __future__ import annotations

import threading
import weakref
from contextlib import AbstractContextManager
from types import TracebackType

from sandbox_kit.contract import Backend, Process, is_running
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.masks import RuleMasks
from sandbox_kit.rules.ruleset import PermissionRuleset

__all__ = ["LiveRules"]


class _Changes(AbstractContextManager[None]):
    """What may turn a name into a link: told by every guard of this process, and counted for all of them.

    Two guards may have the same files without a way to know it, so what goes on beneath one counts for each.
    """

    def __init__(self) -> None:
        self.latest = object()
        """Another object after each change."""
        self._running = 0
        self._processes: list[weakref.ReferenceType[Process]] = []
        self._lock = threading.Lock()

    def note(self) -> None:
        """Something may have changed."""
        self.latest = object()

    def __enter__(self) -> None:
        """Anything may change for as long as the block runs. Several may run at once."""
        with self._lock:
            self._running += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._running -= 1
        self.note()

    def watch(self, process: Process) -> None:
        """Anything may change for as long as *process* lives."""
        with self._lock:
            self._processes.append(weakref.ref(process))
        self.note()

    def go_on(self) -> bool:
        """Whether anything may change at this moment; what ended since the last look is noted."""
        if self._processes:
            self._forget([each for each in tuple(self._processes) if not _runs(each())])
        return bool(self._running or self._processes)

    def _forget(self, ended: list[weakref.ReferenceType[Process]]) -> None:
        if ended:
            with self._lock:
                self._processes = [each for each in self._processes if not any(each is other for other in ended)]
            self.note()


_CHANGES = _Changes()

_SOMEWHERE = "/w"
"""A work directory like any other: none is the root of its file system."""


class LiveRules:
    """The checker of a guard, with the rules' literal prefixes as links resolve them now.

    Commands and changes may turn a prefix into a link, so it is resolved anew after those of any guard
    of this process, when it is next needed; and at every call while a command or background process of one lives.
    What a prefix once led to stays refused for as long as the guard lives, so that nobody gets
    at it by pointing the link elsewhere.
    """

    def __init__(self, inner: Backend, ruleset: PermissionRuleset) -> None:
        self._inner = inner
        self._ruleset = ruleset
        self._lock = threading.Lock()
        self._plain: PermissionChecker | None = None
        self._last: tuple[PermissionChecker, RuleMasks] | None = None
        self._current: tuple[object, tuple[PermissionChecker, RuleMasks]] | None = None
        self._led_to: dict[str, tuple[str, ...]] = {}
        self._shared: tuple[PermissionChecker, RuleMasks] | None = None

    def __getstate__(self) -> tuple[Backend, PermissionRuleset]:
        return self._inner, self._ruleset

    def __setstate__(self, state: tuple[Backend, PermissionRuleset]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def over(self, inner: Backend) -> LiveRules:
        """Return the same rules over another backend, which is alike: what was compiled is shared where it holds.

        Where prefixes lead, and have led, is the other one's own.
        """
        rules = LiveRules(inner, self._ruleset)
        with self._lock:
            rules._plain, rules._shared = self._plain, self._last or self._shared
        return rules

    @property
    def ruleset(self) -> PermissionRuleset:
        """The rules."""
        return self._ruleset

    def may_mask(self) -> bool:
        """Whether there may be anything to hide from commands, wherever the work directory is."""
        return RuleMasks(PermissionChecker(self._ruleset, _SOMEWHERE), _SOMEWHERE).any()

    def checker(self) -> PermissionChecker:
        """Return the rules, with every prefix resolved."""
        return self._both()[0]

    def masks(self) -> RuleMasks:
        """Return what the rules hide from commands."""
        return self._both()[1]

    def _both(self) -> tuple[PermissionChecker, RuleMasks]:
        go_on, current = _CHANGES.go_on(), self._current
        if go_on or current is None or current[0] is not _CHANGES.latest:
            with self._lock:
                latest = _CHANGES.latest
                self._current = current = latest, self._resolved()
        return current[1]

    def restarted(self) -> None:
        """Look anew where every prefix leads, at the next call."""
        _CHANGES.note()

    def distrusted(self) -> AbstractContextManager[None]:
        """Distrust every prefix for as long as the block runs: it runs a command, or changes names."""
        return _CHANGES

    def watch(self, process: Process) -> None:
        """Distrust every prefix for as long as *process* lives."""
        _CHANGES.watch(process)

    def _resolved(self) -> tuple[PermissionChecker, RuleMasks]:
        """Resolve every prefix; what was compiled stays as long as they lead where they did."""
        inner = self._inner
        if self._plain is None or self._plain.work_dir != inner.work_dir:
            plain = PermissionChecker(self._ruleset, inner.work_dir, inner.capabilities.case_sensitive)
            self._plain = plain.with_alias(inner._as_given(), inner.work_dir)
            self._last = None
        prefixes = tuple(self._plain.literal_prefixes)
        for prefix, real in zip(prefixes, inner._resolve_prefixes(prefixes), strict=True):
            if real != prefix and real not in (known := self._led_to.get(prefix, ())):
                self._led_to[prefix] = (*known, real)
                self._last = None
        if self._last is None:
            checker, shared = self._plain.with_prefixes(self._led_to), self._shared
            if shared is None or shared[0] != checker:
                shared = checker, RuleMasks(checker, inner.work_dir)
            self._last = shared
        return self._last


def _runs(process: Process | None) -> bool:
    """Whether a background process may still change names."""
    return process is not None and is_running(process)
