"""A zip file as a stream: what :mod:`zipfile` writes, piece by piece, to nothing that can be sought in."""

from __future__ import annotations

import stat
import struct
import time
import zipfile
from collections.abc import Generator, Iterable

from sandbox_kit.errors import ArchiveError, printable

__all__ = ["ZipStream", "check_name"]

_UTF8 = 0x800
_MOST_NAME = 2**16 - 1
_EARLIEST, _LATEST = 315_619_200, 4_354_732_800  # 1980-01-02 and 2107-12-30, in any time zone within what zip can say


class _Info(zipfile.ZipInfo):
    """A member. A name that is no UTF-8 is written as its bytes, without the flag for UTF-8, as Info-ZIP does."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        raw = self.filename.encode("utf-8", "surrogateescape")
        return raw, self.flag_bits | (_UTF8 if not raw.isascii() and _is_utf8(raw) else 0)


class _Sink:
    """What :mod:`zipfile` takes for a file; it holds what is written until that is taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def take(self) -> bytes:
        """Return what was written since the last time."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class _Archive(zipfile.ZipFile):
    """One that is dropped halfway is left so: its end has no reader, and may not be possible."""

    def __del__(self) -> None:
        return


class ZipStream:
    """The pieces of one zip file, in order; :meth:`end` gives the last one."""

    def __init__(self) -> None:
        self._sink = _Sink()
        self._archive = _Archive(self._sink, "w", zipfile.ZIP_DEFLATED)

    def directory(self, name: str, mode: int, mtime: float) -> bytes:
        """Return the whole of a directory; *mode* are its permission bits, *mtime* seconds since the epoch."""
        info = _member(name + "/", stat.S_IFDIR | mode, mtime)
        info.external_attr |= 0x10  # the flag of DOS for a directory
        return b"".join(self._write(info, ()))

    def link(self, name: str, target: str, mtime: float) -> bytes:
        """Return the whole of a symbolic link that holds *target*."""
        content = target.encode("utf-8", "surrogateescape")
        return b"".join(self._write(_member(name, stat.S_IFLNK | 0o777, mtime), (content,)))

    def file(
        self, name: str, mode: int, mtime: float, size: int, content: Iterable[bytes]
    ) -> Generator[bytes, None, None]:
        """Yield a file, compressed while *content* is taken, which holds *size* bytes in all."""
        info = _member(name, stat.S_IFREG | mode, mtime)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.file_size = size
        yield from self._write(info, content)

    def end(self) -> bytes:
        """Return the directory, and where it is."""
        self._archive.close()
        return self._sink.take()

    def _write(self, info: zipfile.ZipInfo, content: Iterable[bytes]) -> Generator[bytes, None, None]:
        with self._archive.open(info, "w") as out:
            for chunk in content:
                out.write(chunk)
                yield self._sink.take()
        yield self._sink.take()


def check_name(name: str) -> None:
    """Raise unless *name*, with the slash at the end of a directory's, fits into a zip file.

    Raises:
        ArchiveError: it is too long.
    """
    length = len(name.encode("utf-8", "surrogateescape"))
    if length > _MOST_NAME:
        raise ArchiveError(f"{printable(name[:80])}...: a name of {length} bytes is too long for a zip file")


def _member(name: str, mode: int, mtime: float) -> zipfile.ZipInfo:
    check_name(name)
    year, month, day, hour, minute, second, *_ = time.localtime(min(max(mtime, _EARLIEST), _LATEST))
    info = _Info(name, (year, month, day, hour, minute, second))
    info.external_attr = mode << 16
    info.extra = _exact_time(mtime)
    return info


def _exact_time(mtime: float) -> bytes:
    """Return the extra field 0x5455 of Info-ZIP; nothing where 32 bits do not hold the time."""
    whole = int(mtime)
    return struct.pack("<2HBl", 0x5455, 5, 1, whole) if -(2**31) <= whole < 2**31 else b""


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
