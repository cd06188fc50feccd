"""A policy from values, documents, files and the environment: what is taken, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError

from sandbox_kit import (
    InvalidArgumentError,
    Limits,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathNotFoundError,
    PolicyError,
    PolicyValues,
    Runtime,
    RuntimeProfile,
    SandboxPolicy,
)

WHOLE: dict[str, Any] = {
    "runtimes": {
        "py3.12": {"image": "python:3.12"},
        "locked": {
            "image": "registry.test:5000/locked@sha256:0a",
            "network_mode": "none",
            "oci_runtime": "runsc",
            "sandbox_uid": 0,
            "mem_limit": 2**28,
            "memswap_limit": 2**29,
            "cpus": 0.5,
            "cpu_shares": 512,
            "pids_limit": 64,
            "tmpfs_size": 2**20,
        },
        "local": {},
    },
    "default_runtime": "py3.12",
    "max_sessions": 3,
    "max_open_sessions": 30,
    "max_sessions_per_tenant": 2,
    "evict_idle_after": 0.5,
    "idle_timeout": 600.0,
    "execute_timeout": 60.0,
    "max_read_bytes": 2**20,
    "workspace_ttl": 86400.0,
    "container_ttl": 3600.0,
    "mem_limit": 2**29,
    "memswap_limit": 2**30,
    "cpus": 1.5,
    "cpu_shares": 1024,
    "pids_limit": 256,
    "tmpfs_size": 2**26,
    "persist_containers": True,
    "prewarm": 2,
    "workspace_root": "/srv/work",
    "work_dir": "/workspace",
}

COUNTS = ("max_sessions", "max_open_sessions", "max_sessions_per_tenant", "cpu_shares", "pids_limit")
SECONDS = ("idle_timeout", "execute_timeout", "workspace_ttl", "container_ttl")
SIZES = ("max_read_bytes", "mem_limit", "memswap_limit", "tmpfs_size")
NOT_NUMBERS: tuple[object, ...] = (True, False, "many", [1], {}, math.nan, math.inf, -math.inf, -1, 10**400)


def problems_of(document: object) -> tuple[str, ...]:
    with pytest.raises(PolicyError) as caught:
        SandboxPolicy.from_dict(document)  # type: ignore[arg-type]
    return caught.value.problems


@pytest.mark.parametrize("document", [{}, WHOLE, {"runtimes": {"a": {}}}], ids=["empty", "whole", "one-runtime"])
def test_a_document_comes_back_as_it_was(document: dict[str, Any]) -> None:
    assert SandboxPolicy.from_dict(document).to_dict() == document
    assert json.loads(json.dumps(SandboxPolicy.from_dict(document).to_dict())) == document


def test_a_bare_image_is_a_profile() -> None:
    values = SandboxPolicy.from_dict({"runtimes": {"py": "python:3.12"}}).snapshot()
    assert values.runtimes == {"py": RuntimeProfile(image="python:3.12")}
    assert values == PolicyValues(runtimes={"py": "python:3.12"})


def test_null_leaves_a_field_at_its_default() -> None:
    document = {**dict.fromkeys(WHOLE), "runtimes": {"a": dict.fromkeys(WHOLE["runtimes"]["locked"])}}
    assert SandboxPolicy.from_dict(document).snapshot() == PolicyValues(runtimes={"a": RuntimeProfile()})


@pytest.mark.parametrize(("text", "size"), [("512m", 2**29), ("1.5k", 1536), ("7", 7), ("2 GiB", 2**31)])
@pytest.mark.parametrize("field", [name for name in SIZES if name != "memswap_limit"])
def test_sizes_are_bytes_in_the_end(field: str, text: str, size: int) -> None:
    assert SandboxPolicy.from_dict({field: text}).to_dict() == {field: size}


BAD: list[tuple[str, object]] = [
    *((field, value) for field in (*COUNTS, *SECONDS, *SIZES, "cpus") for value in (*NOT_NUMBERS, 0)),
    *((field, 1.5) for field in (*COUNTS, *SIZES)),
    *((field, text) for field in SIZES for text in ("lots", "", "-1m", "0m", "1x", "9" * 5000)),
    *(("evict_idle_after", value) for value in NOT_NUMBERS),
    *(("prewarm", value) for value in (-1, True, 1.5, "1")),
    *(("persist_containers", value) for value in (0, 1, "true", "no")),
    *(("workspace_root", value) for value in ("", "work", "~/work", "/a\0b", "/\ud800", 1, b"/a")),
    *(("work_dir", value) for value in ("", "work", "/..", "/a/../../b", "/a\0b", "/\ud800", 1)),
    *(("default_runtime", value) for value in ("missing", "", 1, "a b", "x" * 65)),
    *(("runtimes", value) for value in (["py"], "python:3.12", 1, True)),
    *((field, 1) for field in ("image", "volumes", "privileged", "unknown", "max_session", "a.b")),
]


@pytest.mark.parametrize(
    ("field", "value"), BAD, ids=lambda value: repr(value)[:24] if not isinstance(value, int) else None
)
def test_a_value_that_is_none_of_its_field_is_refused_by_name(field: str, value: object) -> None:
    (problem,) = problems_of({field: value})
    assert problem.startswith(f"{field}: ")
    assert len(problem) < 300


BAD_PROFILE: list[tuple[str, object]] = [
    *((field, value) for field in ("cpus", "cpu_shares", "pids_limit", "mem_limit") for value in (*NOT_NUMBERS, 0)),
    *(("sandbox_uid", value) for value in (-1, True, "root", 2**32 - 1, 1.0)),
    *(
        (field, value)
        for field in ("image", "network_mode", "oci_runtime")
        for value in ("", "a b", "a\n", 1, "x" * 256)
    ),
    *((field, []) for field in ("volumes", "mounts", "devices", "privileged", "limits", "max_sessions")),
    ("memswap_limit", 1),
]


@pytest.mark.parametrize(
    ("field", "value"), BAD_PROFILE, ids=lambda value: repr(value)[:24] if not isinstance(value, int) else None
)
def test_a_value_of_a_runtime_is_refused_by_its_dotted_name(field: str, value: object) -> None:
    (problem,) = problems_of({"runtimes": {"locked": {field: value}}})
    assert problem.startswith(f"runtimes.locked.{field}: ")


@pytest.mark.parametrize("alias", ["", ".a", "-a", "a b", "a/b", "é", "x" * 65, "a\n", 1, None])
def test_an_alias_that_is_none_is_refused(alias: object) -> None:
    (problem,) = problems_of({"runtimes": {alias: {}}})
    assert problem.startswith("runtimes: ")


@pytest.mark.parametrize("alias", ["a", "0", "A.b_c-9", "x" * 64])
def test_an_alias_is_a_name(alias: str) -> None:
    assert list(SandboxPolicy.from_dict({"runtimes": {alias: {}}}).snapshot().runtimes) == [alias]


@pytest.mark.parametrize("document", [None, [], "max_sessions", 3])
def test_a_document_that_is_no_mapping_is_refused(document: object) -> None:
    assert problems_of(document)[0].startswith("document: ")


def test_all_problems_are_told_together() -> None:
    document = {
        "max_sessions": -1,
        "idle_timeout": math.nan,
        "unknown": 1,
        3: 1,
        "": 1,
        "runtimes": {"-": {}, "a": {"mem_limit": "lots", "x": 1}, "b": 5, "c": {"memswap_limit": 1}},
    }
    places = [problem.split(":")[0] for problem in problems_of(document)]
    assert places == [
        *("max_sessions", "idle_timeout", "unknown", "3", "''", "runtimes"),
        *("runtimes.a.mem_limit", "runtimes.a.x", "runtimes.b", "runtimes.c.memswap_limit"),
    ]


CONTRADICTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"default_runtime": "a"}, ["default_runtime"]),
    ({"max_sessions": 3, "max_open_sessions": 2}, ["max_open_sessions"]),
    ({"memswap_limit": "1g"}, ["memswap_limit"]),
    ({"mem_limit": "1g", "memswap_limit": "512m"}, ["memswap_limit"]),
    ({"runtimes": {"a": {"mem_limit": 2, "memswap_limit": 1}}}, ["runtimes.a.memswap_limit"]),
    ({"mem_limit": 1, "memswap_limit": 2, "runtimes": {"a": {"mem_limit": 3}}}, ["runtimes.a.memswap_limit"]),
    (
        {"max_sessions": 3, "max_open_sessions": 2, "default_runtime": "a", "memswap_limit": 1},
        ["default_runtime", "max_open_sessions", "memswap_limit"],
    ),
]


@pytest.mark.parametrize(("document", "places"), CONTRADICTIONS, ids=lambda value: None)
def test_values_that_contradict_each_other_are_refused(document: dict[str, Any], places: list[str]) -> None:
    assert [problem.split(":")[0] for problem in problems_of(document)] == places


@pytest.mark.parametrize(
    "document",
    [
        {"max_open_sessions": 2},
        {"max_sessions": 2, "max_open_sessions": 2},
        {"mem_limit": 2, "memswap_limit": 2},
        {
            "mem_limit": 2,
            "memswap_limit": 3,
            "runtimes": {"a": {"mem_limit": 3}, "b": {"mem_limit": 9, "memswap_limit": 9}},
        },
    ],
    ids=["no-resident-ceiling", "equal-ceilings", "no-swap", "runtime-within"],
)
def test_values_at_the_edge_agree(document: dict[str, Any]) -> None:
    assert SandboxPolicy.from_dict(document).to_dict() == document


def test_a_constructor_refuses_what_a_document_does() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^max_sessions: 0"):
        PolicyValues(max_sessions=0)
    with pytest.raises(InvalidArgumentError, match=r"^sandbox_uid: -1"):
        RuntimeProfile(sandbox_uid=-1)
    with pytest.raises(InvalidArgumentError, match=r"^limits: "):
        RuntimeProfile(limits={"mem_limit": 1})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^runtimes\.a: "):
        PolicyValues(runtimes={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgumentError, match=r"^runtimes: "):
        PolicyValues(runtimes=["a"])  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match=r"^default_runtime: "):
        PolicyValues(default_runtime="a")
    with pytest.raises(InvalidArgumentError, match=r"^runtimes: '-' is not an alias"):
        PolicyValues(runtimes={"-": RuntimeProfile()})
    with pytest.raises(InvalidArgumentError, match=r"^values: "):
        SandboxPolicy({})  # type: ignore[arg-type]


def test_the_limits_of_a_runtime_go_before_those_of_the_policy() -> None:
    values = SandboxPolicy.from_dict(
        {"mem_limit": 4, "cpus": 2, "runtimes": {"own": {"mem_limit": 8, "pids_limit": 5}, "none": {}}}
    ).snapshot()
    assert values.limits_for("own") == Limits(mem_limit=8, cpus=2.0, pids_limit=5)
    assert values.limits_for("none") == values.limits_for() == Limits(mem_limit=4, cpus=2.0)


def test_the_default_runtime_is_for_who_names_none() -> None:
    values = SandboxPolicy.from_dict({"runtimes": {"a": "image-a", "b": "image-b"}, "default_runtime": "b"}).snapshot()
    assert values.profile_for().image == "image-b"
    assert values.profile_for("a").image == "image-a"
    assert PolicyValues().profile_for() == RuntimeProfile()
    for method in (values.profile_for, values.limits_for):
        with pytest.raises(InvalidArgumentError, match=r"'c' is none of the runtimes \(a, b\)"):
            method("c")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_values_and_profiles_pickle_and_copy_whole(protocol: int) -> None:
    values = SandboxPolicy.from_dict(WHOLE).snapshot()
    for record in (values, PolicyValues(), values.runtimes, values.runtimes["locked"], RuntimeProfile()):
        again = pickle.loads(pickle.dumps(record, protocol))
        assert again == record == copy.deepcopy(record)
        assert hash(again) == hash(record)
    policy = pickle.loads(pickle.dumps(SandboxPolicy(values), protocol))
    assert policy.snapshot() == values == copy.deepcopy(policy).snapshot()


def test_a_policy_shows_its_values() -> None:
    shown = repr(SandboxPolicy.from_dict({"max_sessions": 3, "runtimes": {"py": "python:3.12"}}))
    assert shown.startswith("SandboxPolicy(PolicyValues(runtimes=Runtimes({'py': RuntimeProfile(image='python:3.12', ")
    assert "max_sessions=3" in shown


def test_values_do_not_change() -> None:
    given = {"a": RuntimeProfile()}
    values = PolicyValues(runtimes=given)
    given["b"] = RuntimeProfile()
    assert list(values.runtimes) == ["a"]
    with pytest.raises(FrozenInstanceError):
        values.max_sessions = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        values.runtimes["b"] = RuntimeProfile()  # type: ignore[index]


TOML = (
    'max_sessions = 3\ndefault_runtime = "py"\n[runtimes]\npy = "python:3.12"\n[runtimes.locked]\nmem_limit = "512m"\n'
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("policy.toml", TOML),
        (
            "policy.JSON",
            '{"max_sessions": 3, "default_runtime": "py",'
            ' "runtimes": {"py": "python:3.12", "locked": {"mem_limit": "512m"}}}',
        ),
    ],
    ids=["toml", "json"],
)
def test_a_policy_is_read_from_a_file(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert SandboxPolicy.from_file(tmp_path / name).to_dict() == {
        "max_sessions": 3,
        "default_runtime": "py",
        "runtimes": {"py": {"image": "python:3.12"}, "locked": {"mem_limit": 2**29}},
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b""),
        ("a.json", b"{"),
        ("a.json", b"[]"),
        ("a.json", b'{"max_sessions": NaN}'),
        ("a.json", b'{"max_sessions": 1, "max_sessions": 2}'),
        ("a.json", b"[" * 100_000),
        ("a.json", b"\x89PNG\r\n\x1a\n\0"),
        ("a.json", b"{}" + b" " * 2**20),
        ("a.toml", b"max_sessions = 0x" + b"f" * 9999),
        ("a.toml", b"max_sessions = 2026-01-01"),
        ("a.toml", b"max_sessions = 1\nmax_sessions = 2"),
        ("a.yaml", b"max_sessions: 1"),
        ("a", b"{}"),
    ],
    ids=[
        *("empty", "torn", "list", "nan", "twice", "deep", "binary", "too-big"),
        *("huge-number", "date", "toml-twice", "suffix", "no-suffix"),
    ],
)
def test_a_file_that_holds_no_policy_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        SandboxPolicy.from_file(tmp_path / name)
    assert all(problem.startswith(f"{tmp_path / name}: ") for problem in caught.value.problems)


def test_a_file_that_cannot_be_read_is_told_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    with pytest.raises(NotRegularFileError):
        SandboxPolicy.from_file(tmp_path / "fifo.json")
    with pytest.raises(NotRegularFileError):
        SandboxPolicy.from_file(tmp_path)
    with pytest.raises(PathNotFoundError):
        SandboxPolicy.from_file(tmp_path / "missing.json")
    with pytest.raises(PathError, match="embedded null"):
        SandboxPolicy.from_file("a\0.json")
    with pytest.raises(PathError):
        SandboxPolicy.from_file("a" * 5000 + ".json")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "no")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PathAccessError):
        SandboxPolicy.from_file(tmp_path / "secret.json")


def test_a_policy_is_read_from_the_environment() -> None:
    flat = {f"SANDBOX_KIT_{name.upper()}": str(value) for name, value in WHOLE.items() if name != "runtimes"}
    environ = {
        **flat,
        "SANDBOX_KIT_PERSIST_CONTAINERS": "true",
        "SANDBOX_KIT_RUNTIMES": json.dumps(WHOLE["runtimes"]),
        "SANDBOX_KIT_MEM_LIMIT": "512m",
        "SANDBOX_KIT_POLICY_OVERRIDES": "/etc/overrides.json",
        "PATH": "/usr/bin",
    }
    assert SandboxPolicy.from_env(environ).to_dict() == WHOLE


def test_an_alias_that_looks_like_a_number_is_one_in_the_environment() -> None:
    environ = {"SANDBOX_KIT_RUNTIMES": '{"3.12": "python:3.12"}', "SANDBOX_KIT_DEFAULT_RUNTIME": "3.12"}
    assert SandboxPolicy.from_env(environ).snapshot().profile_for().image == "python:3.12"


def test_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_KIT_MAX_SESSIONS", "7")
    assert SandboxPolicy.from_env().snapshot().max_sessions == 7


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MAX_SESSIONS", ""),
        ("MAX_SESSIONS", "three"),
        ("MAX_SESSIONS", "null"),
        ("MAX_SESSIONS", "true"),
        ("MAX_SESSIONS", "9" * 9999),
        ("IDLE_TIMEOUT", "NaN"),
        ("MEM_LIMIT", "lots"),
        ("PERSIST_CONTAINERS", "yes"),
        ("PERSIST_CONTAINERS", "1"),
        ("RUNTIMES", "python:3.12"),
        ("RUNTIMES", '{"a": "x", "a": "y"}'),
        ("RUNTIMES", "[" * 100_000),
        ("RUNTIMES", '{"a": "\ud800"}'),
        ("WORK_DIR", "here"),
    ],
)
def test_a_variable_that_cannot_be_used_is_refused_by_its_field(name: str, text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        SandboxPolicy.from_env({f"SANDBOX_KIT_{name}": text})
    (problem,) = caught.value.problems
    assert problem.startswith(f"{name.lower()}: ")


def test_unknown_variables_with_the_prefix_are_refused_together() -> None:
    with pytest.raises(PolicyError) as caught:
        SandboxPolicy.from_env({"SANDBOX_KIT_MAX_SESSION": "3", "SANDBOX_KIT_IMAGE": "x", "SANDBOX_KIT_CPUS": "1"})
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "SANDBOX_KIT_IMAGE",
        "SANDBOX_KIT_MAX_SESSION",
    ]


def test_every_problem_of_the_environment_is_told() -> None:
    environ = {"SANDBOX_KIT_FOO": "1", "SANDBOX_KIT_MAX_SESSIONS": "three", "SANDBOX_KIT_RUNTIMES": "{"}
    with pytest.raises(PolicyError) as caught:
        SandboxPolicy.from_env(environ)
    told = [problem.split(":")[0] for problem in caught.value.problems]
    assert told == ["SANDBOX_KIT_FOO", "runtimes", "max_sessions"]


def test_an_unknown_variable_is_told_without_control_characters() -> None:
    with pytest.raises(PolicyError) as caught:
        SandboxPolicy.from_env({"SANDBOX_KIT_\x1b[2J\udcff": "1"})
    assert str(caught.value).isprintable()


def test_an_image_may_be_a_runtime_to_be_built() -> None:
    runtime = Runtime("debian", pip=["numpy==2.0"], setup=["true"], env={"A": "b"}, uid=1000)
    document = {"base": "debian", "pip": ["numpy==2.0"], "setup": ["true"], "env": {"A": "b"}, "uid": 1000}
    values = SandboxPolicy.from_dict({"runtimes": {"py": {"image": document, "cpus": 1}}}).snapshot()
    assert values.runtimes["py"] == RuntimeProfile(image=runtime, limits=Limits(cpus=1))
    policy = SandboxPolicy(PolicyValues(runtimes={"py": RuntimeProfile(image=runtime)}))
    assert policy.to_dict() == {"runtimes": {"py": {"image": document}}}
    assert SandboxPolicy.from_dict(policy.to_dict()).snapshot() == policy.snapshot()


@pytest.mark.parametrize(
    "image",
    [{}, {"base": None}, {"base": "x", "other": 1}, {"base": 5}, {"base": "x", "pip": [5]}, {"base": "x", "uid": -1}],
)
def test_a_runtime_that_cannot_be_is_refused_by_its_place(image: object) -> None:
    with pytest.raises(PolicyError) as caught:
        SandboxPolicy.from_dict({"runtimes": {"py": {"image": image}}})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["runtimes.py.image"]
