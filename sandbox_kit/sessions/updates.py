"""What an update does to the values of a policy: pure, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, evolve

from sandbox_kit.errors import PolicyError
from sandbox_kit.sessions.fields import NEVER_FIELDS, POLICY_FIELDS, RUNTIME_FIELDS, Field, key_name, shown
from sandbox_kit.sessions.loading import check_fields, make_limits
from sandbox_kit.sessions.values import PolicyValues, RuntimeProfile, Runtimes

__all__ = ["changed_names", "updated"]


def updated(values: PolicyValues, update: object) -> PolicyValues:
    """Return *values* with *update* applied.

    Args:
        update: the writable fields by name, and under ``runtimes`` those of each alias. What is absent
            stays as it is; None clears.

    Raises:
        PolicyError: with every field that is refused, or what would contradict; a mapping is due.
    """
    if not isinstance(update, Mapping):
        raise PolicyError([f"update: {shown(update)} is not a mapping"])
    problems: list[str] = []
    given = {key: update[key] for key in update}
    runtimes = given.pop("runtimes", {})
    changes = check_fields(_writable(given, POLICY_FIELDS, "", problems), POLICY_FIELDS, "", problems)
    changes["runtimes"] = _update_runtimes(values.runtimes, runtimes, problems)
    if problems:
        raise PolicyError(problems)
    return evolve(values, **changes)


def changed_names(old: PolicyValues, new: PolicyValues) -> list[str]:
    """The dotted names of what differs, sorted; both have the same aliases."""
    before, after = asdict(old, recurse=False), asdict(new, recurse=False)
    names = [name for name in POLICY_FIELDS if before[name] != after[name]]
    for alias, profile in old.runtimes.items():
        own, other = asdict(profile.limits), asdict(new.runtimes[alias].limits)
        names += [f"runtimes.{alias}.{name}" for name in own if own[name] != other[name]]
    return sorted(names)


def _writable(
    update: Mapping[Any, object], table: Mapping[str, Field], place: str, problems: list[str]
) -> dict[str, object]:
    """Return what of *update* may be changed; each other field is named in *problems*, with the reason."""
    kept = {}
    for key, value in update.items():
        reason = table[key].fixed if key in table else NEVER_FIELDS.get(key, "no such field")
        if reason is None:
            kept[key] = value
        else:
            problems.append(f"{place}{key_name(key)}: an update cannot change it: {reason}")
    return kept


def _update_runtimes(runtimes: Mapping[str, RuntimeProfile], update: object, problems: list[str]) -> Runtimes:
    if not isinstance(update, Mapping):
        problems.append(f"runtimes: an update cannot change which there are: {shown(update)} is not a mapping")
        return Runtimes(runtimes)
    changed = {}
    for alias in update:
        if alias in runtimes:
            changed[alias] = _update_profile(runtimes[alias], update[alias], f"runtimes.{alias}", problems)
        else:
            problems.append(f"runtimes.{key_name(alias)}: an update cannot add a runtime")
    return Runtimes({**runtimes, **changed})


def _update_profile(profile: RuntimeProfile, update: object, place: str, problems: list[str]) -> RuntimeProfile:
    if not isinstance(update, Mapping):
        problems.append(f"{place}: an update cannot replace or remove a runtime: {shown(update)} is not a mapping")
        return profile
    before = len(problems)
    kept = _writable(update, RUNTIME_FIELDS, f"{place}.", problems)
    limits = asdict(profile.limits) | check_fields(kept, RUNTIME_FIELDS, f"{place}.", problems)
    if len(problems) > before:
        return profile
    return evolve(profile, limits=make_limits(limits, f"{place}.", problems))
