"""Several rulesets as one, never laxer than any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from attrs import evolve, frozen

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.rules.compiled import STRICTNESS
from sandbox_kit.rules.cover import covers_command, covers_path
from sandbox_kit.rules.globs import parse_glob
from sandbox_kit.rules.ruleset import OPERATIONS, OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Action, Operation

__all__ = ["combine"]


def combine(*rulesets: PermissionRuleset) -> PermissionRuleset:
    """Return one ruleset in place of several: denials first, then asks, then allows.

    For each operation the default is the strictest one. Rules that all of them start with keep their
    place. Then come the denials of rulesets that do nothing but deny; if one other ruleset is left, its
    rules follow in their own order, and the verdicts are exactly the strictest of all.

    Where several others are left, all their denials come first, then the asks, then the allows. An allow
    stays only if every ruleset whose default is stricter has it too; an ask that another ruleset's
    default would deny, and which that one does not have too, becomes a denial. What comes out is then never
    laxer than any part, but may be stricter: an exception that one part makes from its own denial is lost.
    Guards put one inside another give the exact verdicts.

    Rules that an earlier one covers are left out.

    Args:
        rulesets: at least one.

    Raises:
        InvalidArgumentError: there is none, or something else.
    """
    if not rulesets:
        raise InvalidArgumentError("no ruleset to combine")
    for ruleset in rulesets:
        if not isinstance(ruleset, PermissionRuleset):
            raise InvalidArgumentError(f"{ruleset!r} is not a PermissionRuleset")
    if len(rulesets) == 1:
        return rulesets[0]
    default = _strictest([ruleset.default for ruleset in rulesets])
    combined: dict[Operation, OperationPermissions] = {
        operation: _combined(operation, [_Part.of(ruleset, operation) for ruleset in rulesets])
        for operation in OPERATIONS
    }
    return PermissionRuleset(
        default,
        read=combined["read"],
        write=combined["write"],
        edit=combined["edit"],
        execute=combined["execute"],
        ls=combined["ls"],
        glob=combined["glob"],
        grep=combined["grep"],
    )


@frozen
class _Part:
    """What one ruleset says of one operation."""

    default: Action
    rules: tuple[PermissionRule, ...]

    @classmethod
    def of(cls, ruleset: PermissionRuleset, operation: Operation) -> _Part:
        return cls(ruleset.default_for(operation), ruleset.rules_for(operation))

    @property
    def only_denies(self) -> bool:
        """Whether it says nothing but which targets are denied."""
        return self.default == "allow" and all(rule.action == "deny" for rule in self.rules)

    def lets(self, rule: PermissionRule) -> bool:
        """Whether its default is no stricter than *rule*, or a rule of its own is the same.

        An allow of the same pattern is no excuse for an ask: an ask also covers what lies beneath a match,
        and other spellings of it.
        """
        same = any(own.action == rule.action and own.pattern == rule.pattern for own in self.rules)
        return same or STRICTNESS[self.default] <= STRICTNESS[rule.action]


def _combined(operation: Operation, parts: Sequence[_Part]) -> OperationPermissions:
    shared = list(_shared_start(parts))
    rests = [evolve(part, rules=part.rules[len(shared) :]) for part in parts]
    denials = [rule for rest in rests if rest.only_denies for rule in rest.rules]
    others = [rest for rest in rests if not rest.only_denies]
    ordered = others[0].rules if len(others) == 1 else _merged(others)
    rules = _without_covered([*shared, *denials, *ordered], is_command=operation == "execute")
    return OperationPermissions(_strictest([part.default for part in parts]), rules)


def _merged(parts: Sequence[_Part]) -> Sequence[PermissionRule]:
    """The rules of all parts, the strictest actions first."""
    rules = (kept for part in parts for rule in part.rules for kept in _kept(rule, parts))
    return sorted(rules, key=_by_strictness)


def _shared_start(parts: Sequence[_Part]) -> Iterator[PermissionRule]:
    """The rules that all parts start with."""
    same = takewhile(lambda rules: len(set(rules)) == 1, zip(*(part.rules for part in parts), strict=False))
    return (rules[0] for rules in same)


def _kept(rule: PermissionRule, parts: Sequence[_Part]) -> Iterator[PermissionRule]:
    """What becomes of *rule* beside the others."""
    if all(part.lets(rule) for part in parts):
        yield rule
    elif rule.action == "ask":
        yield evolve(rule, action="deny")


def _by_strictness(rule: PermissionRule) -> int:
    return -STRICTNESS[rule.action]


def _without_covered(rules: Sequence[PermissionRule], is_command: bool) -> list[PermissionRule]:
    """The rules without those that can never decide.

    An ask behind a wider denial becomes one too: its literal prefix may lead to where that one does not hold.
    """
    kept: list[PermissionRule] = []
    for rule in dict.fromkeys(rules):
        wide = next((each for each in kept if each.action != rule.action and _covers(each, rule, is_command)), None)
        if wide is None:
            kept.append(rule)
        elif (rule.action, wide.action) == ("ask", "deny"):
            kept.insert(kept.index(wide) + 1, evolve(rule, action="deny"))
    return list(dict.fromkeys(kept))


def _covers(wide: PermissionRule, narrow: PermissionRule, is_command: bool) -> bool:
    if is_command:
        return covers_command(wide.pattern, narrow.pattern)
    globs = parse_glob(wide.pattern), parse_glob(narrow.pattern)
    return covers_path(globs[0], wide.action != "allow", globs[1], narrow.action != "allow")


def _strictest(actions: Sequence[Action]) -> Action:
    return max(actions, key=STRICTNESS.__getitem__)
