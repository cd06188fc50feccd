"""A naive model of a policy: plain documents in, plain documents out, every rule written out by hand."""

from __future__ import annotations

import copy
import math
from typing import Any

COUNTS = {"max_sessions", "max_open_sessions", "max_sessions_per_tenant", "cpu_shares", "pids_limit"}
SECONDS = {"idle_timeout", "execute_timeout", "workspace_ttl", "container_ttl"}
SIZES = {"max_read_bytes", "mem_limit", "memswap_limit", "tmpfs_size"}
WRITABLE = COUNTS | SECONDS | SIZES | {"cpus", "evict_idle_after", "default_runtime"}
WRITABLE_OF_A_RUNTIME = {"mem_limit", "memswap_limit", "cpus", "cpu_shares", "pids_limit"}

SPELT = {"512m": 512 * 1024 * 1024, "1g": 1024 * 1024 * 1024, "2k": 2048}

Document = dict[str, Any]


class RefusedError(Exception):
    """The update is refused."""


def update(document: Document, change: Any) -> tuple[Document, list[str]]:
    """Return the document after *change* and the dotted names of what differs."""
    new = copy.deepcopy(document)
    refuse_unless(isinstance(change, dict))
    for name, value in change.items():
        if name == "runtimes":
            refuse_unless(isinstance(value, dict))
            for alias, profile in value.items():
                refuse_unless(alias in new.get("runtimes", {}) and isinstance(profile, dict))
                for field, own in profile.items():
                    refuse_unless(field in WRITABLE_OF_A_RUNTIME)
                    put(new["runtimes"][alias], field, own)
        else:
            refuse_unless(name in WRITABLE)
            put(new, name, value)
    refuse_unless(agrees(new))
    before, after = dotted(document), dotted(new)
    return new, sorted(name for name in before | after if before.get(name) != after.get(name))


def refuse_unless(right: bool) -> None:
    if not right:
        raise RefusedError


def put(document: Document, field: str, value: Any) -> None:
    if value is None:
        document.pop(field, None)
        return
    if field == "default_runtime":
        refuse_unless(isinstance(value, str))
    elif field in SIZES and isinstance(value, str):
        refuse_unless(value in SPELT)
        value = SPELT[value]
    else:
        refuse_unless(type(value) is int or (type(value) is float and field not in COUNTS | SIZES))
        refuse_unless(math.isfinite(value) and (value > 0 or (value == 0 and field == "evict_idle_after")))
    document[field] = value


def agrees(document: Document) -> bool:
    runtimes = document.get("runtimes", {})
    if document.get("default_runtime", next(iter(runtimes), None)) not in {*runtimes, None}:
        return False
    if document.get("max_open_sessions", math.inf) < document.get("max_sessions", 0):
        return False
    own = [document, *runtimes.values()]
    return all(map(swap_holds_memory, own)) and all(swap_holds_memory({**document, **each}) for each in own)


def swap_holds_memory(limits: Document) -> bool:
    return "memswap_limit" not in limits or limits.get("mem_limit", math.inf) <= limits["memswap_limit"]


def dotted(document: Document) -> Document:
    flat = {name: value for name, value in document.items() if name != "runtimes"}
    for alias, profile in document.get("runtimes", {}).items():
        flat |= {f"runtimes.{alias}.{name}": value for name, value in profile.items()}
    return flat


def fixed(document: Document) -> Document:
    """What no update may change: all but the writable fields; the aliases are part of it."""
    own = {name: value for name, value in document.items() if name not in {*WRITABLE, "runtimes"}}
    return own | {
        f"runtimes.{alias}": {name: value for name, value in profile.items() if name not in WRITABLE_OF_A_RUNTIME}
        for alias, profile in document.get("runtimes", {}).items()
    }
