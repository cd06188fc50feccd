"""What a service, or what stands in its place, may answer, and what is made of it."""

from __future__ import annotations

import copy
import logging
import pickle
import socket
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox_kit.backends.remote import RemoteSandbox, read_remote_policy, update_remote_policy
from sandbox_kit.errors import (
    InvalidArgumentError,
    LimitExceededError,
    PolicyError,
    RemoteProtocolError,
    SandboxClosedError,
    SandboxConflictError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    SessionLimitError,
    UnsupportedError,
)

from .fakes import POLICY, TOKEN, FakeService, Reply, drops, faking, gives, never, says

HTML = gives(b"<html><title>Sign in</title></html>", "text/html")


@pytest.fixture
def fake() -> Iterator[FakeService]:
    with faking() as service:
        yield service


@pytest.fixture
def box(fake: FakeService) -> RemoteSandbox:
    """A started sandbox."""
    return RemoteSandbox(fake.url, token=TOKEN, session_id="one", answer_timeout=5).start()


WRONG: dict[str, Reply] = {
    "a page": HTML,
    "a text": gives(b'{"output": ""}', "text/plain"),
    "no JSON": gives(b'{"output": "', "application/json"),
    "less than announced": gives(b'{"output": ""', "application/json", announced=500),
    "much": gives(b" " * 2**25, "application/json"),
    "a redirect": gives(b"", "text/html", 307, Location="http://elsewhere.example/"),
    "another shape": says(["output"]),
    "a number for a text": says({"output": 3}),
    "nothing": gives(b"", "application/json"),
}


@pytest.mark.parametrize("reply", WRONG.values(), ids=WRONG)
def test_what_is_no_answer_of_a_service_is_told_from_one(fake: FakeService, box: RemoteSandbox, reply: Reply) -> None:
    fake.leave("/exec", reply)
    with pytest.raises(RemoteProtocolError):
        box.execute("true")


@pytest.mark.parametrize("path", ["/policy", "/sessions", "/exec"])
def test_a_page_in_place_of_a_service_is_seen_at_the_start(fake: FakeService, path: str) -> None:
    fake.leave(path, HTML)
    with pytest.raises(RemoteProtocolError):
        RemoteSandbox(fake.url, token=TOKEN).start()


REFUSALS: list[tuple[int, type[SandboxError], str]] = [
    (400, InvalidArgumentError, "because"),
    (401, SandboxUnavailableError, "token"),
    (403, SandboxUnavailableError, "token"),
    (404, SandboxClosedError, "start"),
    (409, SandboxConflictError, "because"),
    (413, LimitExceededError, "size"),
    (418, RemoteProtocolError, "418"),
    (422, InvalidArgumentError, "because"),
    (429, SessionLimitError, "ceiling"),
    (500, SandboxUnavailableError, "500"),
    (502, SandboxUnavailableError, "because"),
    (504, SandboxTimeoutError, "because"),
]


@pytest.mark.parametrize(("status", "kind", "word"), REFUSALS)
def test_a_refusal_is_an_error_of_its_kind_that_says_why(
    fake: FakeService, box: RemoteSandbox, status: int, kind: type[SandboxError], word: str
) -> None:
    fake.leave("/exec", says({"detail": "because"}, status))
    with pytest.raises(kind, match=word):
        box.execute("true")
    assert fake.count("/exec") == 2


def test_a_field_that_is_refused_is_named(fake: FakeService, box: RemoteSandbox) -> None:
    problem = {"loc": ["body", "command"], "msg": "too odd", "input": "x"}
    fake.leave("/exec", says({"detail": [problem]}, 422))
    with pytest.raises(InvalidArgumentError, match="command: too odd"):
        box.execute("true")


@pytest.mark.parametrize("reply", [drops, says({"detail": "oh"}, 503)], ids=["dropped", "unavailable"])
def test_a_command_is_never_sent_twice(fake: FakeService, box: RemoteSandbox, reply: Reply) -> None:
    before = fake.count("/exec")
    fake.leave("/exec", reply)
    with pytest.raises(SandboxUnavailableError):
        box.execute("true")
    assert fake.count("/exec") == before + 1


def test_whether_a_lost_command_ran_is_said_to_be_unknown(fake: FakeService, box: RemoteSandbox) -> None:
    fake.leave("/exec", drops)
    with pytest.raises(SandboxUnavailableError, match="may have been done"):
        box.execute("true")


def test_a_look_that_was_dropped_is_taken_once_more(fake: FakeService) -> None:
    fake.leave("/policy", drops)
    assert read_remote_policy(fake.url, token=TOKEN)["work_dir"] == "/workspace"
    fake.leave("/policy", drops, drops)
    with pytest.raises(SandboxUnavailableError):
        read_remote_policy(fake.url, token=TOKEN)
    assert fake.count("/policy") == 4


def test_an_answer_that_does_not_come_is_waited_for_so_long(fake: FakeService) -> None:
    fake.leave("/policy", never)
    with pytest.raises(SandboxTimeoutError) as caught:
        RemoteSandbox(fake.url, token=TOKEN, answer_timeout=0.2).start()
    assert caught.value.timeout == 0.2


def test_a_service_that_is_not_there_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        box = RemoteSandbox(url, token=TOKEN)
        with pytest.raises(SandboxUnavailableError, match="cannot be reached"):
            box.start()
    assert not box.is_alive()


@pytest.mark.parametrize(
    "url",
    ["", "sandboxes.example", "ftp://h", "http://", "http://u:p@h", "http://h?q", "http://h:0x", "http://h\n", 3, None],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="url") as caught:
        RemoteSandbox(url, token=TOKEN)
    assert "u:p" not in str(caught.value)


