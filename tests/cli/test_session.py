"""``session`` and ``sweep``: sessions from the shell, where each command is a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.cli import main
from sandbox_kit.cli import policy as policy_command
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy

from .programs import environment, in_child, kit


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def document(*arguments: str) -> Any:
    done = kit(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_session_lives_from_command_to_command(root: Path) -> None:
    where = ("--root", str(root))
    done = kit("session", "open", *where, "--tenant", "x", "a")
    assert done.stdout.decode().strip() == str((root / "a" / "workspace").resolve())
    done = kit(
        "session",
        "exec",
        *where,
        "--commands",
        "inspected",
        "--rules",
        "none",
        "--shell",
        "a",
        "--",
        "echo hi > f; cat f; exit 3",
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hi\n", b"")
    (info,) = document("session", "ls", *where)["sessions"]
    assert (info["id"], info["state"], info["tenant"], info["pids"]) == ("a", "hibernated", "x", [])
    assert kit("session", "ls", *where).stdout.startswith(b"a ")
    assert kit("session", "close", *where, "a").returncode == 0
    assert (root / "a" / "workspace" / "f").exists()
    assert kit("session", "close", *where, "--purge", "a").returncode == 0
    assert not (root / "a").exists()
    done = kit("session", "close", *where, "a")
    assert (done.returncode, done.stderr) == (1, b"sandbox-kit: there is no session a\n")


@pytest.mark.needs("bwrap")
def test_a_command_is_held_to_the_rules(root: Path) -> None:
    where = ("--root", str(root))
    (root / "a" / "workspace").mkdir(parents=True)
    (root / "a" / "workspace" / ".env").write_text("TOPSECRET")
    assert b"TOPSECRET" not in kit("session", "exec", *where, "a", "--", "cat", ".env").stdout
    done = json.loads(kit("session", "exec", *where, "--json", "--timeout", "20", "a", "--", "echo", "x").stdout)
    assert (done["exit_code"], done["stdout"], done["timed_out"]) == (0, "x\n", False)


def test_a_command_over_its_limit_ends_with_124(root: Path) -> None:
    words = ("--commands", "inspected", "--rules", "none", "--timeout", "0.2", "a", "--", "sleep", "600")
    done = kit("session", "exec", "--root", str(root), *words)
    assert (done.returncode, b"over its limit" in done.stderr) == (124, True)


def test_what_another_process_holds_is_told(root: Path) -> None:
    with SessionManager(SandboxPolicy(), workspace_root=root, reap_every=None) as manager:
        box = manager.open("a")
        done = kit("session", "close", "--root", str(root), "a")
        assert (done.returncode, str(os.getpid()).encode() in done.stderr) == (1, True)
        done = kit("session", "close", "--root", str(root), "--purge", "a")
        assert (done.returncode, str(os.getpid()).encode() in done.stderr) == (1, True)
        assert box.is_alive()


def test_the_policy_gives_root_and_ceilings(root: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"workspace_root": str(root), "max_open_sessions": 1}))
    assert kit("session", "open", "--policy", str(policy), "a").returncode == 0
    done = kit("session", "open", "--policy", str(policy), "b")
    assert (done.returncode, b"max_open_sessions is 1" in done.stderr) == (125, True)
    assert [info["id"] for info in document("session", "ls", "--policy", str(policy))["sessions"]] == ["a"]


def test_a_command_that_opens_a_new_session_says_so(root: Path) -> None:
    words = ("session", "exec", "--root", str(root), "--commands", "inspected", "--rules", "none", "a", "--", "true")
    assert [kit(*words).stderr for _ in range(2)] == [b"sandbox-kit: session a is new: it was opened just now\n", b""]


@pytest.mark.parametrize(
    "arguments",
    [("session", "ls"), ("session", "close", "a"), ("sweep",), ("archive", "ls"), ("archive", "ls", "--json")],
)
def test_nothing_is_made_where_no_session_was_opened(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = kit(*arguments, "--root", str(tmp_path))
    assert (done.returncode, b"no sessions were ever opened" in done.stderr) == (125, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("open", "../x"), ("exec", "a"), ("close",), ("no-such",)])
def test_what_cannot_be_meant_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert kit("session", arguments[0], "--root", str(tmp_path), *arguments[1:]).returncode == 2


def test_an_archive_that_was_emptied_is_no_mistake(root: Path) -> None:
    kit("session", "open", "--root", str(root), "a")
    kit("session", "close", "--root", str(root), "--purge", "a")
    assert document("archive", "ls", "--root", str(root)) == {"sessions": []}


def test_sweep_clears_away_what_was_left(root: Path) -> None:
    where = ("--root", str(root))
    for session in ("a", "b"):
        kit("session", "open", *where, session, env=environment())
    assert document("sweep", *where) == {"purged": [], "recovered": [], "unknown": []}
    assert kit("sweep", *where, "--workspace-ttl", "0.000001").stdout == b"purged a\npurged b\n"
    assert document("session", "ls", *where) == {"sessions": []}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--dry-run",), "--dry-run"),
        (("--label", "a=b"), "--backend docker"),
        (("--container-ttl", "5"), "--backend docker"),
        (("--backend", "docker", "--label", "a"), "NAME=VALUE"),
        (("--backend", "docker", "--dry-run", "--root", "."), "--dry-run"),
        (("--backend", "kubernetes"), "--backend"),
    ],
)
def test_a_sweep_is_asked_for_nothing_that_it_cannot_do(arguments: tuple[str, ...], told: str) -> None:
    done = kit("sweep", *arguments)
    assert (done.returncode, told in done.stderr.decode()) == (2, True)


def test_a_sweep_of_an_engine_that_is_not_there_fails(tmp_path: Path) -> None:
    done = kit("sweep", "--backend", "docker", env=environment(DOCKER_HOST=f"unix://{tmp_path}/none.sock"))
    assert (done.returncode, b"Docker engine" in done.stderr, done.stdout) == (125, True, b"")


def test_closing_one_session_purges_no_other(root: Path, tmp_path: Path) -> None:
    where = ("--root", str(root))
    for session in ("a", "b", "c"):
        kit("session", "open", *where, session)
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"workspace_ttl": 1e-6}))
    assert kit("session", "close", *where, "--policy", str(policy), "a").returncode == 0
    assert kit("session", "close", *where, "--policy", str(policy), "--purge", "b").returncode == 0
    assert [info["id"] for info in document("session", "ls", *where)["sessions"]] == ["a", "c"]


def test_closing_one_session_recovers_no_other(root: Path) -> None:
    with SessionManager(SandboxPolicy(), workspace_root=root, reap_every=None) as manager:
        assert in_child(lambda: [manager.open(id).is_alive() for id in ("a", "b")]) == 0
        assert kit("session", "close", "--root", str(root), "a").returncode == 0
        assert {info.id: info.state for info in manager.sessions()} == {"a": "hibernated", "b": "live"}


def test_a_session_of_another_backend_is_told(root: Path) -> None:
    def factory(session_id: str, profile: object, limits: object, workspace: Path) -> LocalSandbox:
        return LocalSandbox(workspace)

    with SessionManager(SandboxPolicy(), workspace_root=root, backend=factory, reap_every=None) as manager:
        manager.open("a").write("f", "x")
        manager.close("a")
        for words in (("exec", "a", "--", "true"), ("open", "a"), ("close", "a"), ("close", "--purge", "a")):
            done = kit("session", words[0], "--root", str(root), *words[1:])
            assert (done.returncode, b"session a belongs to the backend" in done.stderr) == (125, True)
        assert manager.open("a").read("f") == "x"


def test_a_policy_that_local_sessions_cannot_hold_is_told(root: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"runtimes": {"py": "python:3.12"}, "prewarm": 1}))
    done = kit("session", "open", "--root", str(root), "--policy", str(policy), "a")
    assert (done.returncode, b"cannot hold prewarm, runtimes.py.image" in done.stderr) == (125, True)
    assert not root.exists()


def test_sweep_tells_workspaces_that_nobody_knows(root: Path) -> None:
    kit("session", "open", "--root", str(root), "a")
    (root / "lost" / "workspace").mkdir(parents=True)
    assert kit("sweep", "--root", str(root)).stdout == b"unknown lost\n"
    assert kit("sweep", "--root", str(root), "--workspace-ttl", "0.000001").stdout == b"purged a\npurged lost\n"


@pytest.mark.parametrize("command", [["session", "ls"], ["session", "open", "a"], ["sweep"]])
def test_the_policy_is_read_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    SessionManager(SandboxPolicy(), workspace_root=root, reap_every=None).shutdown()
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"workspace_root": str(root)}))
    read, names = policy_command.read_document, []
    monkeypatch.setattr(policy_command, "read_document", lambda path: names.append(path) or read(path))
    assert main([*command[:2], "--policy", str(policy), *command[2:]]) == 0
    assert names == [str(policy)]
