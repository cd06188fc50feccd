"""The files that come back from a job's sandbox, through its rules: what they refuse stays there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from attrs import field, frozen

from sandbox_kit.contract import Backend
from sandbox_kit.errors import InvalidArgumentError, LimitExceededError, PathError, PermissionDeniedError
from sandbox_kit.streams import read_bounded
from sandbox_kit.types import FileInfo, Skipped

__all__ = ["Brought", "check_patterns", "gather"]


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
    """
    found = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    if not all(isinstance(pattern, str) and pattern for pattern in found):
        raise InvalidArgumentError(f"artifacts: {patterns!r} is no sequence of patterns")
    return found


def gather(backend: Backend, patterns: Iterable[str], limit: int, place: Path | None) -> Brought:
    """Bring the regular files that the patterns match.

    Args:
        limit: how many bytes they may have together.
        place: a directory to put them into, made anew, in one step; None brings them as bytes.

    Raises:
        LimitExceededError: they have more.
    """
    files = _found(backend, patterns)
    if sum(info.size for info in files) > limit:
        raise LimitExceededError(f"the artifacts have more than {limit} bytes together", limit)
    if place is None:
        return _as_bytes(backend, files, limit)
    with _made_anew(place) as fresh:
        skipped = _each(files, lambda path: _save(backend, path, fresh))
    return Brought(folder=place, skipped=skipped)


def _found(backend: Backend, patterns: Iterable[str]) -> list[FileInfo]:
    """The regular files, each once, sorted by path."""
    met = {info.path: info for pattern in patterns for info in backend.glob(pattern)}
    return [met[path] for path in sorted(met) if not (met[path].is_dir or met[path].is_symlink)]


def _each(files: Iterable[FileInfo], bring: Callable[[str], None]) -> tuple[Skipped, ...]:
    """Bring each file; return those that cannot be read, by a rule or otherwise."""
    skipped = []
    for info in files:
        try:
            bring(info.path)
        except (PermissionDeniedError, PathError) as error:
            skipped.append(Skipped(info.path, error.reason if isinstance(error, PathError) else str(error)))
    return tuple(skipped)


def _as_bytes(backend: Backend, files: Iterable[FileInfo], limit: int) -> Brought:
    artifacts: dict[str, bytes] = {}
    left = limit

    def read(path: str) -> None:
        nonlocal left
        with backend.open_read(path) as stream:
            artifacts[path] = read_bounded(stream, left)
        left -= len(artifacts[path])

    skipped = _each(files, read)
    return Brought(artifacts, None, skipped)


def _save(backend: Backend, path: str, folder: Path) -> None:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    backend.download(path, target)


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
