"""Rules that can never decide, because an earlier one with another action always does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sandbox_kit.rules.command_pattern import compile_command
from sandbox_kit.rules.cover import covers_command, covers_path
from sandbox_kit.rules.globs import Glob, parse_glob
from sandbox_kit.rules.globset import GlobSet, Member
from sandbox_kit.rules.segments import Gap, Part, Step
from sandbox_kit.types import Action

__all__ = ["Placed", "inert_command_rules", "inert_path_rules"]

MAX_CANDIDATES = 16

_WORK_DIR = "/qzx/work"
_FILL = "qzx"


class Placed(NamedTuple):
    """A rule and where it stands in its ruleset.

    Attributes:
        place: such as ``"read.rules[2]"``.
        pattern: of a path or of a command.
        action: what it decides.
    """

    place: str
    pattern: str
    action: Action

    @property
    def beneath(self) -> bool:
        """Whether it also matches all beneath a match."""
        return self.action != "allow"


def inert_path_rules(rules: Sequence[Placed]) -> Iterator[str]:
    """Yield a sentence for each rule that an earlier one certainly covers.

    One path that a rule matches tells which earlier rules can cover it; only those are then
    held to a proof.

    Args:
        rules: of one operation, in the order in which they are tried.
    """
    globs = [parse_glob(rule.pattern) for rule in rules]
    found = GlobSet(
        Member(index, steps, rules[index].beneath)
        for index, glob in enumerate(globs)
        for steps in glob.steps(_WORK_DIR)
    )
    for index, rule in enumerate(rules):
        sample = _sample_path(globs[index])
        earlier = [i for i in found.every(sample) if i < index and rules[i].action != rule.action] if sample else []
        for i in earlier[:MAX_CANDIDATES]:
            if covers_path(globs[i], rules[i].beneath, globs[index], rule.beneath):
                yield _sentence(rule, rules[i])
                break


def inert_command_rules(rules: Sequence[Placed]) -> Iterator[str]:
    """Yield a sentence for each rule that an earlier one certainly covers.

    Args:
        rules: of ``execute``, in the order in which they are tried.
    """
    patterns = [compile_command(rule.pattern) for rule in rules]
    for index, rule in enumerate(rules):
        sample = rule.pattern.replace("*", _FILL)
        for wide, pattern in zip(rules[:index], patterns, strict=False):
            likely = wide.action != rule.action and (pattern.matches(sample) or wide.pattern == rule.pattern)
            if likely and covers_command(wide.pattern, rule.pattern):
                yield _sentence(rule, wide)
                break


def _sentence(rule: Placed, wide: Placed) -> str:
    return (
        f"{rule.place}: {rule.action} {rule.pattern} can never decide, "
        f"{wide.place} covers it: {wide.action} {wide.pattern}"
    )


def _sample_path(glob: Glob) -> str | None:
    """A path that *glob* matches and few other patterns do; None where none is found easily."""
    names = [_sample_name(step) for step in glob.steps(_WORK_DIR)[0]]
    return None if None in names else "/" + "/".join(filter(None, names))


def _sample_name(step: Step) -> str | None:
    if isinstance(step, str):
        return step
    if isinstance(step, Gap):
        return _FILL
    chars = [_sample_part(part) for part in step.parts]
    return None if None in chars else "".join(filter(None, chars))


def _sample_part(part: Part) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, Gap):
        return _FILL
    candidates = "qzx0_-" if part.negated else part.ranges[0][0]
    return next((char for char in candidates if part.accepts(char)), None)
