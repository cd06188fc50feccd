"""Policies as plain values: loaded with every problem reported at once, dumped without what is not set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import asdict

from sandbox_kit.errors import InvalidArgumentError, PolicyError
from sandbox_kit.runtime import Runtime
from sandbox_kit.sessions.fields import LIMITS, POLICY_FIELDS, RUNTIME_FIELDS, Field, check_alias, key_name, shown
from sandbox_kit.sessions.values import PolicyValues, RuntimeProfile
from sandbox_kit.types import Limits

__all__ = ["check_fields", "dump_values", "load_values", "make_limits"]


def load_values(document: object, known: Iterable[str] = ()) -> PolicyValues:
    """Build the values of a policy from plain ones.

    Args:
        document: the fields by name; a runtime's are a mapping, its limits among them, or a bare image.
            None, as null in JSON, leaves a field at its default.
        known: problems that were found before; they come first.

    Raises:
        PolicyError: with every problem of the values; if each is right alone, with all that contradict.
    """
    if not isinstance(document, Mapping):
        raise PolicyError([f"document: {shown(document)} is not a mapping"])
    problems = list(known)
    given = {key: document[key] for key in document}
    profiles = given.pop("runtimes", None)
    own = check_fields(given, POLICY_FIELDS, "", problems)
    runtimes = _load_runtimes(profiles, problems)
    if problems:
        raise PolicyError(problems)
    return PolicyValues(runtimes=runtimes, **own)


def dump_values(values: PolicyValues) -> dict[str, Any]:
    """The document that :func:`load_values` builds *values* from, without what is at its default."""
    default = asdict(PolicyValues(), recurse=False)
    document = {name: value for name, value in asdict(values, recurse=False).items() if value != default[name]}
    if values.runtimes:
        document["runtimes"] = {alias: dump_profile(profile) for alias, profile in values.runtimes.items()}
    return document


def dump_profile(profile: RuntimeProfile) -> dict[str, Any]:
    """The fields of *profile* that are set, limits among them."""
    fields = asdict(profile, recurse=False)
    if isinstance(profile.image, Runtime):
        fields["image"] = _dump_runtime(profile.image)
    limits = asdict(fields.pop("limits"))
    return {name: value for name, value in {**fields, **limits}.items() if value is not None}


def _dump_runtime(runtime: Runtime) -> dict[str, Any]:
    told = asdict(runtime, recurse=False)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items() if value}


def check_fields(
    document: Mapping[Any, object], table: Mapping[str, Field], place: str, problems: list[str]
) -> dict[str, Any]:
    """Return the values of *document* that are right, and add the problems of the rest to *problems*.

    Args:
        place: what names in messages start with, such as ``"runtimes.locked."``.
    """
    checked = {}
    for key in document:
        value = document[key]
        name = f"{place}{key_name(key)}"
        if key not in table:
            problems.append(f"{name}: unknown key")
            continue
        try:
            checked[key] = None if value is None else table[key].check(value, name)
        except InvalidArgumentError as error:
            problems.append(str(error))
    return checked


def make_limits(values: Mapping[str, Any], place: str, problems: list[str]) -> Limits:
    """Return the limits among *values*; if they contradict, none, and a problem is added to *problems*."""
    try:
        return Limits(**{name: values.get(name) for name in LIMITS})
    except InvalidArgumentError as error:
        problems.append(f"{place}memswap_limit: {error}")
        return Limits()


def _load_runtimes(document: object, problems: list[str]) -> dict[str, RuntimeProfile]:
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        problems.append(f"runtimes: {shown(document)} is not a mapping")
        return {}
    runtimes = {}
    for alias in document:
        try:
            name = check_alias(alias, "runtimes")
        except InvalidArgumentError as error:
            problems.append(str(error))
            continue
        runtimes[name] = _load_profile(document[alias], f"runtimes.{alias}", problems)
    return runtimes


def _load_profile(document: object, place: str, problems: list[str]) -> RuntimeProfile:
    """Return a profile; an incomplete one if anything is added to *problems*."""
    fields = {"image": document} if isinstance(document, str) else document
    if not isinstance(fields, Mapping):
        problems.append(f"{place}: {shown(document)} is neither a mapping nor an image")
        return RuntimeProfile()
    before = len(problems)
    checked = check_fields(fields, RUNTIME_FIELDS, f"{place}.", problems)
    if len(problems) > before:
        return RuntimeProfile()
    own = {name: value for name, value in checked.items() if name not in LIMITS}
    return RuntimeProfile(**own, limits=make_limits(checked, f"{place}.", problems))
