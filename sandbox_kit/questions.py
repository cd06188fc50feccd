"""Question: what a person is to approve, whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from attrs import field, frozen

from sandbox_kit.calls import Key, Rules
from sandbox_kit.errors import printable
from sandbox_kit.types import Verdict

__all__ = ["Question", "rules_of"]


@frozen
class Question:
    """What one call asks a person for.

    Attributes:
        operation: of the first name.
        target: what the caller named.
        rule: what asks for the first name; None for a default.
        rules: every rule that asks, as text.
        reason: those rules, what is given with a command, and where links lead; the latter is not for the caller.
        keys: what a yes is good for: each with its rules.
    """

    operation: str
    target: str
    rule: str | None
    rules: str
    reason: str
    keys: dict[Key, Rules] = field(repr=False)

    @classmethod
    def of(cls, target: str, pending: Mapping[Key, Sequence[Verdict]], terms: Sequence[str] = ()) -> Question:
        """Return the question that puts all that is *pending*; *terms* tell what is given with a command."""
        verdicts = [verdict for asking in pending.values() for verdict in asking]
        rules = list(dict.fromkeys(f"{each.operation}: {each.rule or 'by default'}" for each in verdicts))
        others = (name for _, names, _ in pending for name in names if name != names[0])
        leads = dict.fromkeys(f"leads to {printable(name)}" for name in others)
        return cls(
            verdicts[0].operation,
            target,
            verdicts[0].rule,
            "; ".join(rules),
            "; ".join([*rules, *map(printable, terms), *leads]),
            {key: rules_of(asking) for key, asking in pending.items()},
        )

    @property
    def fingerprint(self) -> str:
        """A text that is another one for whatever a yes would be good for beside this."""
        keys = sorted((repr(key), sorted(map(repr, rules))) for key, rules in self.keys.items())
        return sha256(repr(keys).encode()).hexdigest()


def rules_of(asking: Sequence[Verdict]) -> Rules:
    """Return the rules of what asks for one key."""
    return frozenset((verdict.operation, verdict.rule) for verdict in asking)
