"""Rulesets as documents: loaded with every problem reported at once, dumped to plain values."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Any

from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from sandbox_kit.errors import InvalidArgumentError, PatternError, PolicyError
from sandbox_kit.rules.inert import TOO_MANY_ALTERNATIVES, too_many_alternatives
from sandbox_kit.rules.nesting import check_json_depth, check_toml_depth
from sandbox_kit.rules.ruleset import (
    PATH_OPERATIONS,
    OperationPermissions,
    PermissionRule,
    PermissionRuleset,
    check_action,
    check_command_pattern,
    check_path_pattern,
    check_text,
)

__all__ = ["MAX_TOML", "dump_ruleset", "load_ruleset", "parse_document"]

MAX_TOML = 2 * 2**20
"""The most bytes of a TOML document: what the parser needs for each is up to 170 bytes of memory."""


def parse_document(content: bytes, suffix: str) -> Any:
    """Parse the text of a document.

    Args:
        content: UTF-8.
        suffix: ``".json"`` or ``".toml"``, in any case.

    Raises:
        PolicyError: it is not well-formed, names a key twice, nests too deep,
            is TOML of more than 2 MiB, or has another suffix.
    """
    try:
        text = content.decode("utf-8-sig")
        if suffix.lower() == ".json":
            check_json_depth(text)
            return json.loads(text, object_pairs_hook=_unique)
        if suffix.lower() == ".toml":
            if len(content) > MAX_TOML:
                raise ValueError(f"more than {MAX_TOML} bytes of TOML")
            check_toml_depth(text)
            return tomllib.loads(text)
    except ValueError as error:
        raise PolicyError([f"not well-formed: {error}"]) from None
    raise PolicyError([f"suffix {suffix!r} is none of .json, .toml"])


def load_ruleset(document: object) -> PermissionRuleset:
    """Build a ruleset from plain values.

    Raises:
        PolicyError: with every problem of the document, each with its place; or it is empty.
    """
    if isinstance(document, Mapping):
        if not document:
            raise PolicyError(["the document is empty: it would allow everything"])
        if too_many_alternatives(_path_patterns(document)):
            raise PolicyError([TOO_MANY_ALTERNATIVES])
    try:
        return _converter().structure(document, PermissionRuleset)
    except (BaseValidationError, InvalidArgumentError, PolicyError) as error:
        raise PolicyError(_problems(error, "")) from None


def dump_ruleset(ruleset: PermissionRuleset) -> dict[str, Any]:
    """The ruleset as plain values, without what is left at its default; never empty."""
    document: dict[str, Any] = _converter().unstructure(ruleset)
    return document or {"default": ruleset.default}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"key {key!r} is there twice")
        values[key] = value
    return values


@cache
def _converter() -> Converter:
    converter = _operation_converter(check_path_pattern, command=False)
    commands = _operation_converter(check_command_pattern, command=True)

    def execute(value: object, _: object) -> OperationPermissions | None:
        return None if value is None else commands.structure(value, OperationPermissions)

    structure = make_dict_structure_fn(
        PermissionRuleset,
        converter,
        default=override(struct_hook=_hook(check_action)),
        rules=override(struct_hook=_rules(converter)),
        execute=override(struct_hook=execute),
    )
    converter.register_structure_hook(PermissionRuleset, _of_mapping(structure))
    return converter


def _operation_converter(check_pattern: Callable[[object], str], *, command: bool) -> Converter:
    """A converter of operations whose rules have one kind of pattern."""
    converter = Converter(forbid_extra_keys=True, omit_if_default=True, unstruct_collection_overrides={tuple: list})
    rule = make_dict_structure_fn(
        PermissionRule,
        converter,
        pattern=override(struct_hook=_hook(check_pattern)),
        action=override(struct_hook=_hook(check_action)),
        description=override(struct_hook=_hook(check_text)),
        command=override(rename=_COMMAND),
    )
    converter.register_structure_hook(PermissionRule, _of_mapping(rule, {_COMMAND: command}))
    operation = make_dict_structure_fn(
        OperationPermissions,
        converter,
        default=override(struct_hook=lambda value, _: None if value is None else check_action(value)),
        rules=override(struct_hook=_rules(converter)),
    )
    converter.register_structure_hook(OperationPermissions, _of_default(_of_mapping(operation)))
    unstructure = make_dict_unstructure_fn(
        PermissionRule, converter, _cattrs_omit_if_default=True, command=override(omit=True)
    )
    converter.register_unstructure_hook(PermissionRule, unstructure)
    return converter


# The key of an attribute that no document can set.
_COMMAND = "\0command"

_Hook = Callable[[Any, Any], Any]


def _hook(check: Callable[[object], object]) -> _Hook:
    return lambda value, _: check(value)


def _of_mapping(structure: _Hook, extra: Mapping[str, object] = MappingProxyType({})) -> _Hook:
    def hook(value: object, cls: object) -> object:
        if not isinstance(value, Mapping):
            raise InvalidArgumentError(f"{value!r} is not a mapping")
        own = {repr(key) if key in extra else key: item for key, item in value.items()}
        return structure({**own, **extra}, cls)

    return hook


def _of_default(structure: _Hook) -> _Hook:
    """Take a bare action as the default of an operation."""
    return lambda value, cls: structure({"default": value} if isinstance(value, str) else value, cls)


def _rules(converter: Converter) -> _Hook:
    def hook(value: object, _: object) -> tuple[PermissionRule, ...]:
        if not isinstance(value, list | tuple):
            raise InvalidArgumentError(f"{value!r} is not a list")
        return converter.structure(value, tuple[PermissionRule, ...])

    return hook


def _path_patterns(document: Mapping[Any, Any]) -> Iterator[str]:
    """The patterns of all path rules of *document* that are valid."""
    for permissions in (document, *map(document.get, PATH_OPERATIONS)):
        rules = permissions.get("rules") if isinstance(permissions, Mapping) else None
        for rule in rules if isinstance(rules, list | tuple) else ():
            if isinstance(rule, Mapping):
                with suppress(InvalidArgumentError, PatternError):
                    yield check_path_pattern(rule.get("pattern"))


def _problems(error: BaseException, place: str) -> Iterator[str]:
    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            yield from _problems(inner, place + _step(inner))
    elif isinstance(error, PolicyError):
        yield from error.problems
    elif isinstance(error, ForbiddenExtraKeysError):
        yield from (f"{place}.{key}: unknown key".lstrip(".") for key in sorted(map(str, error.extra_fields)))
    else:
        reason = "missing" if isinstance(error, KeyError) else str(error)
        yield f"{place.lstrip('.') or 'document'}: {reason}"


def _step(error: BaseException) -> str:
    """Where in its parent the value stands that *error* is about."""
    notes = [
        n for n in getattr(error, "__notes__", ()) if isinstance(n, AttributeValidationNote | IterableValidationNote)
    ]
    if not notes:
        return ""
    return f".{notes[0].name}" if isinstance(notes[0], AttributeValidationNote) else f"[{notes[0].index}]"
