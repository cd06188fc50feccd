"""Bytes in and out: bounded reads, lines of a stream, content as chunks."""

from __future__ import annotations

from collections.abc import Iterator
from io import SEEK_END
from time import monotonic
from typing import BinaryIO

from sandbox_kit.errors import InvalidArgumentError, ReadLimitError, SandboxTimeoutError

__all__ = ["CHUNK", "as_bytes", "as_chunks", "read_bounded", "read_lines"]

CHUNK = 2**18
_BOM = b"\xef\xbb\xbf"
_SECONDS = 30.0


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


def read_lines(stream: BinaryIO, offset: int, limit: int | None, max_bytes: int, seconds: float = _SECONDS) -> str:
    """Return *limit* lines of *stream* from line *offset* (0-based) on, decoded, without a byte order mark.

    Args:
        max_bytes: the most that those lines may hold, and each line before them without its end.
        seconds: how long passing over the lines before them may take.

    Raises:
        ReadLimitError: those lines, or one before them, hold more than *max_bytes*.
        SandboxTimeoutError: it takes longer.
    """
    if offset == 0 and limit is None:
        return _text(read_bounded(stream, max_bytes))
    _skip_lines(stream, offset, max_bytes, seconds)
    held = bytearray()
    left = limit
    while left != 0 and (piece := stream.readline(min(CHUNK, max_bytes + 1 - len(held)))):
        held += piece
        _check_length(len(held), max_bytes)
        left = left if left is None else left - piece.endswith(b"\n")
    return _text(held) if offset == 0 else held.decode("utf-8", "replace")


def _skip_lines(stream: BinaryIO, count: int, max_bytes: int, seconds: float) -> None:
    deadline = monotonic() + seconds
    length = 0
    while count and (piece := stream.readline(min(CHUNK, max_bytes + 1 - length))):
        ended = piece.endswith(b"\n")
        length += len(piece) - ended
        _check_length(length, max_bytes)
        if ended:
            count, length = count - 1, 0
        if monotonic() > deadline:
            raise SandboxTimeoutError(f"the lines wanted do not begin within {seconds:g} s of reading")


def _check_length(length: int, max_bytes: int) -> None:
    if length > max_bytes:
        raise ReadLimitError(f"the lines hold more than {max_bytes} bytes", max_bytes)


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
