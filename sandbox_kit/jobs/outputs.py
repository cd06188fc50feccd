"""The files that come back from a job's sandbox, through its rules: what they refuse stays there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from attrs import field, frozen

from sandbox_kit.answers import is_answer
from sandbox_kit.calls import Call
from sandbox_kit.contract import Backend
from sandbox_kit.errors import InvalidArgumentError, LimitExceededError, PathError, PathEscapeError
from sandbox_kit.exports import NOT_THIS_ONE
from sandbox_kit.primitives import Operations
from sandbox_kit.rules.globs import compile_walk_glob
from sandbox_kit.streams import CHUNK
from sandbox_kit.types import FileInfo, Skipped

__all__ = ["Brought", "check_patterns", "gather"]

_READ: Operations = ("read",)


_MOST_FILES = 10_000


@frozen
class Brought:
    """What came back; see :class:`JobResult`."""

    artifacts: dict[str, bytes] = field(factory=dict)
    folder: Path | None = None
    skipped: tuple[Skipped, ...] = ()


def check_patterns(patterns: str | Sequence[str]) -> tuple[str, ...]:
    """Return *patterns*, of which there may be one.

    Raises:
        InvalidArgumentError: one is no text, or empty.
        PatternError: one is malformed, climbs, or is absolute.
    """
    found = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    if not all(isinstance(pattern, str) and pattern for pattern in found):
        raise InvalidArgumentError(f"artifacts: {patterns!r} is no sequence of patterns")
    for pattern in found:
        compile_walk_glob(pattern)
    return found


def gather(backend: Backend, patterns: Iterable[str], limit: int, place: Path | None) -> Brought:
    """Bring the regular files that the patterns match.

    Args:
        limit: how many bytes they may have together.
        place: a directory to put them into, made anew, in one step; None brings them as bytes.

    Raises:
        LimitExceededError: they have more, or are more than 10,000.
    """
    files = _found(backend, patterns)
    if len(files) > _MOST_FILES:
        raise LimitExceededError(f"the artifacts are more than {_MOST_FILES} files", _MOST_FILES)
    allowance = _Allowance(limit)
    allowance.check(sum(info.size for info in files))
    if place is None:
        return _as_bytes(backend, files, allowance)
    with _made_anew(place) as fresh:
        skipped = _each(files, lambda info: _save(backend, info, fresh, allowance))
    return Brought(folder=place, skipped=skipped)


def _found(backend: Backend, patterns: Iterable[str]) -> list[FileInfo]:
    """The regular files, each once, sorted by path."""
    met = {info.path: info for pattern in patterns for info in backend.glob(pattern)}
    return [met[path] for path in sorted(met) if not (met[path].is_dir or met[path].is_symlink)]


class _Allowance:
    """How many bytes may still come, whatever the files have grown to by now.

    Args:
        limit: how many, all told.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit

    def check(self, size: int) -> None:
        """Raise LimitExceededError where *size* bytes are more than are left."""
        if size > self._left:
            raise LimitExceededError(f"the artifacts have more than {self._limit} bytes together", self._limit)

    def copy(self, source: BinaryIO, target: BinaryIO) -> None:
        """Copy the rest of *source*; at most one byte over what is left is read.

        Raises:
            LimitExceededError: there is more.
        """
        while chunk := source.read(min(CHUNK, self._left + 1)):
            self.check(len(chunk))
            self._left -= len(chunk)
            target.write(chunk)


def _each(files: Iterable[FileInfo], bring: Callable[[FileInfo], None]) -> tuple[Skipped, ...]:
    """Bring each file; return those that cannot be read, by a rule or otherwise, or are something else by now."""
    skipped = []
    for info in files:
        try:
            bring(info)
        except NOT_THIS_ONE as error:
            if is_answer(error):
                raise
            reason = error.reason if isinstance(error, PathError | PathEscapeError) else str(error)
            skipped.append(Skipped(info.path, reason))
    return tuple(skipped)


def _open(backend: Backend, path: str) -> BinaryIO:
    """Open a regular file that has the name itself: a link in its place is not followed."""
    call = Call()
    (identity,) = backend._resolve((path,), operations=_READ, authorize=call, follow=False)
    return backend._open_read(path, operations=_READ, authorize=call, expect=identity)


def _as_bytes(backend: Backend, files: Iterable[FileInfo], allowance: _Allowance) -> Brought:
    artifacts: dict[str, bytes] = {}

    def read(info: FileInfo) -> None:
        with _open(backend, info.path) as source, BytesIO() as content:
            allowance.copy(source, content)
            artifacts[info.path] = content.getvalue()

    skipped = _each(files, read)
    return Brought(artifacts, None, skipped)


def _save(backend: Backend, info: FileInfo, folder: Path, allowance: _Allowance) -> None:
    target = folder / info.path
    with _open(backend, info.path) as source:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("xb") as copy:
                allowance.copy(source, copy)
        except NOT_THIS_ONE:
            target.unlink()
            raise
    target.chmod(info.mode & 0o777)


@contextmanager
def _made_anew(place: Path) -> Iterator[Path]:
    """A new directory that becomes *place*, instead of the one that is there, when the block has ended well."""
    fresh = place.with_name(f".{place.name}-{uuid4().hex[:12]}")
    fresh.mkdir(parents=True)
    try:
        yield fresh
        if place.exists():
            shutil.rmtree(place)
        fresh.rename(place)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
