"""What a program needs to run, as its file tells: the loader's name and those of shared libraries.

Source: the System V ABI's "Program Header" and "Dynamic Section", for 64-bit little-endian files.
"""

from __future__ import annotations

import struct

from attrs import frozen

__all__ = ["Needs", "needs_of"]

_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQ")
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS = 1, 5


@frozen
class Needs:
    """What a program is started with.

    Attributes:
        loader: the absolute name of its loader; None for a program that needs none.
        libraries: names of shared libraries, without a directory.
    """

    loader: str | None
    libraries: tuple[str, ...]


def needs_of(program: bytes) -> Needs | None:
    """What *program*, a file's bytes, needs; None where they are of another kind, or damaged."""
    if not program.startswith(_MAGIC):
        return None
    try:
        return _read(program)
    except (struct.error, IndexError, OverflowError, StopIteration, ValueError):
        return None


def _read(program: bytes) -> Needs:
    (start,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    headers = [_HEADER.unpack_from(program, start + number * size) for number in range(count)]
    loads = [(address, offset, length) for kind, _, offset, address, _, length, *_ in headers if kind == _LOAD]
    loader = next((_text(program, offset) for kind, _, offset, *_ in headers if kind == _INTERPRETER), None)
    dynamic = next(
        (_dynamic(program, offset, length) for kind, _, offset, _, _, length, *_ in headers if kind == _DYNAMIC), []
    )
    strings = next((value for tag, value in dynamic if tag == _STRINGS), 0)
    wanted = [value for tag, value in dynamic if tag == _NEEDED]
    if not wanted:
        return Needs(loader, ())
    table = next(
        offset + strings - address for address, offset, length in loads if address <= strings < address + length
    )
    return Needs(loader, tuple(_text(program, table + value) for value in wanted))


def _dynamic(program: bytes, offset: int, length: int) -> list[tuple[int, int]]:
    return [_ENTRY.unpack_from(program, place) for place in range(offset, offset + length, _ENTRY.size)]


def _text(program: bytes, offset: int) -> str:
    return program[offset : program.index(b"\0", offset)].decode("ascii")
