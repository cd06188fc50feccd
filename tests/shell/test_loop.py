"""A shell that stays, of this machine: replies, errors, deadlines and silence."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_kit.backends.shell import loop as loops
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import SandboxTimeoutError, SandboxUnavailableError

from .pipes import SHELLS, PipeDuplex

GUARD = 30.0


class Said:
    """What a script printed."""

    def __init__(self) -> None:
        self.streams = {"stdout": b"", "stderr": b""}

    def take(self, stream: str, data: bytes) -> None:
        self.streams[stream] += data


@pytest.fixture(params=sorted(SHELLS))
def duplex(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PipeDuplex]:
    request.getfixturevalue("needs")(SHELLS[request.param][0])
    duplex = PipeDuplex(SHELLS[request.param], str(tmp_path))
    yield duplex
    duplex.close()


@pytest.fixture
def loop(duplex: PipeDuplex) -> Loop:
    return Loop(duplex)


def run(loop: Loop, body: str) -> tuple[int, bytes, bytes]:
    said = Said()
    code = loop.run(body, said.take, time.monotonic() + GUARD)
    return code, said.streams["stdout"], said.streams["stderr"]


def test_scripts_run_one_after_the_other(loop: Loop) -> None:
    for number in range(50):
        body = f"echo out {number} >&8; echo err {number} >&9; c={number}"
        assert run(loop, body) == (number, f"out {number}\n".encode(), f"err {number}\n".encode())


def test_what_goes_elsewhere_is_in_no_reply(loop: Loop) -> None:
    assert run(loop, "echo lost; echo lost >&2; no-such-program; c=$?") == (127, b"", b"")
    assert run(loop, "echo kept >&8") == (0, b"kept\n", b"")


def test_a_script_tells_a_second_number(loop: Loop) -> None:
    call = loop.call("s=7; c=3", Said().take, time.monotonic() + GUARD)
    assert (call.finish(), call.told) == (3, 7)


def test_a_shell_that_cannot_say_that_it_is_done_is_given_up(loop: Loop) -> None:
    with pytest.raises(SandboxUnavailableError, match="ended before"):
        run(loop, "ulimit -n 1")


def test_a_script_reads_what_is_sent_when_it_has_begun(loop: Loop) -> None:
    said = Said()
    data = bytes(range(256)) * 2000
    script = f"dd bs=65536 iflag=fullblock,count_bytes count={len(data)} >&8 2>/dev/null"
    call = loop.call(script, said.take, time.monotonic() + GUARD)
    call.send_when_begun(data)
    assert (call.finish(), said.streams["stdout"]) == (0, data)
    assert run(loop, "echo on >&8")[1] == b"on\n"


def test_a_large_script_and_a_large_reply_do_not_block_each_other(loop: Loop) -> None:
    text = "x" * 300_000
    assert run(loop, f"echo {text} >&8\n: '{text}'\necho {text} >&9") == (0, *[text.encode() + b"\n"] * 2)


def test_a_shell_that_ends_is_told_and_given_up(loop: Loop) -> None:
    with pytest.raises(SandboxUnavailableError, match="ended before"):
        run(loop, "exit 3")
    assert loop.lost
    with pytest.raises(SandboxUnavailableError, match="gone"):
        run(loop, ":")


def test_a_script_that_cannot_be_parsed_is_told(loop: Loop) -> None:
    with pytest.raises(SandboxUnavailableError):
        run(loop, "fi; done")


def test_a_deadline_gives_the_shell_up(loop: Loop) -> None:
    with pytest.raises(SandboxTimeoutError):
        loop.run("sleep 1000", Said().take, time.monotonic() + 0.2)
    assert loop.lost


def test_an_error_of_the_taker_gives_the_shell_up(loop: Loop) -> None:
    def take(_stream: str, _data: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run("echo on >&8; sleep 1000", take, time.monotonic() + GUARD)
    assert loop.lost


@pytest.mark.parametrize("body", ["sleep 0.5", ": '" + "x" * 1_000_000 + "'"], ids=["waiting", "sending"])
def test_silence_is_looked_into(loop: Loop, duplex: PipeDuplex, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    monkeypatch.setattr(loops, "_SILENCE", 0.05)
    run(loop, ":")
    os.kill(duplex.program.pid, signal.SIGSTOP)
    heard: list[float] = []

    def look() -> None:
        heard.append(time.monotonic())
        if len(heard) == 3:
            os.kill(duplex.program.pid, signal.SIGCONT)

    assert loop.call(body, Said().take, time.monotonic() + GUARD, on_silence=look).finish() == 0
    assert len(heard) >= 3


def test_an_error_of_the_one_who_looks_gives_the_shell_up(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_SILENCE", 0.05)

    def look() -> None:
        raise SandboxUnavailableError("spoiled")

    with pytest.raises(SandboxUnavailableError, match="spoiled"):
        loop.call("sleep 1000", Said().take, on_silence=look).finish()
    assert loop.lost
