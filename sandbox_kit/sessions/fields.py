"""The fields of a policy and of a runtime: how a value is checked, and why an update may not change it."""

from __future__ import annotations

import os
import re
import reprlib
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from attrs import fields, frozen

from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.host.system import host_text
from sandbox_kit.paths import check_path, climbs, normalise, parts
from sandbox_kit.runtime import Runtime
from sandbox_kit.types import parse_size

__all__ = [
    "LIMITS",
    "NEVER_FIELDS",
    "POLICY_FIELDS",
    "RUNTIME_FIELDS",
    "Field",
    "check_alias",
    "key_name",
    "shown",
]

Check = Callable[[object, str], Any]
"""Takes a value and its place, returns it plain and in the field's own unit, or raises InvalidArgumentError."""

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WORD = re.compile(r"[!-~]{1,255}")
_LONGEST_SIZE = 40
_LONGEST_KEY = 64


@frozen
class Field:
    """One field.

    Attributes:
        check: what a value has to pass, other than None.
        fixed: why an update may not change it; None where it may.
    """

    check: Check
    fixed: str | None = None


def shown(value: object) -> str:
    """Return *value* as it can stand in a message: shortened, whatever it is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # an integer with more digits than Python prints
        return f"this {type(value).__name__}"


def key_name(key: object) -> str:
    """Return the key of a mapping as it can stand in a message."""
    return key if isinstance(key, str) and 0 < len(key) <= _LONGEST_KEY and key.isprintable() else shown(key)


def check_alias(value: object, place: str) -> str:
    """Return *value*, the alias of a runtime.

    Raises:
        InvalidArgumentError: it is not 1 to 64 of ``A-Za-z0-9._-``, the first a letter or digit.
    """
    if isinstance(value, str) and _ALIAS.fullmatch(value):
        return _plain(value)
    raise _not(value, place, "an alias: 1 to 64 of A-Za-z0-9._-, the first a letter or digit")


def _plain(text: str) -> str:
    """Return *text* itself, where it may be of a subclass such as an enumeration."""
    return "".join((text,))


def _not(value: object, place: str, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{place}: {shown(value)} is not {wanted}")


def _integer(value: object, place: str, wanted: str, least: int = 1, most: int = sys.maxsize) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= (plain := int(value)) <= most:
        return plain
    raise _not(value, place, wanted)


def _count(value: object, place: str) -> int:
    return _integer(value, place, "a positive integer")


def _count_from_zero(value: object, place: str) -> int:
    return _integer(value, place, "an integer from 0 on", least=0)


def _uid(value: object, place: str) -> int:
    return _integer(value, place, "a user's number", least=0, most=2**32 - 2)


def _size(value: object, place: str) -> int:
    if isinstance(value, str) and len(value) <= _LONGEST_SIZE:
        value = parse_size(value, place)
    return _integer(value, place, "a positive size in bytes, such as 1048576 or '512m'")


def _real(value: object, place: str, wanted: str, most: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
        return float(value)
    raise _not(value, place, wanted)


def _seconds(value: object, place: str) -> float:
    return _real(value, place, "a positive number of seconds", threading.TIMEOUT_MAX)


def _seconds_from_zero(value: object, place: str) -> float:
    if not isinstance(value, bool) and value == 0:
        return 0.0
    return _real(value, place, "a number of seconds from 0 on", threading.TIMEOUT_MAX)


def _cpus(value: object, place: str) -> float:
    return _real(value, place, "a positive number of processors", sys.maxsize)


def _flag(value: object, place: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _not(value, place, "true or false")


def _word(value: object, place: str) -> str:
    if isinstance(value, str) and _WORD.fullmatch(value):
        return _plain(value)
    raise _not(value, place, "a name of 1 to 255 characters without blanks")


def _image(value: object, place: str) -> str | Runtime:
    if isinstance(value, Runtime):
        return value
    return _runtime(value, place) if isinstance(value, Mapping) else _word(value, place)


def _runtime(values: Mapping[Any, Any], place: str) -> Runtime:
    known = [each.name for each in fields(Runtime)]
    unknown = [key_name(key) for key in values if key not in known]
    if unknown or values.get("base") is None:
        told = f"there is no {', '.join(unknown)}" if unknown else "it needs a base"
        raise InvalidArgumentError(f"{place}: {told}; a runtime has {', '.join(known)}")
    try:
        return Runtime(**{name: value for name, value in values.items() if value is not None})
    except (InvalidArgumentError, TypeError) as error:
        raise InvalidArgumentError(f"{place}: {error}") from error


def _absolute_host_path(value: Any, place: str) -> str:
    path = _plain(host_text(value, place))
    if os.path.isabs(path):
        return os.path.normpath(path)
    raise _not(value, place, "an absolute path of the host")


def _sandbox_path(value: Any, place: str) -> str:
    with suppress(InvalidArgumentError):
        path = check_path(value)
        if path.startswith("/") and not climbs(parts(path)):
            return _plain(normalise(path))
    raise _not(value, place, "an absolute path of the sandbox")


_CONTAINMENT = "it is part of what contains a sandbox"
_FILES = "it says where files are that exist already"
_MADE = "it holds from when the policy is made"
_SCRATCH = "only the policy's own can be changed"

LIMITS: Final = MappingProxyType(
    {
        "mem_limit": Field(_size),
        "memswap_limit": Field(_size),
        "cpus": Field(_cpus),
        "cpu_shares": Field(_count),
        "pids_limit": Field(_count),
        "tmpfs_size": Field(_size),
    }
)
"""The fields of ``Limits``, which a policy and each of its runtimes have."""

RUNTIME_FIELDS: Final = MappingProxyType(
    {
        "image": Field(_image, _CONTAINMENT),
        "network_mode": Field(_word, _CONTAINMENT),
        "oci_runtime": Field(_word, _CONTAINMENT),
        "sandbox_uid": Field(_uid, _CONTAINMENT),
        **LIMITS,
        "tmpfs_size": Field(_size, _SCRATCH),
    }
)

POLICY_FIELDS: Final = MappingProxyType(
    {
        "default_runtime": Field(check_alias),
        "max_sessions": Field(_count),
        "max_open_sessions": Field(_count),
        "max_sessions_per_tenant": Field(_count),
        "evict_idle_after": Field(_seconds_from_zero),
        "idle_timeout": Field(_seconds),
        "execute_timeout": Field(_seconds),
        "max_read_bytes": Field(_size),
        "workspace_ttl": Field(_seconds),
        "container_ttl": Field(_seconds),
        **LIMITS,
        "persist_containers": Field(_flag, _MADE),
        "prewarm": Field(_count_from_zero, _MADE),
        "workspace_root": Field(_absolute_host_path, _FILES),
        "work_dir": Field(_sandbox_path, _FILES),
    }
)
"""All but ``runtimes``, whose values have fields of their own."""

NEVER_FIELDS: Final = MappingProxyType(
    dict.fromkeys(
        ("image", "volumes", "mounts", "devices", "privileged", "network_mode", "oci_runtime", "sandbox_uid"),
        _CONTAINMENT,
    )
)
"""Names that an update is refused by, whether or not they are fields where it has them: why."""
