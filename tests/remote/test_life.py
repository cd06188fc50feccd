"""A session's life on the real service: what is kept, what is discarded, and what others do to it."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import SandboxSpec
from sandbox_kit.backends.remote import RemoteSandbox, read_remote_policy, update_remote_policy
from sandbox_kit.errors import (
    InvalidArgumentError,
    PolicyError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxError,
    SandboxUnavailableError,
    SessionLimitError,
)
from sandbox_kit.types import CommandResult

from .service import Service

Make = Callable[..., RemoteSandbox]


@pytest.fixture
def make(service: Service) -> Iterator[Make]:
    """Makes sandboxes; whatever is left of them in the end is discarded."""
    made: list[RemoteSandbox] = []

    def make(**options: Any) -> RemoteSandbox:
        made.append(RemoteSandbox(service.url, **{"token": service.token, **options}))
        return made[-1]

    yield make
    for each in made:
        try:
            each.stop(purge=True)
        except SandboxError:
            continue


def _kept(service: Service, session_id: str) -> bool:
    return (service.workspaces / session_id).exists()


def test_a_stop_keeps_the_files_and_a_start_finds_them(service: Service, make: Make) -> None:
    with make(session_id="kept") as box:
        box.write("d/f", b"\x00\xff")
    assert not box.is_alive()
    with make(session_id="kept") as again:
        assert again.read_bytes("d/f") == b"\x00\xff"
    again.stop(purge=True)
    assert not _kept(service, "kept")


def test_a_purge_discards_what_an_earlier_stop_kept(service: Service, make: Make) -> None:
    with make(session_id="later") as box:
        box.write("f", "x")
    assert _kept(service, "later")
    make(session_id="later").stop(purge=True)
    assert not _kept(service, "later")


def test_a_sandbox_without_an_id_is_discarded_with_its_context(service: Service, make: Make) -> None:
    with make() as box:
        box.write("f", "x")
        assert _kept(service, box.id)
    assert not _kept(service, box.id)


def test_a_sandbox_that_is_dropped_is_discarded(service: Service) -> None:
    box = RemoteSandbox(service.url, token=service.token).start()
    name = box.id
    assert _kept(service, name)
    del box
    gc.collect()
    assert not _kept(service, name)


def test_a_process_that_exits_discards_its_own(service: Service) -> None:
    program = (
        "import sys; from sandbox_kit import RemoteSandbox\nbox = RemoteSandbox(sys.argv[1]).start(); print(box.id)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, service.url],
        env={"SANDBOXD_TOKEN": service.token, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("sk-")
    assert not _kept(service, done.stdout.strip())


def test_two_handles_of_one_id_share_a_session(make: Make) -> None:
    with make(session_id="shared") as one, make(session_id="shared") as two:
        one.write("f", "seen")
        assert two.read("f") == "seen"
        copied = pickle.loads(pickle.dumps(one)).start()
        assert copied.read("f") == "seen"


def test_a_session_that_is_open_is_not_taken_unless_it_may_be(make: Make) -> None:
    with make(session_id="taken"), pytest.raises(SandboxConflictError, match="taken"):
        make(session_id="taken", reuse=False).start()


def test_a_session_keeps_its_runtime(make: Make) -> None:
    with make(session_id="plain", runtime="busybox"), pytest.raises(SandboxConflictError, match="busybox"):
        make(session_id="plain", runtime="debian").start()


def test_an_unknown_runtime_is_refused_with_those_that_there_are(make: Make) -> None:
    with pytest.raises(InvalidArgumentError, match="busybox, debian"):
        make(runtime="rust").start()


@pytest.mark.parametrize("options", [{"session_id": "../x"}, {"session_id": ""}, {"tenant": "a b"}, {"work_dir": "w"}])
def test_what_no_service_takes_is_refused_at_once(make: Make, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        make(**options)


def test_a_wrong_token_is_refused_and_says_what_to_do(make: Make) -> None:
    with pytest.raises(SandboxUnavailableError, match="refuses the token") as caught:
        make(token="wrong-token").start()
    assert "wrong-token" not in str(caught.value)


def test_a_token_that_expires_is_told_at_the_next_call(service: Service, make: Make) -> None:
    tokens = [service.token]
    with make(token=lambda: tokens[0]) as box:
        tokens[0] = "expired"
        for use in (lambda: box.execute("true"), lambda: box.write("f", "x"), lambda: box.usage()):
            with pytest.raises(SandboxUnavailableError, match="token"):
                use()
        assert not box.is_alive()
        tokens[0] = service.token
        assert box.execute("echo x").stdout == "x\n"


def test_a_session_that_another_ended_is_told_and_can_be_started_again(make: Make) -> None:
    with make(session_id="ended") as box:
        box.write("f", "kept")
        make(session_id="ended").stop()
        assert not box.is_alive()
        for use in (lambda: box.execute("true"), lambda: box.read("f"), lambda: box.usage()):
            with pytest.raises(SandboxClosedError, match="start"):
                use()
        box.stop()
        assert box.start().read("f") == "kept"


def test_a_command_that_ends_its_container_is_an_error_and_the_next_one_runs(make: Make) -> None:
    with make(session_id="felled") as box:
        box.write("f", "kept")
        with pytest.raises(SandboxError):
            box.execute("kill -9 -1; sleep 5")
        assert _in_time(lambda: box.execute("cat f")).stdout == "kept"


def _in_time(call: Callable[[], CommandResult]) -> CommandResult:
    """Return what *call* does once the service has seen that the container is gone."""
    until = time.monotonic() + 30
    while True:
        try:
            return call()
        except SandboxUnavailableError:
            assert time.monotonic() < until
            time.sleep(0.2)


def test_a_ceiling_of_the_service_is_a_session_limit(service: Service, make: Make) -> None:
    before = read_remote_policy(service.url, token=service.token)["max_open_sessions"]
    with make():
        assert update_remote_policy(service.url, {"max_open_sessions": 1}, token=service.token) == ["max_open_sessions"]
        try:
            with pytest.raises(SessionLimitError):
                make().start()
        finally:
            update_remote_policy(service.url, {"max_open_sessions": before}, token=service.token)


def test_ceilings_are_read_and_changed_by_name(service: Service) -> None:
    def change(update: dict[str, object]) -> list[str]:
        return update_remote_policy(service.url, update, token=service.token)

    policy = read_remote_policy(service.url, token=service.token)
    assert policy["work_dir"] == "/workspace"
    runtimes = policy["runtimes"]
    assert isinstance(runtimes, dict)
    assert set(runtimes) == {"busybox", "debian"}
    assert change({"mem_limit": policy["mem_limit"]}) == []
    update = {"workspace_ttl": 9000, "runtimes": {"debian": {"pids_limit": 100}}}
    assert change(update) == ["runtimes.debian.pids_limit", "workspace_ttl"]
    assert change({"workspace_ttl": None}) == ["workspace_ttl"]


@pytest.mark.parametrize(
    ("update", "name"),
    [
        ({"network_mode": "host"}, "network_mode"),
        ({"max_sessions": -1}, "max_sessions"),
        ({"runtimes": {"x": {}}}, "x"),
    ],
)
def test_a_change_that_is_refused_names_the_field(service: Service, update: dict[str, object], name: str) -> None:
    before = read_remote_policy(service.url, token=service.token)
    with pytest.raises(PolicyError, match=name):
        update_remote_policy(service.url, update, token=service.token)
    assert read_remote_policy(service.url, token=service.token) == before


def test_a_spec_opens_one_without_a_token_in_it(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOXD_TOKEN", service.token)
    spec = SandboxSpec("remote", {"url": service.url, "runtime": "busybox"})
    assert service.token not in repr(spec.to_dict())
    box = SandboxSpec.from_dict(spec.to_dict()).open()
    assert isinstance(box, RemoteSandbox)
    with box:
        assert box.execute("echo x").stdout == "x\n"