def test_the_path_of_an_address_stands_before_all_others(fake: FakeService) -> None:
    RemoteSandbox(f"{fake.url}/deep/down/", token=TOKEN).start()
    assert fake.asked[0] == "GET /deep/down/policy"


TOKENS: dict[str, Any] = {"empty": "", "a blank": "a b", "a line": f"{TOKEN}\n", "not ASCII": "töken", "a number": 7}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_what_is_no_token_is_refused_and_not_shown(token: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="token") as caught:
        RemoteSandbox("http://h", token=token)
    assert TOKEN not in str(caught.value)


def test_a_token_comes_from_where_it_is_kept(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["first", "second"])
    monkeypatch.setenv("SANDBOXD_TOKEN", "by default")
    monkeypatch.setenv("OTHER", "named")
    for given in ("$OTHER", lambda: next(tokens)):
        read_remote_policy(fake.url, token=given)
    assert fake.tokens == ["named", "first"]
    monkeypatch.delenv("OTHER")
    with pytest.raises(SandboxUnavailableError, match="OTHER"):
        read_remote_policy(fake.url, token="$OTHER")


def _failures(box: RemoteSandbox, fake: FakeService) -> Iterator[BaseException]:
    for reply in (drops, HTML, says({"detail": f"{TOKEN} is wrong"}, 401), says({"detail": TOKEN}, 500)):
        fake.leave("/exec", reply)
        with pytest.raises(SandboxError) as caught:
            box.execute("true")
        yield caught.value


def test_a_token_is_shown_nowhere(fake: FakeService, box: RemoteSandbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown = [repr(box), str(box), repr(vars(box)), repr(box._service), repr(vars(box._service))]
    for error in _failures(box, fake):
        shown += [str(error), repr(error), "".join(traceback.format_exception(error)), repr(vars(error))]
    assert TOKEN not in "".join([*shown, caplog.text])


def test_a_copy_of_a_handle_finds_the_session_by_its_own_token(
    fake: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", TOKEN)
    box = RemoteSandbox(fake.url, token="$KEPT", session_id="one").start()
    pickled = pickle.dumps(box)
    assert TOKEN.encode() not in pickled
    for other in (pickle.loads(pickled), copy.deepcopy(box)):
        assert (other.id, other.temporary, other.is_alive()) == (box.id, False, False)
        assert other.start().is_alive()
    assert set(fake.tokens) == {TOKEN}


def test_loopback_is_not_sent_to_a_proxy(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    for host in ("127.0.0.1", "localhost"):
        read_remote_policy(f"http://{host}:{fake.server_port}", token=TOKEN)
    assert fake.asked == ["GET /policy"] * 2


def test_another_host_is_reached_by_the_proxy(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", fake.url)
    read_remote_policy("http://sandboxes.example:8080/at", token=TOKEN)
    assert fake.asked == ["GET http://sandboxes.example:8080/at/policy"]


def test_https_goes_through_a_tunnel_of_the_proxy(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("https_proxy", fake.url.replace("http://", "http://user:hidden@"))
    fake.leave("sandboxes.example:443", gives(b"", "text/html", 407))
    with pytest.raises(SandboxUnavailableError) as caught:
        read_remote_policy("https://sandboxes.example", token=TOKEN)
    assert "hidden" not in str(caught.value)
    assert fake.asked == ["CONNECT sandboxes.example:443"]
    assert fake.tokens == [None]


def test_a_host_without_a_proxy_is_asked_itself(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", fake.url)
    monkeypatch.setenv("no_proxy", "sandboxes.invalid")
    with pytest.raises(SandboxUnavailableError, match=r"sandboxes\.invalid"):
        read_remote_policy("http://sandboxes.invalid", token=TOKEN)
    assert fake.asked == []


def test_an_image_without_what_is_needed_is_refused_by_name(fake: FakeService) -> None:
    fake.leave("/exec", says({"output": "- base64\n- dd\n+ /workspace\n", "exit_code": 0}))
    with pytest.raises(UnsupportedError, match="base64, dd"):
        RemoteSandbox(fake.url, token=TOKEN).start()


def test_another_work_directory_than_the_services_is_refused(fake: FakeService) -> None:
    with pytest.raises(SandboxConflictError, match="/workspace"):
        RemoteSandbox(fake.url, token=TOKEN, work_dir="/srv").start()


def test_a_time_limit_over_the_services_is_refused_and_nothing_is_sent(fake: FakeService, box: RemoteSandbox) -> None:
    before = fake.count("/exec")
    with pytest.raises(LimitExceededError) as caught:
        box.execute("true", timeout=300)
    assert caught.value.limit == 295
    assert fake.count("/exec") == before


UPDATES: list[tuple[Callable[[str], object], type[SandboxError]]] = [
    (lambda url: update_remote_policy(url, {"max_sessions": 3}, token=TOKEN), PolicyError),
    (lambda url: update_remote_policy(url, [], token=TOKEN), PolicyError),  # type: ignore[arg-type]
    (lambda url: update_remote_policy(url, {"cpus": object()}, token=TOKEN), PolicyError),
]


@pytest.mark.parametrize(("update", "kind"), UPDATES)
def test_an_update_that_is_refused_is_a_policy_error(
    fake: FakeService, update: Callable[[str], object], kind: type[SandboxError]
) -> None:
    fake.leave("/policy", says(POLICY), says({"detail": [{"loc": ["body", "max_sessions"], "msg": "no"}]}, 422))
    with pytest.raises(kind):
        update(fake.url)
