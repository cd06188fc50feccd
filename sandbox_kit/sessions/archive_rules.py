"""The rules of an archive: each call is held to them anew, and they are compiled once for each session."""

from __future__ import annotations

import threading
from collections import OrderedDict

from attrs import frozen

from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.guard import GuardedBackend, guarding
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.sessions.workspace import Workspace

__all__ = ["ArchiveRules"]

_KEPT = 16
"""For how many sessions rules stay compiled: those that were looked at last."""

_Place = tuple[str, int, bool]
"""What compiled rules depend on: the work directory, its file system, and whether that tells names apart by case."""


@frozen
class _Compiled:
    """A guard over nothing that is open, to make others of, and its rules."""

    guard: GuardedBackend
    checker: PermissionChecker


class ArchiveRules:
    """Guards the workspaces of one archive. What a rule would ask about is refused.

    Args:
        ruleset: the work directory of its patterns is the workspace.
    """

    def __init__(self, ruleset: PermissionRuleset) -> None:
        self._ruleset = ruleset
        self._compiled: OrderedDict[_Place, _Compiled] = OrderedDict()
        self._mutex = threading.Lock()

    def __reduce__(self) -> tuple[type[ArchiveRules], tuple[PermissionRuleset]]:
        return ArchiveRules, (self._ruleset,)

    def over(self, workspace: Workspace) -> GuardedBackend:
        """Return the files of a session under the rules, their prefixes as links resolve them now."""
        key = workspace.work_dir, workspace.device, workspace.capabilities.case_sensitive
        with self._mutex:
            known = self._compiled.get(key)
        if known is None:
            guard = guarding(workspace, self._ruleset, ask_fallback="deny")
        else:
            guard = known.guard._over(workspace)
        checker = guard.checker
        if known is None or checker is not known.checker:
            known = _Compiled(guard._over(LocalBackend(workspace.work_dir)), checker)
        self._keep(key, known)
        return guard

    def _keep(self, key: _Place, compiled: _Compiled) -> None:
        with self._mutex:
            self._compiled[key] = compiled
            self._compiled.move_to_end(key)
            while len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
