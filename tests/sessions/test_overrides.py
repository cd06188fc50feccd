"""The overrides file: when it is applied, what is ignored, and that it is refused like a call."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import InvalidArgumentError, PolicyError, PolicyOverrides, SandboxPolicy, apply_policy_update
from sandbox_kit.sessions import overrides
from sandbox_kit.sessions.files import Signature

START: dict[str, Any] = {"runtimes": {"locked": {"image": "alpine"}}, "max_sessions": 3, "work_dir": "/workspace"}
LONG_AGO = 10**18

Log = pytest.LogCaptureFixture


@pytest.fixture
def policy() -> SandboxPolicy:
    return SandboxPolicy.from_dict(START)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "overrides.json"


def ignored(caplog: Log) -> list[str]:
    """The complaints since the last call."""
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


def replace(path: Path, content: str) -> None:
    """Put *content* in place of *path* in one step, with times of long ago."""
    beside = path.with_name("beside")
    beside.write_text(content)
    os.utime(beside, ns=(LONG_AGO, LONG_AGO))
    beside.replace(path)


def test_an_absent_file_is_normal(policy: SandboxPolicy, file: Path, caplog: Log) -> None:
    before = policy.snapshot()
    assert PolicyOverrides(policy, file).refresh() == []
    assert PolicyOverrides(policy, file.parent / "no" / "where.toml").refresh() == []
    assert policy.snapshot() is before
    assert ignored(caplog) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '{"max_sessions": 5, "runtimes": {"locked": {"mem_limit": "512m"}}}'),
        ("a.TOML", 'max_sessions = 5\n[runtimes.locked]\nmem_limit = "512m"\n'),
    ],
)
def test_a_file_is_applied_once_a_change(policy: SandboxPolicy, tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    source = PolicyOverrides(policy, file)
    assert policy.snapshot().max_sessions == 3
    assert source.refresh() == ["max_sessions", "runtimes.locked.mem_limit"]
    assert policy.snapshot().max_sessions == 5
    assert source.refresh() == []


def test_what_changed_is_logged(policy: SandboxPolicy, file: Path, caplog: Log) -> None:
    caplog.set_level(logging.INFO, "sandbox_kit")
    file.write_text('{"max_sessions": 5, "cpus": 2}')
    PolicyOverrides(policy, file).refresh()
    assert [record.getMessage() for record in caplog.records] == [
        f"policy overrides {file}: changed cpus, max_sessions"
    ]


def test_whichever_came_last_holds(policy: SandboxPolicy, file: Path) -> None:
    source = PolicyOverrides(policy, file)
    file.write_text('{"max_sessions": 5}')
    source.refresh()
    apply_policy_update(policy, {"max_sessions": 9})
    assert source.refresh() == []
    assert policy.snapshot().max_sessions == 9
    file.write_text('{"max_sessions": 6}')
    assert source.refresh() == ["max_sessions"]
    assert policy.snapshot().max_sessions == 6


def test_null_clears_and_absent_leaves_alone(policy: SandboxPolicy, file: Path) -> None:
    source = PolicyOverrides(policy, file)
    file.write_text('{"max_sessions": null, "cpus": 2}')
    assert source.refresh() == ["cpus", "max_sessions"]
    replace(file, "{}")
    assert source.refresh() == []
    assert policy.to_dict() == {**{k: v for k, v in START.items() if k != "max_sessions"}, "cpus": 2}


def in_place(path: Path, content: str) -> None:
    path.write_text(content)


def in_place_with_old_times(path: Path, content: str) -> None:
    path.write_text(content)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))


@pytest.mark.parametrize("change", [replace, in_place, in_place_with_old_times])
def test_a_change_of_equal_size_and_time_is_noticed(
    policy: SandboxPolicy, file: Path, change: Callable[[Path, str], None]
) -> None:
    source = PolicyOverrides(policy, file)
    for number in (5, 6, 7, 8, 9):
        change(file, json.dumps({"max_sessions": number}))
        assert source.refresh() == ["max_sessions"]
        assert policy.snapshot().max_sessions == number


def test_a_link_that_is_retargeted_is_noticed(policy: SandboxPolicy, tmp_path: Path) -> None:
    for number in (5, 6):
        directory = tmp_path / str(number)
        directory.mkdir()
        in_place_with_old_times(directory / "o.json", json.dumps({"max_sessions": number}))
    (tmp_path / "data").symlink_to("5")
    (tmp_path / "overrides.json").symlink_to("data/o.json")
    source = PolicyOverrides(policy, tmp_path / "overrides.json")
    assert source.refresh() == ["max_sessions"]
    (tmp_path / "new").symlink_to("6")
    (tmp_path / "new").replace(tmp_path / "data")
    assert source.refresh() == ["max_sessions"]
    assert policy.snapshot().max_sessions == 6


def test_a_deleted_file_is_left_alone(policy: SandboxPolicy, file: Path, caplog: Log) -> None:
    source = PolicyOverrides(policy, file)
    file.write_text('{"max_sessions": 5}')
    source.refresh()
    file.unlink()
    assert source.refresh() == []
    assert policy.snapshot().max_sessions == 5
    apply_policy_update(policy, {"max_sessions": 7})
    file.write_text('{"max_sessions": 5}')
    assert source.refresh() == ["max_sessions"]
    assert ignored(caplog) == []


def test_a_file_that_did_not_change_is_not_opened_again(
    policy: SandboxPolicy, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = PolicyOverrides(policy, file)
    file.write_text('{"max_sessions": 5}')
    monkeypatch.setattr(overrides, "_CLOCK_STEP_NS", -1)
    source.refresh()
    opened: list[object] = []
    monkeypatch.setattr(overrides, "read_version", opened.append)
    assert [source.refresh() for _ in range(3)] == [[], [], []]
    assert opened == []


def test_a_file_that_changed_just_now_is_looked_into_again(
    policy: SandboxPolicy, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes within one step of the file system's clock have the same times."""
    same = Signature(1, 2, 3, 4, 5)
    monkeypatch.setattr(overrides, "_CLOCK_STEP_NS", 10**30)
    monkeypatch.setattr(Signature, "of", lambda _: same)
    monkeypatch.setattr(overrides, "check_place", lambda *_: None)
    source = PolicyOverrides(policy, file)
    for number in (5, 6):
        file.write_text(json.dumps({"max_sessions": number}))
        assert source.refresh() == ["max_sessions"]
        apply_policy_update(policy, {"max_sessions": 9})
        assert source.refresh() == []


