"""Walking a directory by descriptors."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator

from attrs import frozen

from sandbox_kit.host.pin import Spot
from sandbox_kit.host.system import Descriptor, path_error, told_of
from sandbox_kit.host.trail import Trail
from sandbox_kit.host.unfinished import is_unfinished
from sandbox_kit.paths import display, join
from sandbox_kit.primitives import Authorize, Entry, Operations
from sandbox_kit.types import FileInfo, Operation, Skipped

__all__ = ["NOWHERE", "Leads", "Scan", "file_info"]


@frozen
class Leads:
    """Where a link leads.

    Attributes:
        hops: real names of the links on the way, itself included, and of what each ``..`` leaves.
        names: real names of what it leads to.
    """

    hops: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


NOWHERE = Leads()
Target = Callable[[Spot, os.stat_result], Leads]


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


@frozen
class _Level:
    """One directory of a walk.

    Attributes:
        path: beneath the start of the walk; empty for the start itself.
        typed: its name as typed, absolute.
        real: its real name.
        depth: how many levels to read from here on; None for all.
        shown: whether it may be named.
    """

    path: str
    typed: str
    real: str
    depth: int | None
    shown: bool = True

    def below(self, name: str, shown: bool) -> _Level:
        path = join(self.path, name) if self.path else name
        depth = None if self.depth is None else self.depth - 1
        return _Level(path, join(self.typed, name), join(self.real, name), depth, shown)


class Scan:
    """One walk: for whom it asks, and what a link in it leads to.

    Args:
        work_dir: where shown paths start.
        operations, authorize: as in a primitive.
        target: tells where a link leads, and of another entry that it leads nowhere; None when nobody asks.
    """

    def __init__(self, work_dir: str, operations: Operations, authorize: Authorize, target: Target | None) -> None:
        self._work_dir = work_dir
        self._operations = operations
        self._authorize = authorize
        self._target = target

    def walk(self, directory: Descriptor, typed: str, real: str, depth: int | None) -> Generator[Entry, None, None]:
        """Yield what is beneath *directory*, parents first; a link is never entered.

        Few directories are open at a time, however deep the tree is, and none is entered through a link.
        """
        pending, trail = [_Level("", typed, real, depth)], Trail(directory)
        with directory:
            while pending:
                here = pending.pop()
                below: list[_Level] = []
                try:
                    at = trail.enter(here.path)
                    entries = _entries(at)
                except OSError as error:
                    yield from self._closed(here, error)
                    continue
                for name in entries:
                    yield from self._entry(here, at, name, below)
                pending += reversed(below)

    def _entry(self, here: _Level, at: Descriptor, name: str, below: list[_Level]) -> Generator[Entry, None, None]:
        """Yield the entry *name* of the directory *at*, and note it in *below* when it is to be read itself."""
        typed = join(here.typed, name)
        try:
            info = os.stat(name, dir_fd=at.fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            shown = self._allowed(typed, Spot(at, here.real, (name,), None))
            yield self._skipped(typed, error) if shown else None
            return
        shown = self._allowed(typed, Spot(at, here.real, (name,), info))
        yield file_info(typed, self._work_dir, info) if shown else None
        if stat.S_ISDIR(info.st_mode) and here.depth != 1:
            below.append(here.below(name, shown))

    def _allowed(self, typed: str, place: Spot) -> bool:
        if self._target is None:
            return True
        leads = NOWHERE if place.info is None else self._target(place, place.info)
        names = tuple(dict.fromkeys((typed, place.real, *leads.names)))
        return all(self._may(operation, names, place, leads.hops) for operation in self._operations)

    def _may(self, operation: Operation, names: tuple[str, ...], place: Spot, hops: tuple[str, ...]) -> bool:
        passed = all(self._authorize(operation, (hop,), found=True, hop=True) for hop in hops)
        return passed and self._authorize(operation, names, identity=place.identity, found=True)

    def _closed(self, here: _Level, error: OSError) -> Generator[Entry, None, None]:
        """Tell of a directory that cannot be read: the start refuses the walk, one that went is left out."""
        if not here.path:
            with told_of(display(here.typed, self._work_dir)):
                raise error
        if here.shown and not isinstance(error, FileNotFoundError):
            yield self._skipped(here.typed, error)

    def _skipped(self, typed: str, error: OSError) -> Skipped:
        return Skipped(display(typed, self._work_dir), path_error(error, typed).reason)


def _entries(directory: Descriptor) -> list[str]:
    with os.scandir(directory.fd) as entries:
        return sorted(entry.name for entry in entries if not is_unfinished(entry.name))
