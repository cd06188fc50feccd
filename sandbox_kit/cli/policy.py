"""``policy``: show the policy in force, check a document, change the overrides file."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox_kit.cli.documents import tell_validity
from sandbox_kit.cli.exits import ExitCode, UsageError
from sandbox_kit.cli.saving import alone, save
from sandbox_kit.cli.screen import Screen, complain
from sandbox_kit.errors import PathError, PathNotFoundError, PolicyError
from sandbox_kit.sessions.environment import OVERRIDES_VARIABLE, read_environment, typed
from sandbox_kit.sessions.files import named, read_document
from sandbox_kit.sessions.loading import load_values
from sandbox_kit.sessions.overrides import PolicyOverrides
from sandbox_kit.sessions.policy import SandboxPolicy, apply_policy_update

__all__ = ["check", "load_policy", "set_overrides", "show"]

_RUNTIMES = "runtimes"


def load_policy(path: str | None) -> tuple[SandboxPolicy, dict[str, str]]:
    """Return the policy of a file and the environment, whose fields go before the file's, and where each comes from.

    Args:
        path: a JSON or TOML file of the host; None for the environment alone.

    Raises:
        UsageError: the file cannot be read.
        PolicyError: the policy is refused.
    """
    variables, problems = read_environment(os.environ)
    documents = {"file": {} if path is None else _read(path), "environment": variables}
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, document in documents.items():
        merged |= document
        sources |= dict.fromkeys(document, source)
    return SandboxPolicy(load_values(merged, problems)), sources


def show(args: Namespace, screen: Screen) -> int:
    """Print the values in force, each with its source."""
    policy, sources = load_policy(args.policy)
    path = args.overrides or os.environ.get(OVERRIDES_VARIABLE)
    if path:
        sources |= dict.fromkeys(_override(policy, path), "overrides")
    rows = [(name, value, _source(name, sources)) for name, value in _flat(policy.to_dict())]
    if args.json:
        screen.json({"policy": policy.to_dict(), "sources": {name: source for name, _, source in rows}}, indent=2)
        return ExitCode.DONE
    for name, value, source in rows:
        screen.line(f"{name} = {screen.name(json.dumps(value))}  # {source}")
    if not rows:
        screen.line("nothing is set")
    return ExitCode.DONE


def check(args: Namespace, screen: Screen) -> int:
    """Say whether a document is a policy, or with ``--overrides`` an update of one, with every problem that it has."""
    if args.file and args.policy:
        raise UsageError("the policy is given twice, as FILE and by --policy")
    path = args.file or args.policy
    if not (path or args.overrides):
        raise UsageError("a policy is missing, or --overrides FILE")
    if args.overrides:
        return tell_validity(args.overrides, lambda: _check_update(path, args.overrides), args, screen)
    return tell_validity(path, lambda: SandboxPolicy.from_file(path), args, screen)


def _check_update(path: str | None, overrides: str) -> None:
    policy, _ = load_policy(path)
    PolicyOverrides(policy, overrides)
    with named(overrides):
        apply_policy_update(policy, read_document(overrides), dry_run=True)


def set_overrides(args: Namespace, screen: Screen) -> int:
    """Change the overrides file, in one step, if the policy takes what it then holds."""
    policy, _ = load_policy(args.policy)
    if Path(PolicyOverrides(policy, args.overrides).path).suffix.lower() != ".json":
        raise UsageError("only a .json file can be written")
    with alone(args.overrides):
        document = _existing(args.overrides)
        with named(args.overrides):
            apply_policy_update(policy, document)
        before = dict(_flat(policy.to_dict()))
        for assignment in args.assignments:
            _assign(document, assignment)
        changed = apply_policy_update(policy, document)
        if not args.dry_run:
            save(json.dumps(document, indent=2) + "\n", args.overrides)
    after = dict(_flat(policy.to_dict()))
    if args.json:
        screen.json({"changed": changed, "dry_run": args.dry_run, "overrides": document})
        return ExitCode.DONE
    for name in changed:
        screen.line(f"{name}: {json.dumps(before.get(name))} -> {json.dumps(after.get(name))}")
    return ExitCode.DONE


def _read(path: str) -> dict[str, Any]:
    """Return the document *path*, a mapping."""
    try:
        with named(path):
            document = read_document(path)
    except PathError as error:
        raise UsageError(f"the document cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise PolicyError([f"{path}: is not a mapping"])
    return document


def _existing(path: str) -> dict[str, Any]:
    return _read(path) if os.path.exists(path) else {}


def _override(policy: SandboxPolicy, path: str) -> list[str]:
    """Apply an overrides file as programs do: what is refused is told and ignored."""
    PolicyOverrides(policy, path)
    try:
        return apply_policy_update(policy, read_document(path))
    except PathNotFoundError:
        return []
    except (PathError, PolicyError) as error:
        complain(f"{path}: ignored: {error}")
        return []


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields by their dotted names; a runtime that sets nothing as an empty mapping."""
    for name, value in document.items():
        if name != _RUNTIMES:
            yield name, value
            continue
        for alias, profile in value.items():
            yield from ((f"{name}.{alias}.{key}", own) for key, own in profile.items())
            if not profile:
                yield f"{name}.{alias}", {}


def _source(name: str, sources: Mapping[str, str]) -> str:
    return sources.get(name) or sources[name.partition(".")[0]]


def _assign(document: dict[str, Any], assignment: str) -> None:
    """Enter ``field=value`` or ``runtimes.ALIAS.field=value``; an alias may have dots."""
    name, equals, text = assignment.partition("=")
    if not equals:
        raise UsageError(f"{assignment!r} is not of the form FIELD=VALUE")
    first, _, rest = name.partition(".")
    alias, _, field = rest.rpartition(".")
    if first == _RUNTIMES and not alias:
        raise UsageError(f"{name}: of a runtime one field at a time is set: {_RUNTIMES}.ALIAS.FIELD=VALUE")
    own = document.setdefault(_RUNTIMES, {}).setdefault(alias, {}) if first == _RUNTIMES else document
    key = field if first == _RUNTIMES else name
    own[key] = None if text == "null" else typed(key, text)
