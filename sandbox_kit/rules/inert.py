"""Rules that can never decide, because an earlier one with another action always does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from sandbox_kit.rules.command_pattern import CommandPattern, compile_command
from sandbox_kit.rules.cover import covers_command, covers_path
from sandbox_kit.rules.globs import Glob, parse_glob
from sandbox_kit.rules.globset import GlobSet, Member
from sandbox_kit.rules.segments import Gap, Part, Step
from sandbox_kit.types import Action

__all__ = [
    "TOO_MANY_ALTERNATIVES",
    "inert_command_rules",
    "inert_path_rules",
    "too_many_alternatives",
]

MAX_CANDIDATES = 16
MAX_ALTERNATIVES = 10_000
TOO_MANY_ALTERNATIVES = (
    f"its path rules have more than {MAX_ALTERNATIVES} alternatives in all: one for each rule, "
    "or for each combination of its braces"
)

_WORK_DIR = "/qzx/work"
_FILL = "qzx"

Pair = tuple[int, int]
"""The index of an inert rule, and that of the earlier one that covers it."""


class RuleLike(Protocol):
    """What is looked at of a rule."""

    @property
    def pattern(self) -> str:
        """Of a path or of a command."""

    @property
    def action(self) -> Action:
        """What it decides."""


def inert_path_rules(rules: Sequence[RuleLike], later: Sequence[RuleLike] = ()) -> Iterator[Pair]:
    """Yield each rule of both that one before it in *rules* certainly covers with another action.

    One path that a rule matches tells which earlier rules can cover it; only those are then
    held to a proof.

    Args:
        rules: in the order in which they are tried.
        later: what follows them; how these cover each other is not looked at.

    Yields:
        Pairs of indices, counted through both.
    """
    both = [*rules, *later]
    globs = [parse_glob(rule.pattern) for rule in both]
    found = GlobSet(
        Member(index, steps, _beneath(rule))
        for index, rule in enumerate(rules)
        for steps in globs[index].steps(_WORK_DIR)
    )
    for index, rule in enumerate(both):
        sample = _sample_path(globs[index]) if rules else None
        earlier = [i for i in found.every(sample) if i < index and rules[i].action != rule.action] if sample else []
        for i in earlier[:MAX_CANDIDATES]:
            if covers_path(globs[i], _beneath(rules[i]), globs[index], _beneath(rule)):
                yield index, i
                break


def _beneath(rule: RuleLike) -> bool:
    """Whether it also matches all beneath a match."""
    return rule.action != "allow"


def too_many_alternatives(patterns: Iterable[str]) -> bool:
    """Whether path patterns expand to more than one ruleset may have; no more of them are parsed than tells."""
    total = accumulate(len(parse_glob(pattern).alternatives) for pattern in patterns)
    return any(count > MAX_ALTERNATIVES for count in total)


def inert_command_rules(rules: Sequence[RuleLike]) -> Iterator[Pair]:
    """Yield each rule that an earlier one certainly covers with another action, as :func:`inert_path_rules` does.

    Args:
        rules: of ``execute``, in the order in which they are tried.
    """
    earlier: dict[Action, list[tuple[int, CommandPattern]]] = {}
    for index, rule in enumerate(rules):
        sample = rule.pattern.replace("*", _FILL)
        others = (each for action, found in earlier.items() if action != rule.action for each in found)
        for wide, pattern in others:
            likely = pattern.matches(sample) or pattern.source == rule.pattern
            if likely and covers_command(pattern.source, rule.pattern):
                yield index, wide
                break
        earlier.setdefault(rule.action, []).append((index, compile_command(rule.pattern)))


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
