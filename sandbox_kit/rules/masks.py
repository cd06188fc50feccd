"""What the kernel must hide from commands for a ruleset to hold: a checker, asked name by name."""

from __future__ import annotations

from sandbox_kit.paths import within
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.globs import literal_prefix, normal_path, parse_glob
from sandbox_kit.rules.reach import Reach
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.rules.segments import Gap
from sandbox_kit.types import Operation

__all__ = ["SYSTEM_TREE", "RuleMasks"]

_TOP = "bin boot dev etc home lib lib32 lib64 libx32 media mnt opt proc root run sbin srv sys tmp usr var"

SYSTEM_TREE = frozenset(f"/{name}" for name in _TOP.split())
"""Top directories whose denial leaves them read-only for commands: without them nothing runs."""


class RuleMasks:
    """The names that a ruleset hides from commands, or keeps from being changed by them.

    What read denies or would ask for is hidden; what write denies or would ask for is read-only.
    Two are equal that hide the same. It implements :class:`sandbox_kit.primitives.Masks`.

    Args:
        checker: the rules.
        work_dir: absolute and normal.
    """

    def __init__(self, checker: PermissionChecker, work_dir: str) -> None:
        self._checker = checker
        self._work_dir = work_dir
        self._reaches: dict[Operation, Reach] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RuleMasks):
            return NotImplemented
        return self._checker == other._checker and self._work_dir == other._work_dir

    __hash__ = None  # type: ignore[assignment]

    @property
    def ruleset(self) -> PermissionRuleset:
        """The rules that they come of."""
        return self._checker.ruleset

    def any(self) -> bool:
        """Whether there is anything to hide or to keep."""
        return self._checker.can_refuse("read") or self._checker.can_refuse("write")

    def hidden(self, name: str) -> bool:
        """Whether commands must not see what *name* holds."""
        return not self._checker.allows("read", name)

    def read_only(self, name: str) -> bool:
        """Whether commands must not change *name*."""
        return not self._checker.allows("write", name)

    def opens_beneath(self, directory: str) -> bool:
        """Whether something beneath a hidden *directory* may be visible again."""
        return self._checker.may_allow_beneath("read", directory)

    def pins(self, name: str) -> tuple[str, ...]:
        """Directories beneath the work directory that must keep their names for the masks of *name* to hold."""
        above = self._above(name)
        needed = [self._needed(operation, name, above) for operation in ("read", "write")]
        return max(needed, key=len)

    def outside(self) -> tuple[str, ...]:
        """Names outside the work directory that must be hidden: those that rules spell out."""
        found: dict[str, None] = {}
        for rule in self._checker.ruleset.rules_for("read"):
            if rule.action != "allow":
                found.update(dict.fromkeys(self._literal_names(rule)))
        return tuple(found)

    def _literal_names(self, rule: PermissionRule) -> list[str]:
        names = []
        for steps in parse_glob(rule.pattern).steps(self._work_dir):
            name = literal_prefix(steps)
            spelled_out = all(isinstance(step, str) for step in steps[:-1]) and (
                isinstance(steps[-1], str) or steps[-1] is Gap.GLOBSTAR
            )
            if name is not None and spelled_out and name not in SYSTEM_TREE and not within(name, self._work_dir):
                names.append(name)
        return names

    def _above(self, name: str) -> tuple[str, ...]:
        """Return the directories between the work directory and *name*, outermost first."""
        found: list[str] = []
        parent = name.rpartition("/")[0]
        while len(parent) > len(self._work_dir) and within(parent, self._work_dir):
            found.append(parent)
            parent = parent.rpartition("/")[0]
        return tuple(reversed(found))

    def _needed(self, operation: Operation, name: str, above: tuple[str, ...]) -> tuple[str, ...]:
        verdict = self._checker.verdict(operation, name)
        if verdict.action == "allow" or not above:
            return ()
        kept = self._reach(operation).names_above(verdict.rule, normal_path(name))
        return above[len(above) - kept :]

    def _reach(self, operation: Operation) -> Reach:
        """Return how far up refusals reach; what is read-only is so with all beneath it."""
        if operation not in self._reaches:
            rules = self._checker.ruleset.rules_for(operation)
            self._reaches[operation] = Reach(self._checker._place, rules, stands_for_all=operation == "write")
        return self._reaches[operation]
