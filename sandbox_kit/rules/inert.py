"""Rules that can never decide, because an earlier one with another action always does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from sandbox_kit.rules.command_pattern import CommandPattern, compile_command
from sandbox_kit.rules.cover import covers_command, covers_path
from sandbox_kit.rules.globs import Glob, parse_glob
from sandbox_kit.rules.globset import GlobSet, Member
from sandbox_kit.rules.segments import Gap, Part, Step
from sandbox_kit.types import Action

__all__ = [
    "TOO_MANY_ALTERNATIVES",
    "Placed",
    "inert_command_rules",
    "inert_path_rules",
    "too_many_alternatives",
]

MAX_CANDIDATES = 16
MAX_ALTERNATIVES = 10_000
TOO_MANY_ALTERNATIVES = f"the braces of its rules expand to more than {MAX_ALTERNATIVES} alternatives in all"

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
    if too_many_alternatives(rule.pattern for rule in rules):
        yield TOO_MANY_ALTERNATIVES
        return
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


def too_many_alternatives(patterns: Iterable[str]) -> bool:
    """Whether path patterns expand to more than one ruleset may have; no more of them are parsed than tells."""
    total = accumulate(len(parse_glob(pattern).alternatives) for pattern in patterns)
    return any(count > MAX_ALTERNATIVES for count in total)


def inert_command_rules(rules: Sequence[Placed]) -> Iterator[str]:
    """Yield a sentence for each rule that an earlier one certainly covers.

    Args:
        rules: of ``execute``, in the order in which they are tried.
    """
    earlier: dict[Action, list[tuple[Placed, CommandPattern]]] = {}
    for rule in rules:
        sample = rule.pattern.replace("*", _FILL)
        others = (each for action, found in earlier.items() if action != rule.action for each in found)
        for wide, pattern in others:
            likely = pattern.matches(sample) or wide.pattern == rule.pattern
            if likely and covers_command(wide.pattern, rule.pattern):
                yield _sentence(rule, wide)
                break
        earlier.setdefault(rule.action, []).append((rule, compile_command(rule.pattern)))


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
