"""System calls that confined commands are refused."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
from contextlib import ExitStack

import pytest

from sandbox_kit.backends.local import seccomp

from .confinement import SECRET, Denials, Workspace, started

ALLOW, EPERM, NO_FAMILY = 0x7FFF0000, 0x00050001, 0x00050000 | errno.EAFNOSUPPORT
SOCKET = {0xC000003E: 41, 0x40000003: 359, 0xC00000B7: 198, 0x40000028: 281, 0xC00000F3: 198}
KEY_CALLS = {
    "x86_64": {0xC000003E: (248, 249, 250), 0x40000003: (286, 287, 288)},
    "aarch64": {0xC00000B7: (217, 218, 219), 0x40000028: (309, 310, 311)},
    "riscv64": {0xC00000F3: (217, 218, 219)},
}


def verdict(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """What *program* answers to a call and its first argument, one instruction after the other."""
    instructions = list(struct.iter_unpack("=HBBI", program))
    data = struct.pack("=IIQQ", number, architecture, 0, argument)
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


@pytest.mark.parametrize("machine", KEY_CALLS)
def test_off_the_network_only_harmless_families_are_left(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", "6", "1", machine)))
    seccomp.call_filter.cache_clear()
    on, off = (seccomp.call_filter(network=network) for network in (True, False))
    seccomp.call_filter.cache_clear()
    assert on is not None
    assert off is not None
    for architecture, keys in KEY_CALLS[machine].items():
        call = SOCKET[architecture]
        families = {family for family in range(64) if verdict(off, architecture, call, family) == ALLOW}
        assert families == {1, 2, 10, 16}
        assert {verdict(on, architecture, call, family) for family in range(64)} == {ALLOW}
        assert [verdict(program, architecture, 425) for program in (on, off)] == [ALLOW, EPERM]
        refused = {number for number in range(600) if verdict(off, architecture, number, 1) == EPERM}
        assert refused == {*keys, 425}


def test_off_the_network_the_old_call_of_i386_makes_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", "6", "1", "x86_64")))
    seccomp.call_filter.cache_clear()
    program = seccomp.call_filter(network=False)
    seccomp.call_filter.cache_clear()
    assert program is not None
    assert [verdict(program, 0x40000003, 102, what) for what in (1, 2, 3)] == [NO_FAMILY, ALLOW, ALLOW]


@pytest.mark.needs("bwrap")
def test_no_socket_to_a_hypervisor_is_made_off_the_network(workspace: Workspace) -> None:
    program = (
        "import socket\n"
        "socket.socket(socket.AF_INET).close(); socket.socket(socket.AF_UNIX).close(); socket.socketpair()\n"
        "print([name for _, name in socket.if_nameindex()])\n"
        f"try: socket.socket({int(socket.AF_VSOCK)}, socket.SOCK_STREAM)\n"
        "except OSError as error: print(error.errno)\n"
    )
    masks, answer = Denials(deny=(".*/secret",)), f"['lo']\n{errno.EAFNOSUPPORT}\nrc=0"
    assert workspace.run([sys.executable, "-c", program], masks) == answer
    with ExitStack() as stack:
        started(stack, workspace.prepare(masks), "echo up; sleep 60")
        assert workspace.run([sys.executable, "-c", program], masks) == answer


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
