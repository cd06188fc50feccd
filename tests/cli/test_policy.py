"""``policy``: what is in force and why, documents checked, the overrides file changed."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import PolicyOverrides, SandboxPolicy
from sandbox_kit.cli import main, saving

Printed = pytest.CaptureFixture[str]

POLICY: dict[str, Any] = {
    "runtimes": {"py3.12": {"image": "python:3.12"}, "locked": {"image": "alpine", "mem_limit": 2**28}, "local": {}},
    "max_sessions": 3,
    "mem_limit": 2**29,
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SANDBOX_KIT_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(POLICY))
    return str(path)


@pytest.fixture
def overrides(tmp_path: Path) -> Path:
    return tmp_path / "overrides.json"


def complaints(capsys: Printed) -> list[str]:
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert all(line.startswith("sandbox-kit: ") for line in lines)
    return [line.removeprefix("sandbox-kit: ") for line in lines]


def test_each_value_is_shown_with_its_source(
    policy: str, overrides: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setenv("SANDBOX_KIT_MAX_SESSIONS", "5")
    monkeypatch.setenv("SANDBOX_KIT_EXECUTE_TIMEOUT", "60")
    overrides.write_text('{"mem_limit": "1g", "runtimes": {"locked": {"mem_limit": null, "cpus": 2}}}')
    assert main(["policy", "show", "--policy", policy, "--overrides", str(overrides)]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "execute_timeout = 60.0  # environment",
        "max_sessions = 5  # environment",
        "mem_limit = 1073741824  # overrides",
        "runtimes.local = {}  # file",
        "runtimes.locked.cpus = 2.0  # overrides",
        'runtimes.locked.image = "alpine"  # file',
        'runtimes.py3.12.image = "python:3.12"  # file',
    ]


def test_the_policy_as_json_is_a_policy(policy: str, capsys: Printed) -> None:
    assert main(["policy", "show", "--json", "--policy", policy]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["policy"] == POLICY
    assert set(answer["sources"].values()) == {"file"}
    assert answer["sources"].keys() == {
        *("max_sessions", "mem_limit", "runtimes.local", "runtimes.py3.12.image"),
        *("runtimes.locked.image", "runtimes.locked.mem_limit"),
    }


def test_the_overrides_of_the_environment_are_applied(
    overrides: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setenv("SANDBOX_KIT_POLICY_OVERRIDES", str(overrides))
    assert main(["policy", "show"]) == 0
    assert capsys.readouterr().out == "nothing is set\n"
    overrides.write_text('{"cpus": 2}')
    assert main(["policy", "show"]) == 0
    assert capsys.readouterr().out == "cpus = 2.0  # overrides\n"


def test_overrides_that_programs_ignore_are_ignored_with_a_word(overrides: Path, capsys: Printed) -> None:
    overrides.write_text('{"network_mode": "host", "cpus": 2}')
    assert main(["policy", "show", "--overrides", str(overrides)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "nothing is set\n"
    assert printed.err.startswith(f"sandbox-kit: {overrides}: ignored: network_mode: ")


@pytest.mark.parametrize(
    ("content", "place"),
    [('{"max_sessions": 0}', "max_sessions: 0"), ("{", "{path}: not well-formed"), ("[]", "{path}: is not a mapping")],
)
def test_a_policy_that_is_refused_is_a_usage_error(tmp_path: Path, content: str, place: str, capsys: Printed) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    assert main(["policy", "show", "--policy", str(path)]) == 2
    (complaint,) = complaints(capsys)
    assert complaint.startswith(place.format(path=path) if "{path}" in place else place)


def test_a_mistyped_variable_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    monkeypatch.setenv("SANDBOX_KIT_MAX_SESSION", "5")
    assert main(["policy", "show"]) == 2
    assert complaints(capsys) == ["SANDBOX_KIT_MAX_SESSION: is no field of a policy"]


def test_a_document_is_checked_as_a_policy(policy: str, tmp_path: Path, capsys: Printed) -> None:
    assert main(["policy", "check", policy]) == 0
    assert capsys.readouterr() == (f"{policy}: valid\n", "")
    bad = tmp_path / "bad.toml"
    bad.write_text('max_sessions = 0\nmem_limit = "lots"\nx = 1\n')
    assert main(["policy", "check", str(bad)]) == 1
    assert [line.removeprefix(f"{bad}: ").split(":")[0] for line in complaints(capsys)] == [
        *("max_sessions", "mem_limit", "x")
    ]


def test_a_document_is_checked_as_overrides_of_a_policy(policy: str, overrides: Path, capsys: Printed) -> None:
    overrides.write_text('{"runtimes": {"locked": {"cpus": 1}}}')
    assert main(["policy", "check", policy, "--overrides", str(overrides)]) == 0
    assert main(["policy", "check", "--policy", policy, "--overrides", str(overrides)]) == 0
    assert capsys.readouterr().out == f"{overrides}: valid\n" * 2
    assert main(["policy", "check", "--overrides", str(overrides)]) == 1
    assert complaints(capsys) == [f"{overrides}: runtimes.locked: an update cannot add a runtime"]


def test_a_check_needs_one_policy_or_overrides(policy: str, capsys: Printed) -> None:
    assert main(["policy", "check", "--policy", policy]) == 0
    assert capsys.readouterr().out == f"{policy}: valid\n"
    for arguments in ([], ["--policy", policy, policy]):
        assert main(["policy", "check", *arguments]) == 2
        assert len(complaints(capsys)) == 1


def test_a_policy_that_is_refused_is_told_before_its_overrides(
    policy: str, overrides: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setenv("SANDBOX_KIT_MAX_SESSION", "5")
    monkeypatch.setenv("SANDBOX_KIT_MAX_SESSIONS", "five")
    overrides.write_text("{}")
    assert main(["policy", "check", policy, "--overrides", str(overrides)]) == 1
    assert [line.split(":")[0] for line in complaints(capsys)] == ["SANDBOX_KIT_MAX_SESSION", "max_sessions"]


def test_a_document_that_is_not_well_formed_is_named_once(overrides: Path, capsys: Printed) -> None:
    overrides.write_text("{")
    for arguments in (["check", str(overrides)], ["check", "--overrides", str(overrides)]):
        assert main(["policy", *arguments]) == 1
        (line,) = complaints(capsys)
        assert line.startswith(f"{overrides}: not well-formed")


@pytest.mark.parametrize(("content", "code"), [('{"cpus": 1}', 0), ('{"cpus": 0, "image": "x"}', 1)])
def test_a_check_as_json(overrides: Path, content: str, code: int, capsys: Printed) -> None:
    overrides.write_text(content)
    assert main(["policy", "check", "--json", str(overrides)]) == code
    answer = json.loads(capsys.readouterr().out)
    assert (answer["valid"], len(answer["problems"])) == (code == 0, 2 * code)


def test_overrides_in_a_workspace_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    monkeypatch.setenv("SANDBOX_KIT_WORKSPACE_ROOT", str(tmp_path))
    path = tmp_path / "s1" / "workspace" / "o.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert main(["policy", "check", "--overrides", str(path)]) == 1
    assert "lies in the workspace of a session" in complaints(capsys)[0]
    for command in (["show", "--overrides", str(path)], ["set", "--overrides", str(path), "cpus=1"]):
        assert main(["policy", *command]) == 2
        assert "lies in the workspace of a session" in complaints(capsys)[0]
    assert path.read_text() == "{}"


def test_a_missing_document_is_a_usage_error(tmp_path: Path, capsys: Printed) -> None:
    for arguments in (["check"], ["check", "--overrides"], ["show", "--policy"]):
        assert main(["policy", *arguments, str(tmp_path / "missing.json")]) == 2
        assert "missing.json: no such file" in complaints(capsys)[0]


def test_values_are_set_one_after_another(policy: str, overrides: Path, capsys: Printed) -> None:
    command = ["policy", "set", "--policy", policy, "--overrides", str(overrides)]
    assert main([*command, "max_sessions=5", "runtimes.py3.12.mem_limit=1g", "runtimes.locked.mem_limit=null"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "max_sessions: 3 -> 5",
        "runtimes.locked.mem_limit: 268435456 -> null",
        "runtimes.py3.12.mem_limit: null -> 1073741824",
    ]
    assert main([*command, "default_runtime=py3.12", "max_sessions=5"]) == 0
    assert capsys.readouterr().out == 'default_runtime: null -> "py3.12"\n'
    running = SandboxPolicy.from_file(policy)
    assert PolicyOverrides(running, overrides).refresh() == [
        *("default_runtime", "max_sessions", "runtimes.locked.mem_limit", "runtimes.py3.12.mem_limit")
    ]


def test_a_dry_run_prints_the_plan_and_writes_nothing(policy: str, overrides: Path, capsys: Printed) -> None:
    command = ["policy", "set", "--policy", policy, "--overrides", str(overrides), "--dry-run", "--json", "cpus=1.5"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == {"changed": ["cpus"], "dry_run": True, "overrides": {"cpus": 1.5}}
    assert not overrides.exists()
    assert main([argument for argument in command if argument != "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is False
    assert json.loads(overrides.read_text()) == {"cpus": 1.5}


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ("network_mode=none", "network_mode: an update cannot change it"),
        ("workspace_root=/", "workspace_root: an update cannot change it"),
        ("runtimes.locked.image=x", "runtimes.locked.image: an update cannot change it"),
        ("runtimes.new.cpus=1", "runtimes.new: an update cannot add a runtime"),
        ("runtimes.locked=null", "runtimes.locked: of a runtime one field at a time is set"),
        ("runtimes={}", "runtimes: of a runtime one field at a time is set"),
        ("max_sessions.x=1", "max_sessions.x: an update cannot change it"),
        ("max_sessions=0", "max_sessions: 0 is not a positive integer"),
        ("max_sessions=", "max_sessions: '' is not a positive integer"),
        ("max_sessions", "'max_sessions' is not of the form FIELD=VALUE"),
        ("=1", "'': an update cannot change it"),
    ],
)
def test_what_an_update_refuses_is_not_written(
    policy: str, overrides: Path, assignment: str, problem: str, capsys: Printed
) -> None:
    overrides.write_text('{"cpus": 1}')
    assert main(["policy", "set", "--policy", policy, "--overrides", str(overrides), "cpus=2", assignment]) == 2
    (complaint,) = complaints(capsys)
    assert complaint.startswith(problem)
    assert overrides.read_text() == '{"cpus": 1}'


@pytest.mark.parametrize("content", ["{", "[]", '{"image": "x"}', '{"runtimes": []}'])
def test_a_file_that_is_refused_already_is_not_touched(overrides: Path, content: str, capsys: Printed) -> None:
    overrides.write_text(content)
    assert main(["policy", "set", "--overrides", str(overrides), "cpus=2"]) == 2
    (complaint,) = complaints(capsys)
    assert complaint.startswith(f"{overrides}: ")
    assert overrides.read_text() == content


def test_a_link_and_a_mode_are_kept(overrides: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text("{}")
    real.chmod(0o640)
    overrides.symlink_to("real.json")
    inode = real.stat().st_ino
    assert main(["policy", "set", "--overrides", str(overrides), "cpus=2"]) == 0
    assert overrides.is_symlink()
    assert json.loads(real.read_text()) == {"cpus": 2}
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.stat().st_ino != inode


def test_toml_cannot_be_written(tmp_path: Path, capsys: Printed) -> None:
    assert main(["policy", "set", "--overrides", str(tmp_path / "o.toml"), "cpus=2"]) == 2
    assert complaints(capsys) == ["only a .json file can be written"]


def test_help_and_hints_name_the_command(capsys: Printed) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "set", "--help"])
    assert ended.value.code == 0
    assert "FIELD=VALUE" in capsys.readouterr().out
    assert main(["policy", "show", "--nonsense"]) == 2
    assert complaints(capsys) == ["unrecognized arguments: --nonsense (see sandbox-kit policy show --help)"]


FIELDS = ("max_sessions", "max_read_bytes", "idle_timeout", "execute_timeout", "workspace_ttl", "cpu_shares")


def test_several_who_set_at_once_lose_nothing_of_each_other(overrides: Path) -> None:
    start = threading.Barrier(len(FIELDS))

    def work(field: str) -> list[int]:
        start.wait()
        return [main(["policy", "set", "--overrides", str(overrides), f"{field}={count}"]) for count in range(10, 20)]

    with ThreadPoolExecutor(len(FIELDS)) as pool:
        assert [code for codes in pool.map(work, FIELDS) for code in codes] == [0] * 10 * len(FIELDS)
    assert json.loads(overrides.read_text()) == dict.fromkeys(FIELDS, 19)


@pytest.mark.parametrize("linked", [False, True])
def test_who_waits_for_another_one_that_sets_does_not_wait_for_ever(
    overrides: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed, linked: bool
) -> None:
    monkeypatch.setattr(saving, "_WITHIN", 0.1)
    if linked:
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "o.json").symlink_to(overrides)
    given = tmp_path / "links" / "o.json" if linked else overrides
    with saving.alone(str(overrides)):
        assert main(["policy", "set", "--overrides", str(given), "cpus=2"]) == 124
        assert "was being changed by others" in complaints(capsys)[0]
        assert not overrides.exists()
    assert main(["policy", "set", "--overrides", str(given), "cpus=2"]) == 0


def test_overrides_in_a_directory_that_is_not_there_are_an_error(tmp_path: Path, capsys: Printed) -> None:
    assert main(["policy", "set", "--overrides", str(tmp_path / "missing" / "o.json"), "cpus=2"]) == 125
    assert "no such file" in complaints(capsys)[0]
