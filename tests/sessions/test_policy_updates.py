"""Updates of a policy in force: what may change, all or nothing, and what a reader sees meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit import PolicyError, PolicyValues, RuntimeProfile, SandboxPolicy, apply_policy_update
from sandbox_kit.sessions.fields import NEVER_FIELDS, POLICY_FIELDS, RUNTIME_FIELDS
from tests.sessions import oracle_policy as oracle

START: dict[str, Any] = {
    "runtimes": {
        "open": {"image": "python:3.12", "network_mode": "bridge"},
        "locked": {"image": "alpine", "network_mode": "none", "oci_runtime": "runsc", "sandbox_uid": 1000, "cpus": 1.0},
    },
    "default_runtime": "open",
    "max_sessions": 3,
    "idle_timeout": 60.0,
    "mem_limit": 2**29,
    "persist_containers": True,
    "prewarm": 1,
    "workspace_root": "/srv/work",
    "work_dir": "/workspace",
}

FIXED = ("persist_containers", "prewarm", "workspace_root", "work_dir")
CONTAINMENT = ("image", "network_mode", "oci_runtime", "sandbox_uid", "volumes", "mounts", "devices", "privileged")


def refused(update: object, policy: SandboxPolicy | None = None) -> tuple[str, ...]:
    """The problems of *update*, which changes nothing."""
    policy = policy or SandboxPolicy.from_dict(START)
    before = policy.snapshot()
    for dry_run in (True, False):
        with pytest.raises(PolicyError) as caught:
            apply_policy_update(policy, update, dry_run=dry_run)  # type: ignore[arg-type]
        assert policy.snapshot() is before
    return caught.value.problems


def places(problems: tuple[str, ...]) -> list[str]:
    return [problem.split(":")[0] for problem in problems]


def test_every_field_is_either_writable_or_refused_with_a_reason() -> None:
    assert {name for name, field in POLICY_FIELDS.items() if field.fixed is None} == oracle.WRITABLE
    assert {name for name, field in RUNTIME_FIELDS.items() if field.fixed is None} == oracle.WRITABLE_OF_A_RUNTIME
    assert all(field.fixed for field in POLICY_FIELDS.values() if field.fixed is not None)
    assert not NEVER_FIELDS.keys() & oracle.WRITABLE


@pytest.mark.parametrize("field", sorted(oracle.WRITABLE - {"default_runtime", "memswap_limit"}))
def test_a_ceiling_or_lifetime_is_set_kept_and_cleared(field: str) -> None:
    policy = SandboxPolicy.from_dict(START)
    assert apply_policy_update(policy, {field: 7}) == [field]
    assert policy.to_dict()[field] == 7
    assert apply_policy_update(policy, {}) == []
    assert apply_policy_update(policy, {field: 7}) == []
    assert apply_policy_update(policy, {field: None}) == [field]
    assert field not in policy.to_dict()


@pytest.mark.parametrize("field", sorted(oracle.WRITABLE_OF_A_RUNTIME - {"memswap_limit"}))
def test_a_limit_of_a_runtime_is_set_and_cleared(field: str) -> None:
    policy = SandboxPolicy.from_dict(START)
    name = f"runtimes.open.{field}"
    assert apply_policy_update(policy, {"runtimes": {"open": {field: 7}, "locked": {}}}) == [name]
    assert policy.to_dict()["runtimes"]["open"][field] == 7
    assert apply_policy_update(policy, {"runtimes": {"open": {field: None}}}) == [name]
    assert policy.to_dict() == START


def test_the_names_are_those_that_truly_changed_in_order() -> None:
    policy = SandboxPolicy.from_dict(START)
    update = {
        "runtimes": {"open": {"mem_limit": "1g"}, "locked": {"cpus": 1, "pids_limit": 9}},
        "max_sessions": 3,
        "mem_limit": "512m",
        "cpus": 2,
        "default_runtime": "locked",
    }
    expected = ["cpus", "default_runtime", "runtimes.locked.pids_limit", "runtimes.open.mem_limit"]
    assert apply_policy_update(policy, update, dry_run=True) == expected
    assert policy.to_dict() == START
    assert apply_policy_update(policy, update) == expected
    assert apply_policy_update(policy, update) == []


def test_an_update_that_changes_nothing_keeps_the_snapshot() -> None:
    policy = SandboxPolicy.from_dict(START)
    before = policy.snapshot()
    assert apply_policy_update(policy, {"max_sessions": 3, "runtimes": {}}) == []
    assert policy.snapshot() is before


@pytest.mark.parametrize("value", [None, 1, "host", {}])
@pytest.mark.parametrize("field", [*FIXED, *CONTAINMENT, "unknown", "runtimes.open.cpus", 5, None])
def test_a_field_off_the_list_is_refused_by_name(field: object, value: object) -> None:
    (problem,) = refused({field: value})
    assert problem.startswith(f"{field}: an update cannot change it: ")


@pytest.mark.parametrize("value", [None, 1, "host", {}])
@pytest.mark.parametrize("field", [*CONTAINMENT, "tmpfs_size", "max_sessions", "runtimes", "limits", "unknown"])
def test_a_field_of_a_runtime_off_the_list_is_refused_by_name(field: str, value: object) -> None:
    (problem,) = refused({"runtimes": {"locked": {field: value}}})
    assert problem.startswith(f"runtimes.locked.{field}: an update cannot change it: ")


@pytest.mark.parametrize("profile", [{}, None, "python:3.13", {"cpus": 1}])
@pytest.mark.parametrize("alias", ["new", "../x", 5])
def test_an_unknown_alias_is_refused_and_never_made(alias: object, profile: object) -> None:
    (problem,) = refused({"runtimes": {alias: profile}})
    assert problem == f"runtimes.{alias}: an update cannot add a runtime"


@pytest.mark.parametrize("profile", [None, "python:3.13", [], 1])
def test_a_runtime_is_neither_removed_nor_replaced(profile: object) -> None:
    assert places(refused({"runtimes": {"locked": profile}})) == ["runtimes.locked"]
    assert places(refused({"runtimes": profile})) == ["runtimes"]


@pytest.mark.parametrize("update", [None, [], "max_sessions", 3, [("max_sessions", 3)]])
def test_an_update_is_a_mapping(update: object) -> None:
    assert places(refused(update)) == ["update"]


@pytest.mark.parametrize("field", sorted(oracle.WRITABLE - {"default_runtime"}))
@pytest.mark.parametrize("value", [-1, True, float("nan"), float("inf"), [], {}, "lots"], ids=repr)
def test_a_value_that_cannot_be_is_refused_by_name(field: str, value: object) -> None:
    assert places(refused({field: value})) == [field]


@pytest.mark.parametrize("field", sorted(oracle.WRITABLE - {"default_runtime", "evict_idle_after"}))
def test_zero_is_refused_where_it_means_nothing(field: str) -> None:
    assert places(refused({field: 0})) == [field]


def test_idleness_may_end_at_once() -> None:
    policy = SandboxPolicy.from_dict(START)
    assert apply_policy_update(policy, {"evict_idle_after": 0}) == ["evict_idle_after"]
    assert policy.snapshot().evict_idle_after == 0


def test_one_bad_field_stops_the_good_ones_and_all_are_told() -> None:
    update = {
        "max_sessions": 5,
        "network_mode": "host",
        "idle_timeout": 0,
        "runtimes": {"open": {"cpus": 2, "image": "evil"}, "new": {}},
    }
    assert sorted(places(refused(update))) == ["idle_timeout", "network_mode", "runtimes.new", "runtimes.open.image"]


@pytest.mark.parametrize(
    ("update", "place"),
    [
        ({"memswap_limit": "256m"}, "memswap_limit"),
        ({"mem_limit": None, "memswap_limit": "1g"}, "memswap_limit"),
        ({"runtimes": {"open": {"memswap_limit": "1g"}}}, "runtimes.open.memswap_limit"),
        ({"memswap_limit": "1g", "runtimes": {"open": {"mem_limit": "2g"}}}, "runtimes.open.memswap_limit"),
        ({"max_open_sessions": 2}, "max_open_sessions"),
        ({"default_runtime": "new"}, "default_runtime"),
        ({"default_runtime": ""}, "default_runtime"),
    ],
)
def test_an_update_that_contradicts_what_is_there_is_refused(update: dict[str, Any], place: str) -> None:
    assert places(refused(update)) == [place]


def test_swap_stays_over_memory_when_one_of_the_two_changes() -> None:
    policy = SandboxPolicy.from_dict({**START, "memswap_limit": "1g"})
    apply_policy_update(policy, {"runtimes": {"open": {"mem_limit": "1g"}}})
    assert places(refused({"memswap_limit": "768m"}, policy)) == ["runtimes.open.memswap_limit"]
    assert places(refused({"mem_limit": "2g"}, policy)) == ["memswap_limit"]
    assert places(refused({"mem_limit": None}, policy)) == ["memswap_limit"]
    assert apply_policy_update(policy, {"mem_limit": "2g", "memswap_limit": "3g"}) == ["mem_limit", "memswap_limit"]


GOOD: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(oracle.COUNTS, (1, 2, 3, None)),
    **dict.fromkeys((*oracle.SECONDS, "evict_idle_after", "cpus"), (1, 0.5, 60.0, None)),
    **dict.fromkeys(oracle.SIZES, ("2k", "512m", 2**29, 2**31, None)),
    "memswap_limit": ("1g", 2**32, None),
    "default_runtime": ("open", "locked", None),
}
BAD: st.SearchStrategy[Any] = st.sampled_from([0, -1, True, 1.5, "lots", "new", float("nan"), None, [], {}])


@st.composite
def changes(draw: st.DrawFn, writable: set[str]) -> dict[str, Any]:
    """Some fields: nearly all of them writable and with a value that is right alone."""
    rarely = st.integers(0, 19).map(lambda number: number == 0)
    names = draw(st.lists(st.sampled_from(sorted(writable)), max_size=3))
    change = {name: draw(BAD if draw(rarely) else st.sampled_from(GOOD[name])) for name in names}
    if draw(rarely):
        change[draw(st.sampled_from([*FIXED, *CONTAINMENT, "tmpfs_size", "unknown"]))] = draw(BAD)
    return change


@st.composite
def updates(draw: st.DrawFn) -> dict[str, Any]:
    update = draw(changes(oracle.WRITABLE))
    aliases = draw(st.lists(st.sampled_from(["open", "locked"] * 5 + ["new"]), max_size=2))
    if aliases:
        update["runtimes"] = {alias: draw(changes(oracle.WRITABLE_OF_A_RUNTIME)) for alias in aliases}
    return update


def outcome(update: Callable[[], tuple[dict[str, Any], list[str]]]) -> tuple[dict[str, Any], list[str]] | None:
    try:
        return update()
    except (oracle.RefusedError, PolicyError):
        return None


@given(st.lists(updates(), max_size=12))
def test_no_sequence_of_updates_differs_from_the_model_or_changes_what_is_fixed(sequence: list[dict[str, Any]]) -> None:
    policy, model = SandboxPolicy.from_dict(START), START

    def applied(update: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        planned = apply_policy_update(policy, update, dry_run=True)
        names = apply_policy_update(policy, update)
        assert names == planned
        return policy.to_dict(), names

    for update in sequence:
        expected = outcome(lambda update=update, model=model: oracle.update(model, update))  # type: ignore[misc]
        assert outcome(lambda update=update: applied(update)) == expected  # type: ignore[misc]
        model = expected[0] if expected else model
        assert policy.to_dict() == model
        assert oracle.fixed(policy.to_dict()) == oracle.fixed(START)
        assert SandboxPolicy.from_dict(policy.to_dict()).snapshot() == policy.snapshot()


def test_a_concurrent_reader_never_sees_half_an_update() -> None:
    policy = SandboxPolicy.from_dict({**START, "max_sessions": 1, "max_open_sessions": 1, "pids_limit": 1})
    done = threading.Event()

    def seen() -> set[tuple[int | None, ...]]:
        found: set[tuple[int | None, ...]] = set()
        while not done.is_set():
            values = policy.snapshot()
            found.add((values.max_sessions, values.max_open_sessions, values.limits_for("open").pids_limit))
        return found

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(seen) for _ in range(2)]
        for number in range(2, 1000):
            apply_policy_update(policy, {"max_sessions": number, "max_open_sessions": number, "pids_limit": number})
        done.set()
        found = set().union(*(reader.result(60) for reader in readers))
    assert found
    assert all(len(set(values)) == 1 for values in found)


class Interfering(Mapping[str, Any]):
    """An update that another update overtakes while it is read."""

    def __init__(self, policy: SandboxPolicy, values: dict[str, Any]) -> None:
        self._values = values
        self._policy = policy
        self._overtaking = iter([{"max_open_sessions": 50}])

    def __getitem__(self, key: str) -> Any:
        for update in self._overtaking:
            apply_policy_update(self._policy, update)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def test_an_update_that_is_overtaken_loses_nothing() -> None:
    policy = SandboxPolicy.from_dict(START)
    assert apply_policy_update(policy, Interfering(policy, {"max_sessions": 4})) == ["max_sessions"]
    assert policy.to_dict() == {**START, "max_sessions": 4, "max_open_sessions": 50}


def test_an_update_that_is_overtaken_is_judged_again() -> None:
    policy = SandboxPolicy.from_dict(START)
    with pytest.raises(PolicyError, match="max_open_sessions"):
        apply_policy_update(policy, Interfering(policy, {"max_sessions": 51}))
    assert policy.to_dict() == {**START, "max_open_sessions": 50}


class Wavering(Interfering):
    """An update that says something else each time that it is read."""

    def __init__(self, key: str, *values: Any) -> None:
        self._key = key
        self._answers = iter(values)

    def __getitem__(self, key: str) -> Any:
        return next(self._answers)

    def __iter__(self) -> Iterator[str]:
        return iter((self._key,))


@pytest.mark.parametrize(
    ("field", "first", "second"), [("max_sessions", 4, -4), ("runtimes", {"open": {"cpus": 4}}, {"evil": {}})]
)
def test_what_is_judged_is_what_is_applied(field: str, first: Any, second: Any) -> None:
    for policy in (SandboxPolicy.from_dict(START), SandboxPolicy.from_dict(START)):
        assert len(apply_policy_update(policy, Wavering(field, first, second))) == 1
        assert (policy.snapshot().max_sessions, policy.snapshot().runtimes["open"].limits.cpus) in {(4, None), (3, 4)}
        assert list(policy.snapshot().runtimes) == ["open", "locked"]


class Name(str):
    """A text that shows itself as another one."""

    def __str__(self) -> str:
        return "another"


LOCKED = Name("locked")


class Ceiling(IntEnum):
    TWO = 2


def test_values_are_plain_ones_whatever_was_given() -> None:
    policy = SandboxPolicy.from_dict(START)
    update = {"default_runtime": LOCKED, "max_sessions": Ceiling.TWO, "max_read_bytes": Ceiling.TWO}
    assert apply_policy_update(policy, update) == ["default_runtime", "max_read_bytes", "max_sessions"]
    values = policy.snapshot()
    assert [type(value) for value in (values.default_runtime, values.max_sessions, values.max_read_bytes)] == [
        *(str, int, int)
    ]
    assert f"{values.default_runtime}" == "locked"
    profile = RuntimeProfile(image=LOCKED)
    assert type(profile.image) is str
    assert [type(alias) for alias in PolicyValues(runtimes={LOCKED: profile}).runtimes] == [str]


def test_updates_at_once_are_all_made() -> None:
    policy = SandboxPolicy(PolicyValues(runtimes={f"r{number}": "image" for number in range(8)}))
    together = threading.Barrier(8)

    def change(number: int) -> None:
        together.wait(60)
        for cpus in range(1, 40):
            apply_policy_update(policy, {"runtimes": {f"r{number}": {"cpus": cpus}}})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(8), timeout=60))
    assert [profile.limits.cpus for profile in policy.snapshot().runtimes.values()] == [39.0] * 8
