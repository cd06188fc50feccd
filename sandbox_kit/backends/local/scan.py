"""Walking a directory by descriptors."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator

from sandbox_kit.backends.local.pin import DIRECTORY, NOFOLLOW, Spot
from sandbox_kit.backends.local.system import Descriptor, path_error
from sandbox_kit.errors import PathNotFoundError
from sandbox_kit.paths import display, join
from sandbox_kit.primitives import Authorize, Entry, Operations
from sandbox_kit.types import FileInfo, Skipped

__all__ = ["Scan", "file_info"]

Target = Callable[[Spot, os.stat_result], tuple[str, ...]]


def file_info(name: str, work_dir: str, info: os.stat_result) -> FileInfo:
    """Describe the entry that has the absolute *name*."""
    is_dir = stat.S_ISDIR(info.st_mode)
    path = display(name, work_dir)
    return FileInfo(
        name=path.rpartition("/")[2] or path,
        path=path,
        is_dir=is_dir,
        size=0 if is_dir else info.st_size,
        mtime=info.st_mtime,
        mode=stat.S_IMODE(info.st_mode),
        is_symlink=stat.S_ISLNK(info.st_mode),
    )


class Scan:
    """One walk: for whom it asks, and what a link in it leads to.

    Args:
        work_dir: where shown paths start.
        operations, authorize: as in a primitive.
        target: gives the real name of a link's target; None when nobody asks.
    """

    def __init__(self, work_dir: str, operations: Operations, authorize: Authorize, target: Target | None) -> None:
        self._work_dir = work_dir
        self._operations = operations
        self._authorize = authorize
        self._target = target

    def walk(self, directory: Descriptor, typed: str, real: str, depth: int | None) -> Generator[Entry, None, None]:
        """Yield what is beneath *directory*, parents first; a link is never entered."""
        below = None if depth is None else depth - 1
        with directory:
            for entry in _entries(directory.fd):
                try:
                    info = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                name = join(typed, entry.name)
                place = Spot(directory, real, (entry.name,), info)
                yield file_info(name, self._work_dir, info) if self._allowed(name, place, info) else None
                if stat.S_ISDIR(info.st_mode) and below != 0:
                    yield from self._enter(place, name, below)

    def _allowed(self, typed: str, place: Spot, info: os.stat_result) -> bool:
        if self._target is None:
            return True
        names = tuple(dict.fromkeys((typed, place.real, *self._target(place, info))))
        return all(
            self._authorize(operation, names, identity=place.identity, found=True) for operation in self._operations
        )

    def _enter(self, place: Spot, typed: str, depth: int | None) -> Generator[Entry, None, None]:
        try:
            child = Descriptor(os.open(place.name, DIRECTORY | NOFOLLOW, dir_fd=place.parent.fd))
        except OSError as error:
            reason = path_error(error, typed)
            if not isinstance(reason, PathNotFoundError):
                yield Skipped(display(typed, self._work_dir), str(reason).rpartition(": ")[2])
            return
        yield from self.walk(child, typed, place.real, depth)


def _entries(directory: int) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return sorted(entries, key=_name)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name
