"""Bytes in and out: bounded reads, lines of a stream, content as chunks."""

from __future__ import annotations

from collections.abc import Iterator
from io import SEEK_END
from typing import BinaryIO

from sandbox_kit.errors import InvalidArgumentError, ReadLimitError

__all__ = ["CHUNK", "as_bytes", "as_chunks", "read_bounded", "read_lines"]

CHUNK = 2**18
_BOM = b"\xef\xbb\xbf"


def read_bounded(stream: BinaryIO, limit: int) -> bytes:
    """Return the rest of *stream*.

    Args:
        stream: a buffered file of any size. A size that it tells is believed only to refuse early.
        limit: in bytes.

    Raises:
        ReadLimitError: there is more; at most one byte over *limit* has been read.
    """
    size = _size(stream)
    if size <= limit:
        data = stream.read(size + 1)
        if len(data) > size:
            data += stream.read(limit + 1 - len(data))
        if len(data) <= limit:
            return data
    raise ReadLimitError(f"the file holds more than {limit} bytes", limit)


def _size(stream: BinaryIO) -> int:
    if not stream.seekable():
        return 0
    size = stream.seek(0, SEEK_END)
    stream.seek(0)
    return size


def read_lines(stream: BinaryIO, offset: int, limit: int | None, max_bytes: int) -> str:
    """Return *limit* lines of *stream* from line *offset* (0-based) on, decoded, without a byte order mark.

    Raises:
        ReadLimitError: those lines hold more than *max_bytes*.
    """
    if offset == 0 and limit is None:
        return _text(read_bounded(stream, max_bytes))
    held = bytearray()
    first, last = offset, None if limit is None else offset + limit
    line = 0
    while (last is None or line < last) and (piece := stream.readline(CHUNK)):
        if line >= first:
            held += piece
        if len(held) > max_bytes:
            raise ReadLimitError(f"the lines hold more than {max_bytes} bytes", max_bytes)
        line += piece.endswith(b"\n")
    return _text(held) if offset == 0 else held.decode("utf-8", "replace")


def _text(data: bytes | bytearray) -> str:
    return data.removeprefix(_BOM).decode("utf-8", "replace")


def as_bytes(content: str | bytes, name: str) -> bytes:
    """Return text as UTF-8, bytes as they are.

    Raises:
        InvalidArgumentError: it is neither, or text that UTF-8 cannot hold.
    """
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    if not isinstance(content, str):
        raise InvalidArgumentError(f"{name}: is a str or bytes, not {type(content).__name__}")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name}: UTF-8 cannot hold the character at {error.start}") from error


def as_chunks(content: str | bytes | BinaryIO) -> Iterator[bytes]:
    """Return *content* as pieces of bytes; a binary file is read while they are taken.

    Raises:
        InvalidArgumentError: it is no text, bytes or binary file.
    """
    if isinstance(content, str | bytes | bytearray | memoryview):
        return iter((as_bytes(content, "content"),))
    if not callable(getattr(content, "read", None)):
        raise InvalidArgumentError(f"content: is a str, bytes or a binary file, not {type(content).__name__}")
    return _chunks(content)


def _chunks(content: BinaryIO) -> Iterator[bytes]:
    chunk = content.read(CHUNK)
    while chunk:
        yield _bytes_only(chunk)
        chunk = content.read(CHUNK)
    _bytes_only(chunk)


def _bytes_only(chunk: object) -> bytes:
    if not isinstance(chunk, bytes):
        raise InvalidArgumentError(f"content: the file gave {type(chunk).__name__}, not bytes; open it as a binary one")
    return chunk