BROKEN = {
    "torn": b'{"max_sessions": 5',
    "empty": b"",
    "binary": b"\x89PNG\r\n\x1a\n\0\xff",
    "list": b'["max_sessions"]',
    "null": b"null",
    "number": b"3",
    "twice": b'{"max_sessions": 5, "max_sessions": 6}',
    "deep": b"[" * 100_000,
    "nan": b'{"idle_timeout": NaN}',
    "infinite": b'{"idle_timeout": 1e999}',
    "huge": b'{"max_sessions": ' + b"9" * 5000 + b"}",
    "utf-16": '{"max_sessions": 5}'.encode("utf-16"),
    "too-big": b'{"max_sessions": 5}' + b" " * 2**20,
    "fixed": b'{"work_dir": "/", "max_sessions": 5}',
    "unknown": b'{"max_sessions": 5, "unknown": 1}',
    "contradiction": b'{"max_open_sessions": 1}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_used_is_ignored_and_logged_once(
    policy: SandboxPolicy, file: Path, content: bytes, caplog: Log
) -> None:
    source = PolicyOverrides(policy, file)
    file.write_text('{"max_sessions": 4}')
    source.refresh()
    before = policy.snapshot()
    replace(file, "")
    file.write_bytes(content)
    assert [source.refresh(), source.refresh()] == [[], []]
    assert policy.snapshot() is before
    (complaint,) = ignored(caplog)
    assert complaint.startswith(f"policy overrides {file} ignored: ")
    assert len(complaint) < 500
    file.write_text('{"max_sessions": 5}')
    assert source.refresh() == ["max_sessions"]
    assert ignored(caplog) == []


def test_each_change_that_cannot_be_used_is_logged(policy: SandboxPolicy, file: Path, caplog: Log) -> None:
    source = PolicyOverrides(policy, file)
    for _ in range(3):
        replace(file, '{"network_mode": "host"}')
        source.refresh()
        source.refresh()
        assert len(ignored(caplog)) == 1
    file.unlink()
    source.refresh()
    replace(file, '{"network_mode": "host"}')
    source.refresh()
    assert len(ignored(caplog)) == 1


def test_what_was_refused_is_tried_again(policy: SandboxPolicy, file: Path) -> None:
    source = PolicyOverrides(policy, file)
    file.write_text('{"max_open_sessions": 2}')
    assert source.refresh() == []
    apply_policy_update(policy, {"max_sessions": 1})
    assert source.refresh() == ["max_open_sessions"]


def test_a_file_that_is_none_is_ignored(policy: SandboxPolicy, tmp_path: Path, caplog: Log) -> None:
    (tmp_path / "directory.json").mkdir()
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "plain").write_text("")
    for name in ("directory.json", "fifo.json", "plain/below.json"):
        assert PolicyOverrides(policy, tmp_path / name).refresh() == []
        assert len(ignored(caplog)) == 1


