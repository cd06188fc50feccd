"""The values of a policy: frozen, checked when they are built, each in one unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

from attrs import Attribute, asdict, field, frozen

from sandbox_kit.errors import InvalidArgumentError, PolicyError
from sandbox_kit.runtime import Runtime
from sandbox_kit.sessions.fields import LIMITS, POLICY_FIELDS, RUNTIME_FIELDS, Field, check_alias, shown
from sandbox_kit.types import Limits

__all__ = ["PolicyValues", "RuntimeProfile", "Runtimes"]


def _checking(table: Mapping[str, Field]) -> Callable[[type, list[Attribute[Any]]], list[Attribute[Any]]]:
    """Make the constructor of a class check each attribute that *table* has; None stands for the default."""

    def converter(name: str, default: object) -> Callable[[object], object]:
        check = table[name].check
        return lambda value: default if value is None else check(value, name)

    def transform(_: type, attributes: list[Attribute[Any]]) -> list[Attribute[Any]]:
        return [a.evolve(converter=converter(a.name, a.default)) if a.name in table else a for a in attributes]

    return transform


def _as_limits(value: Limits) -> Limits:
    if not isinstance(value, Limits):
        raise InvalidArgumentError(f"limits: {shown(value)} is not a Limits")
    return value


@frozen(field_transformer=_checking(RUNTIME_FIELDS))
class RuntimeProfile:
    """What sandboxes of one alias are made of.

    Attributes:
        image: of containers, a name or a :class:`~sandbox_kit.Runtime` that is built; None where the backend
            needs none.
        network_mode: such as ``"none"``; None for the backend's default.
        oci_runtime: such as ``"runsc"``; None for the engine's default.
        sandbox_uid: the number of the user whom commands run as; None for the image's, or where this process is
            not root for its own.
        limits: the own ceilings; where one is None the policy's holds.

    Raises:
        InvalidArgumentError: a value is not one of its field.
    """

    image: str | Runtime | None = None
    network_mode: str | None = None
    oci_runtime: str | None = None
    sandbox_uid: int | None = None
    limits: Limits = field(factory=Limits, converter=_as_limits)


class Runtimes(Mapping[str, RuntimeProfile]):
    """Profiles by alias, in order. It does not change; it can be hashed, pickled and copied.

    Args:
        profiles: by alias; a bare image is a profile.

    Raises:
        InvalidArgumentError: it is no mapping, or an alias or a profile is none.
    """

    __slots__ = ("_profiles",)

    def __init__(self, profiles: Mapping[str, RuntimeProfile | str] = MappingProxyType({})) -> None:
        if not isinstance(profiles, Mapping):
            raise InvalidArgumentError(f"runtimes: {shown(profiles)} is not a mapping")
        self._profiles = {check_alias(alias, "runtimes"): _as_profile(profiles[alias], alias) for alias in profiles}

    def __getitem__(self, alias: str) -> RuntimeProfile:
        return self._profiles[alias]

    def __iter__(self) -> Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def __hash__(self) -> int:
        return hash(frozenset(self._profiles.items()))

    def __repr__(self) -> str:
        return f"Runtimes({self._profiles!r})"

    def __reduce__(self) -> tuple[type[Runtimes], tuple[dict[str, RuntimeProfile]]]:
        return Runtimes, (self._profiles,)


def _as_profile(value: RuntimeProfile | str, alias: str) -> RuntimeProfile:
    if isinstance(value, str):
        return RuntimeProfile(image=value)
    if not isinstance(value, RuntimeProfile):
        raise InvalidArgumentError(f"runtimes.{alias}: {shown(value)} is neither a RuntimeProfile nor an image")
    return value


@frozen(field_transformer=_checking(POLICY_FIELDS))
class PolicyValues:
    """What an operator has set, whole at one moment. None sets nothing.

    Times are float seconds; sizes are bytes, and taken as ``"512m"`` as well.

    Attributes:
        runtimes: what a session may run in, by alias; a bare image is a profile.
        default_runtime: the alias for a session that names none.
        max_sessions: how many sessions may be resident.
        max_open_sessions: how many may be open, hibernated ones too; at least *max_sessions*.
        max_sessions_per_tenant: how many of one tenant may be open.
        evict_idle_after: how long a session is idle before it may hibernate to make room; 0 for at once.
        idle_timeout: how long a session is idle before it hibernates in any case.
        execute_timeout: default and ceiling of a command's time limit.
        max_read_bytes: ceiling of what one read returns; None for the backend's own.
        workspace_ttl: how long the files of a session that is not open are kept.
        container_ttl: how long a container that is kept stopped is kept.
        mem_limit: memory of a sandbox whose runtime sets none of its own. So for the other limits.
        memswap_limit: memory and swap together; at least *mem_limit*.
        cpus: processors, such as 1.5.
        cpu_shares: relative weight.
        pids_limit: the number of processes and threads.
        tmpfs_size: of the temporary file system.
        persist_containers: whether a stopped container is kept.
        prewarm: how many sandboxes are started before they are asked for.
        workspace_root: the directory of the host that holds ``<session id>/workspace``.
        work_dir: where the workspace is inside a sandbox.

    Raises:
        InvalidArgumentError: a value is not one of its field.
        PolicyError: two values contradict each other.
    """

    runtimes: Mapping[str, RuntimeProfile] = field(factory=Runtimes, converter=Runtimes)
    default_runtime: str | None = None
    max_sessions: int | None = None
    max_open_sessions: int | None = None
    max_sessions_per_tenant: int | None = None
    evict_idle_after: float | None = None
    idle_timeout: float | None = None
    execute_timeout: float | None = None
    max_read_bytes: int | None = None
    workspace_ttl: float | None = None
    container_ttl: float | None = None
    mem_limit: int | None = None
    memswap_limit: int | None = None
    cpus: float | None = None
    cpu_shares: int | None = None
    pids_limit: int | None = None
    tmpfs_size: int | None = None
    persist_containers: bool = False
    prewarm: int = 0
    workspace_root: str | None = None
    work_dir: str | None = None

    def __attrs_post_init__(self) -> None:
        problems = tuple(_contradictions(self))
        if problems:
            raise PolicyError(problems)

    def profile_for(self, alias: str | None = None) -> RuntimeProfile:
        """The profile of *alias*; of the default runtime for None, and an empty one if there is none.

        Raises:
            InvalidArgumentError: no runtime has that alias.
        """
        name = self.default_runtime if alias is None else alias
        if name is None:
            return RuntimeProfile()
        if name not in self.runtimes:
            raise InvalidArgumentError(f"runtime: {_none_of(name, self.runtimes)}")
        return self.runtimes[name]

    def limits_for(self, alias: str | None = None) -> Limits:
        """The limits that hold for a new sandbox: the profile's own, and the policy's where it has none.

        Args:
            alias: as in :meth:`profile_for`.

        Raises:
            InvalidArgumentError: no runtime has that alias.
        """
        return Limits(**_overlaid(self, self.profile_for(alias).limits))


def _overlaid(values: PolicyValues, own: Limits) -> dict[str, Any]:
    common = asdict(values, filter=lambda attribute, _: attribute.name in LIMITS)
    return common | {name: value for name, value in asdict(own).items() if value is not None}


def _none_of(name: object, names: Iterable[str]) -> str:
    return f"{shown(name)} is none of the runtimes ({', '.join(sorted(names)) or 'there are none'})"


def _contradictions(values: PolicyValues) -> Iterator[str]:
    """Yield what is wrong with *values* that are each right alone."""
    if values.default_runtime is not None and values.default_runtime not in values.runtimes:
        yield f"default_runtime: {_none_of(values.default_runtime, values.runtimes)}"
    resident, opened = values.max_sessions, values.max_open_sessions
    if opened is not None and resident is not None and opened < resident:
        yield f"max_open_sessions: {opened} is under max_sessions ({resident})"
    if values.memswap_limit is not None and (values.mem_limit is None or values.memswap_limit < values.mem_limit):
        yield f"memswap_limit: {values.memswap_limit} counts memory and swap together: it needs a mem_limit under it"
    else:
        yield from chain.from_iterable(_swap_under_memory(values, alias) for alias in values.runtimes)


def _swap_under_memory(values: PolicyValues, alias: str) -> Iterator[str]:
    """Yield a problem if the memory limit of the runtime *alias* exceeds the swap limit that holds with it."""
    limits = _overlaid(values, values.runtimes[alias].limits)
    memory, swap = limits["mem_limit"], limits["memswap_limit"]
    if swap is not None and memory > swap:
        yield f"runtimes.{alias}.memswap_limit: {swap} is under the mem_limit of {memory} that holds with it"
