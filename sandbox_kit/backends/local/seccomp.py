"""The system calls that confined commands are refused.

Always those for kernel keyrings, which no namespace separates: a command inherits the session
keyring of the host's process, with whatever tickets it holds. Off the network also sockets of a
family that a network namespace does not hold, such as those to a hypervisor (AF_VSOCK), and
io_uring, which makes sockets past the filter.

Source: seccomp(2), linux/filter.h, linux/audit.h and the kernel's system call tables.
"""

from __future__ import annotations

import errno
import os
import struct
from functools import cache

from attrs import frozen

__all__ = ["call_filter"]

_LOAD, _AND, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_NOT_X32 = 0xBFFFFFFF
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, and AF_NETLINK, by which programs list the interfaces."""


@frozen
class _Abi:
    """The numbers of one ABI.

    Attributes:
        keys: add_key, request_key and keyctl.
        socket: socket.
        io_uring: io_uring_setup.
        multiplexed: socketcall, whose first argument 1 means socket; None where there is none.
    """

    keys: tuple[int, ...]
    socket: int
    io_uring: int = 425
    multiplexed: int | None = None


_GENERIC = _Abi((217, 218, 219), 198)
_ABIS = {
    "x86_64": {0xC000003E: _Abi((248, 249, 250), 41), 0x40000003: _Abi((286, 287, 288), 359, multiplexed=102)},
    "aarch64": {0xC00000B7: _GENERIC, 0x40000028: _Abi((309, 310, 311), 281)},
    "riscv64": {0xC00000F3: _GENERIC},
}
"""By machine, each ABI that it runs."""


@cache
def call_filter(*, network: bool) -> bytes | None:
    """The filter as the kernel takes it; None for a machine whose numbers are not known.

    Args:
        network: whether commands share the host's network.
    """
    abis = _ABIS.get(os.uname().machine)
    if abis is None:
        return None
    parts = [_for_one(architecture, abi, network) for architecture, abi in abis.items()]
    return b"".join(parts) + _instruction(_RETURN, _ALLOW)


def _for_one(architecture: int, abi: _Abi, network: bool) -> bytes:
    """Instructions that judge the calls of one ABI and are passed over by the others."""
    body = _instruction(_LOAD, _NUMBER_AT) + _instruction(_AND, _NOT_X32)
    for number in abi.keys if network else (*abi.keys, abi.io_uring):
        body += _where(number, _instruction(_RETURN, _REFUSE))
    if not network:
        body += _where(abi.socket, _only_families())
        if abi.multiplexed is not None:
            body += _where(abi.multiplexed, _no_socket())
    body += _instruction(_RETURN, _ALLOW)
    return _instruction(_LOAD, _ARCHITECTURE_AT) + _where(architecture, body)


def _only_families() -> bytes:
    """Allow by the first argument, a family, and end."""
    allowed = b"".join(_where(family, _instruction(_RETURN, _ALLOW)) for family in _FAMILIES)
    return _instruction(_LOAD, _FIRST_ARGUMENT_AT) + allowed + _instruction(_RETURN, _NO_FAMILY)


def _no_socket() -> bytes:
    """Refuse the first argument 1, whose family lies in memory that a filter cannot read, and end."""
    refused = _where(1, _instruction(_RETURN, _NO_FAMILY))
    return _instruction(_LOAD, _FIRST_ARGUMENT_AT) + refused + _instruction(_RETURN, _ALLOW)


def _where(value: int, then: bytes) -> bytes:
    """Instructions that are passed over unless what was loaded is *value*."""
    return _instruction(_JUMP_IF_EQUAL, value, unless=len(then) // 8) + then


def _instruction(code: int, value: int, *, unless: int = 0) -> bytes:
    """One instruction; *unless*: how many to pass over where a comparison fails."""
    return struct.pack("=HBBI", code, 0, unless, value)