def test_a_file_that_cannot_be_opened_is_ignored(
    policy: SandboxPolicy, file: Path, caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('{"max_sessions": 5}')
    source = PolicyOverrides(policy, file)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert [source.refresh(), source.refresh()] == [[], []]
        assert ignored(caplog) == [f"policy overrides {file} ignored: {file}: permission denied by the file system"]
    assert source.refresh() == ["max_sessions"]


def test_a_file_that_is_written_to_while_it_is_read_waits(
    policy: SandboxPolicy, file: Path, caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('{"max_sessions": 5}')
    source = PolicyOverrides(policy, file)
    sizes = iter(range(100))
    with monkeypatch.context() as patch:
        patch.setattr(Signature, "of", lambda _: Signature(1, 1, 1, 1, next(sizes)))
        assert source.refresh() == []
    assert "written to while it is read" in ignored(caplog)[0]
    assert source.refresh() == ["max_sessions"]


REFUSED: list[dict[str, Any]] = [
    *({name: 1} for name in ("image", "volumes", "mounts", "devices", "privileged", "network_mode", "oci_runtime")),
    *({name: 1} for name in ("sandbox_uid", "work_dir", "workspace_root", "persist_containers", "prewarm", "unknown")),
    *({"runtimes": {"locked": {name: "x"}}} for name in ("image", "network_mode", "tmpfs_size", "unknown")),
    *({"runtimes": value} for value in ({"new": {"cpus": 1}}, {"locked": None}, {"locked": "evil"})),
    *({"max_sessions": value} for value in (-1, 0, True, 1.5, "many")),
    {"max_sessions": 5, "network_mode": "host", "default_runtime": "new"},
    {"runtimes": ["locked"]},
    {"mem_limit": "lots"},
    {"memswap_limit": "1g"},
]


@pytest.mark.parametrize("update", REFUSED, ids=json.dumps)
def test_the_file_is_refused_as_the_call_is(
    policy: SandboxPolicy, file: Path, update: dict[str, Any], caplog: Log
) -> None:
    with pytest.raises(PolicyError) as caught:
        apply_policy_update(policy, update)
    file.write_text(json.dumps(update))
    assert PolicyOverrides(policy, file).refresh() == []
    assert policy.to_dict() == START
    assert ignored(caplog) == [f"policy overrides {file} ignored: {caught.value}"]


def test_control_characters_do_not_reach_the_log(policy: SandboxPolicy, tmp_path: Path, caplog: Log) -> None:
    file = tmp_path / "a\nb.json"
    file.write_text(json.dumps({"\x1b[2J\nfake": 1}))
    PolicyOverrides(policy, file).refresh()
    (complaint,) = ignored(caplog)
    assert complaint.isprintable()


def test_a_complaint_is_bounded_however_much_is_wrong(policy: SandboxPolicy, file: Path, caplog: Log) -> None:
    file.write_text(json.dumps({f"unknown{number}": 1 for number in range(1000)}))
    PolicyOverrides(policy, file).refresh()
    (complaint,) = ignored(caplog)
    assert "unknown0: an update cannot change it" in complaint
    assert len(complaint) < 3000


def test_refreshes_at_once_apply_a_change_once(policy: SandboxPolicy, file: Path) -> None:
    source = PolicyOverrides(policy, file)
    together = threading.Barrier(8)

    def refresh(_: int) -> list[str]:
        together.wait(60)
        return source.refresh()

    with ThreadPoolExecutor(8) as pool:
        for number in range(4, 20):
            replace(file, json.dumps({"max_sessions": number}))
            assert sorted(pool.map(refresh, range(8), timeout=60)) == [[]] * 7 + [["max_sessions"]]
            assert policy.snapshot().max_sessions == number


@pytest.mark.parametrize("name", ["a.yaml", "a", ".json", "a.json.bak"])
def test_another_suffix_is_refused_when_built(policy: SandboxPolicy, tmp_path: Path, name: str) -> None:
    with pytest.raises(PolicyError, match=r"is neither a \.json nor a \.toml file"):
        PolicyOverrides(policy, tmp_path / name)


@pytest.mark.parametrize("path", ["", "a\0.json", "\ud800.json", b"a.json", 3, None])
def test_what_is_no_path_is_refused(policy: SandboxPolicy, path: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        PolicyOverrides(policy, path)
    with pytest.raises(InvalidArgumentError):
        PolicyOverrides(policy, "a.json", outside=[path])


def test_a_relative_path_is_that_of_when_it_was_built(
    policy: SandboxPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = PolicyOverrides(policy, "overrides.json")
    assert source.path == str(tmp_path / "overrides.json")
    (tmp_path / "overrides.json").write_text('{"max_sessions": 5}')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert source.refresh() == ["max_sessions"]
