"""The system calls that confined commands are refused: those for kernel keyrings, which no namespace separates.

A command inherits the session keyring of the host's process, with whatever tickets it holds.

Source: seccomp(2), linux/filter.h, linux/audit.h and the kernel's system call tables.
"""

from __future__ import annotations

import errno
import os
import struct
from functools import cache

__all__ = ["key_filter"]

_LOAD, _AND, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NOT_X32 = 0xBFFFFFFF

_GENERIC = (217, 218, 219)
_CALLS = {
    "x86_64": {0xC000003E: (248, 249, 250), 0x40000003: (286, 287, 288)},
    "aarch64": {0xC00000B7: _GENERIC, 0x40000028: (309, 310, 311)},
    "riscv64": {0xC00000F3: _GENERIC},
}
"""By machine, for each ABI that it runs: the numbers of add_key, request_key and keyctl."""


@cache
def key_filter() -> bytes | None:
    """The filter as the kernel takes it; None for a machine whose numbers are not known."""
    tables = _CALLS.get(os.uname().machine)
    if tables is None:
        return None
    return b"".join(_for_one(*table) for table in tables.items()) + _instruction(_RETURN, _ALLOW)


def _for_one(architecture: int, numbers: tuple[int, ...]) -> bytes:
    """Instructions that refuse *numbers* for one ABI and are passed over by the others."""
    body = _instruction(_LOAD, _NUMBER_AT) + _instruction(_AND, _NOT_X32)
    for number in numbers:
        body += _instruction(_JUMP_IF_EQUAL, number, unless=1) + _instruction(_RETURN, _REFUSE)
    body += _instruction(_RETURN, _ALLOW)
    size = len(body) // 8
    return _instruction(_LOAD, _ARCHITECTURE_AT) + _instruction(_JUMP_IF_EQUAL, architecture, unless=size) + body


def _instruction(code: int, value: int, *, unless: int = 0) -> bytes:
    """One instruction; *unless*: how many to pass over where a comparison fails."""
    return struct.pack("=HBBI", code, 0, unless, value)
