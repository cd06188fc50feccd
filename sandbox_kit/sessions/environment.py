"""A policy in environment variables: ``SANDBOX_KIT_MAX_SESSIONS=3``, one variable a field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from sandbox_kit.errors import PolicyError
from sandbox_kit.sessions.fields import POLICY_FIELDS, key_name

__all__ = ["OVERRIDES_VARIABLE", "read_environment", "typed"]

OVERRIDES_VARIABLE: Final = "SANDBOX_KIT_POLICY_OVERRIDES"
"""Names the overrides file."""

_READ_ELSEWHERE = frozenset({OVERRIDES_VARIABLE})
_PREFIX = "SANDBOX_KIT_"
_FIELDS = {f"{_PREFIX}{name.upper()}": name for name in ("runtimes", *POLICY_FIELDS)}
_NOT_TEXT = frozenset(POLICY_FIELDS) - {"default_runtime", "workspace_root", "work_dir"}


def read_environment(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return what *environ* sets, as a document, and what is wrong with it so far: one sentence a problem.

    A number and ``true`` or ``false`` is written as in JSON, a size also with its unit; ``runtimes`` is a JSON object.
    A variable with the prefix that the library does not know is a problem: mistyped, it would set no ceiling.
    """
    names = sorted(name for name in environ if name.startswith(_PREFIX) and name not in _READ_ELSEWHERE)
    problems = [f"{key_name(name)}: is no field of a policy" for name in names if name not in _FIELDS]
    document = {_FIELDS[name]: typed(_FIELDS[name], environ[name]) for name in names if name in _FIELDS}
    if "runtimes" in document:
        try:
            document["runtimes"] = _runtimes(environ[f"{_PREFIX}RUNTIMES"])
        except PolicyError as error:
            del document["runtimes"]
            problems += error.problems
    return document, problems


def typed(field: str, text: str) -> object:
    """Return what *text* stands for as a value of *field*: a number, true or false as in JSON, or the text itself."""
    if field in _NOT_TEXT:
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            return text if value is None else value
    return text


def _runtimes(text: str) -> object:
    from sandbox_kit.rules.documents import parse_document

    try:
        return parse_document(text.encode("utf-8", "surrogatepass"), ".json")
    except PolicyError as error:
        raise PolicyError(f"runtimes: {problem}" for problem in error.problems) from None
