"""System calls that confined commands are refused."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import ExitStack

import pytest

from sandbox_kit.backends.local import seccomp

from .confinement import SECRET, Denials, Workspace, started

ALLOW, EPERM = 0x7FFF0000, 0x00050001
KEY_CALLS = {
    "x86_64": {0xC000003E: (248, 249, 250), 0x40000003: (286, 287, 288)},
    "aarch64": {0xC00000B7: (217, 218, 219), 0x40000028: (309, 310, 311)},
    "riscv64": {0xC00000F3: (217, 218, 219)},
}


def verdict(program: bytes, architecture: int, number: int) -> int:
    """What *program* answers, one instruction after the other."""
    instructions = list(struct.iter_unpack("=HBBI", program))
    data = struct.pack("=II", number, architecture)
    value, at = 0, 0
    while True:
        code, then, other, operand = instructions[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            value &= operand
        elif code == 0x15:
            at += then if value == operand else other
        else:
            assert code == 0x06
            return int(operand)


@pytest.mark.parametrize("machine", KEY_CALLS)
def test_the_filter_refuses_the_calls_of_keyrings_alone(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", "6", "1", machine)))
    seccomp.call_filter.cache_clear()
    program = seccomp.call_filter(network=True)
    seccomp.call_filter.cache_clear()
    assert program is not None
    for architecture, numbers in KEY_CALLS[machine].items():
        refused = {number for number in range(600) if verdict(program, architecture, number) == EPERM}
        assert refused == set(numbers)
    assert verdict(program, 0x12345678, 250) == ALLOW


def test_the_second_abi_of_x86_64_is_no_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", "6", "1", "x86_64")))
    seccomp.call_filter.cache_clear()
    program = seccomp.call_filter(network=True)
    seccomp.call_filter.cache_clear()
    assert program is not None
    assert verdict(program, 0xC000003E, 0x40000000 | 250) == EPERM
    assert verdict(program, 0xC000003E, 0x40000000 | 1) == ALLOW


@pytest.mark.needs("bwrap")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers in this test are those of x86_64")
def test_a_key_of_the_host_s_session_is_out_of_reach(workspace: Workspace) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    name = f"confine-{os.getpid()}".encode()
    if libc.syscall(248, b"user", name, SECRET.encode(), len(SECRET), -3) < 0:
        pytest.skip("this machine has no kernel keyrings")
    program = (
        "import ctypes\n"
        "call = ctypes.CDLL(None, use_errno=True).syscall\n"
        f"print(call(249, b'user', {name!r}, None, -3), ctypes.get_errno())\n"
        f"print(call(250, 10, -3, b'user', {name!r}, 0), ctypes.get_errno())\n"
        "print(call(248, b'user', b'mine', b'x', 1, -3), ctypes.get_errno())\n"
    )
    masks = Denials(deny=(".*/secret",))
    refused = "-1 1\n-1 1\n-1 1\nrc=0"
    assert workspace.run([sys.executable, "-c", program], masks) == refused
    with ExitStack() as stack:
        started(stack, workspace.prepare(masks), "echo up; sleep 60")
        assert workspace.run([sys.executable, "-c", program], masks) == refused


@pytest.mark.needs("bwrap")
def test_a_machine_of_another_kind_runs_commands_all_the_same(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_kit.backends.local.confine.call_filter", lambda network: None)
    masks = Denials(deny=(".*/secret",))
    assert workspace.run("echo ok", masks) == "ok\nrc=0"
    with ExitStack() as stack:
        started(stack, workspace.prepare(masks), "echo up; sleep 60")
        assert workspace.run("echo ok", masks) == "ok\nrc=0"
