"""Files and trees between a backend and the host: upload, download, export.

A tree is judged whole before its first byte moves. In it, links that stay inside are kept as
links; one that leads outside, and a special file, refuse the tree or are left out of it. Modes are
kept: who may read, write and execute. The library's own memory and open files do not grow with the
depth of a tree.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from sandbox_kit.answers import is_answer, is_final
from sandbox_kit.calls import Call
from sandbox_kit.errors import (
    ArchiveError,
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathExistsError,
    PathNotDirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxConflictError,
    SandboxError,
    UnsupportedError,
    printable,
)
from sandbox_kit.exports import FORMATS, NOT_THIS_ONE, Denied, Export, LeftOut, Member, Source
from sandbox_kit.links import escaping
from sandbox_kit.paths import display, join, named, normalise, relative
from sandbox_kit.primitives import Entry, Operations
from sandbox_kit.streams import CHUNK
from sandbox_kit.types import FileInfo, Identity, Skipped

if TYPE_CHECKING:
    from sandbox_kit.contract import Backend

__all__ = ["download", "export", "upload"]

_READ: Operations = ("read",)
_WRITE: Operations = ("write",)
_OPEN = 0o700
_HOST_ERRORS: dict[type[OSError], type[PathError]] = {
    FileNotFoundError: PathNotFoundError,
    FileExistsError: PathExistsError,
    NotADirectoryError: PathNotDirectoryError,
    PermissionError: PathAccessError,
}


def upload(backend: Backend, local: str | PathLike[str], path: str) -> None:
    """Copy a file or tree of the host to *path*; see :meth:`Backend.upload`."""
    source = _host_path(local)
    with _host_errors():
        mode = source.stat().st_mode
        if stat.S_ISDIR(mode):
            _upload_tree(backend, source, path or ".", stat.S_IMODE(mode))
        elif stat.S_ISREG(mode):
            _upload_file(backend, Call(), source, path, stat.S_IMODE(mode))
        else:
            raise NotRegularFileError(str(source))


def _host_path(local: str | PathLike[str]) -> Path:
    try:
        text = os.fspath(local)
    except TypeError as error:
        raise InvalidArgumentError(f"local: {error}") from error
    if not isinstance(text, str) or "\0" in text:
        raise InvalidArgumentError(f"local: {text!r} is not a text without a NUL")
    return Path(text)


@contextmanager
def _host_errors() -> Iterator[None]:
    """Raise what the host's file system refuses as the error of this library that says the same."""
    try:
        yield
    except OSError as error:
        if isinstance(error, SandboxError) or is_answer(error):
            raise
        raise _HOST_ERRORS.get(type(error), PathError)(str(error.filename or ""), error.strerror) from error


def _upload_file(
    backend: Backend, call: Call, source: Path, path: str, mode: int, expect: Identity | None = None
) -> None:
    with (
        source.open("rb") as stream,
        backend._open_write(path, operations=_WRITE, authorize=call, expect=expect, mode=mode & 0o777) as out,
    ):
        shutil.copyfileobj(stream, out, CHUNK)


def _upload_tree(backend: Backend, source: Path, path: str, mode: int) -> None:
    members = [Member("", True, mode), *_host_members(source)]
    _refuse_escaping_links(members, str(source))
    names = [join(path, member.name) if member.name else path for member in members]
    call = Call()
    if _occupied(backend, call, path, names):
        raise PathExistsError(path)
    if not backend.capabilities.symlinks and any(member.target is not None for member in members):
        raise UnsupportedError(f"{printable(str(source))}: holds symbolic links, and {backend.id} has none")
    made = _Made(backend, call)
    try:
        for name, member in zip(names, members, strict=True):
            _upload_member(backend, call, source, member, made.place(name))
            made.last = name
        _close_directories(backend, call, names, members)
    except BaseException:
        made.remove()
        raise


class _Made:
    """What an upload has made: each is removed again only while it is that.

    Attributes:
        last: the path that was made last, until it is known what it is.
    """

    def __init__(self, backend: Backend, call: Call) -> None:
        self._backend = backend
        self._call = call
        self._known: list[tuple[str, Identity]] = []
        self.last = ""

    def place(self, path: str) -> tuple[str, Identity]:
        """Return *path*, where nothing is, with its identity; what was made last is looked at with it.

        Raises:
            PathExistsError: something is there by now.
        """
        (place,) = self._look(path)
        if place.inode:
            raise PathExistsError(path)
        return path, place

    def _look(self, *paths: str) -> tuple[Identity, ...]:
        """Return the identity of each of *paths*, and know that of the last one made."""
        names = (*paths, self.last) if self.last else paths
        found = self._backend._resolve(names, operations=_WRITE, authorize=self._call, follow=False)
        if self.last:
            self._known.append((self.last, found[-1]))
            self.last = ""
        return found[: len(paths)]

    def remove(self) -> None:
        """Remove all of it, the innermost first; never an error. A directory that something else is in stays."""
        with suppress(Exception):
            if self.last:
                self._look()
        for path, identity in reversed(self._known):
            with suppress(Exception):
                if self._look(path) == (identity,):
                    self._backend._remove(path, operations=_WRITE, authorize=self._call, recursive=False)


def _occupied(backend: Backend, call: Call, path: str, names: list[str]) -> bool:
    """Ask for all of *names*, the first of which is *path*; return whether something is there."""
    try:
        return backend._resolve(names, operations=_WRITE, authorize=call)[0].inode != 0
    except PathNotDirectoryError as error:
        if is_answer(error):
            raise
        return backend._resolve((path,), operations=_WRITE, authorize=call)[0].inode != 0


def _upload_member(backend: Backend, call: Call, source: Path, member: Member, place: tuple[str, Identity]) -> None:
    path, nothing = place
    if member.target is not None:
        backend._symlink(member.target, path, operations=_WRITE, authorize=call)
    elif member.is_dir:
        backend._mkdir(path, operations=_WRITE, authorize=call, mode=member.mode & 0o777 | _OPEN)
    else:
        _upload_file(backend, call, source / member.name, path, member.mode, nothing)


def _close_directories(backend: Backend, call: Call, names: list[str], members: list[Member]) -> None:
    """Give the directories that their owner cannot use their mode, now that what is in them is made."""
    for name, member in zip(reversed(names), reversed(members), strict=True):
        if member.is_dir and member.mode & _OPEN != _OPEN:
            backend._mkdir(name, operations=_WRITE, authorize=call, mode=member.mode & 0o777)


def _host_members(top: Path) -> Iterator[Member]:
    """Yield what is beneath *top*, parents first."""
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(top / prefix) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        members = [_host_member(entry, prefix) for entry in found]
        yield from members
        pending += [member.name + "/" for member in reversed(members) if member.is_dir]


def _host_member(entry: os.DirEntry[str], prefix: str) -> Member:
    info = entry.stat(follow_symlinks=False)
    name, mode = prefix + entry.name, stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return Member(name, False, mode, target=os.readlink(entry.path))
    if stat.S_ISDIR(info.st_mode):
        return Member(name, True, mode)
    if stat.S_ISREG(info.st_mode):
        return Member(name, False, mode, info.st_size)
    raise ArchiveError(f"{printable(entry.path)}: a special file cannot be copied")


def download(backend: Backend, path: str, local: str | PathLike[str], denied: Denied) -> int:
    """Copy a file or tree to the host; see :meth:`Backend.download`."""
    target, path = _host_path(local), path or "."
    call = Call()
    tree = _tree(backend, call, path, denied)
    with _host_errors():
        _refuse_occupied(target, tree is not None)
    with _host_errors(), tempfile.TemporaryDirectory(dir=target.parent, prefix=".sandbox-kit-") as scratch:
        fresh = Path(scratch, "copy")
        if tree is None:
            mode = _real_info(backend, call, path).mode
            _save(backend._open_read(path, operations=_READ, authorize=call), fresh, mode)
            os.replace(fresh, target)
            return 0
        members, count = tree
        left_out = LeftOut(count)
        mode = _real_info(backend, call, path).mode
        _fetch_tree(Source(backend, path, denied, left_out, call), fresh, members)
        fresh.rename(target)
        target.chmod(mode & 0o777)
    return left_out.count


def _fetch_tree(source: Source, fresh: Path, members: list[Member]) -> None:
    """Make the tree, closed to others: its own mode is that of a copy in the making."""
    fresh.mkdir(0o700)
    for member in members:
        _fetch_member(source, fresh, member)
    for member in reversed(members):
        if member.is_dir:
            (fresh / member.name).chmod(member.mode & 0o777)


def _refuse_occupied(target: Path, is_tree: bool) -> None:
    """Refuse what a copy may not replace: a file's only a regular file, or a link to one or to nothing."""
    if not target.parent.is_dir():
        raise PathNotFoundError(str(target.parent))
    if os.path.lexists(target) and (is_tree or (target.exists() and not target.is_file())):
        raise PathExistsError(str(target))


def _fetch_member(source: Source, fresh: Path, member: Member) -> None:
    copy = fresh / member.name
    if member.is_dir:
        copy.mkdir()
    elif member.target is not None:
        copy.symlink_to(member.target)
    elif (stream := source.open(member)) is not None:
        _save(stream, copy, member.mode)


def _save(stream: BinaryIO, copy: Path, mode: int) -> None:
    with stream, copy.open("xb") as out:
        shutil.copyfileobj(stream, out, CHUNK)
    copy.chmod(mode & 0o777)


def _real_info(backend: Backend, call: Call, path: str) -> FileInfo:
    """Describe the file that *path* leads to."""
    (identity,) = backend._resolve((path,), operations=_READ, authorize=call)
    return backend._stat(display(identity.name, backend.work_dir), operations=_READ, authorize=call)


def _tree(backend: Backend, call: Call, path: str, denied: Denied) -> tuple[list[Member], int] | None:
    """Return the members beneath *path*, parents first, and how many a rule hides; None for a file."""
    try:
        entries = backend._scandir(path, operations=_READ, authorize=call, depth=None)
    except PathNotDirectoryError as error:
        if is_final(error):
            raise
        return None
    base = named(path, backend.work_dir, backend._as_given())
    members: list[Member] = []
    left_out = 0
    with closing(entries):
        for entry in entries:
            member = _met(backend, call, path, base, entry, denied)
            if member is None:
                left_out += 1
            else:
                members.append(member)
    if left_out and denied == "error":
        raise PermissionDeniedError(
            "read",
            path,
            message=f"read {printable(path)}: a rule denies some entries; denied='skip' (--skip) omits them",
        )
    kept = members if not left_out else _reachable(members)
    if denied == "error":
        _refuse_escaping_links(kept, path)
        return kept, left_out
    outside = set(_escaping_links(kept))
    return [member for member in kept if member.name not in outside], left_out + len(outside)


def _met(backend: Backend, call: Call, path: str, base: str, entry: Entry, denied: Denied) -> Member | None:
    """Return the member that an entry makes; None for one that is left out."""
    try:
        if isinstance(entry, Skipped):
            raise PathAccessError(entry.path, entry.reason)
        return None if entry is None else _member(backend, call, path, base, entry)
    except NOT_THIS_ONE as error:
        if denied == "error" or is_answer(error):
            raise
        return None


def _member(backend: Backend, call: Call, path: str, base: str, info: FileInfo) -> Member:
    name = relative(normalise(info.path, backend.work_dir), base)
    target = None
    if info.is_symlink:
        try:
            target = backend._readlink(join(path, name), operations=_READ, authorize=call)
        except InvalidArgumentError as error:
            if is_answer(error):
                raise
            raise SandboxConflictError(f"{printable(info.path)}: replaced while the tree was read") from error
    return Member(name, info.is_dir, info.mode, info.size, info.mtime, target)


def _reachable(members: list[Member]) -> list[Member]:
    """Return *members* with the directories that their names pass through, where those are hidden."""
    known = {member.name for member in members}
    complete: list[Member] = []
    for member in members:
        hidden: list[str] = []
        above = member.name.rpartition("/")[0]
        while above and above not in known:
            hidden.append(above)
            above = above.rpartition("/")[0]
        known.update(hidden)
        complete += [Member(name, True, 0o755) for name in reversed(hidden)]
        complete.append(member)
    return complete


def _refuse_escaping_links(members: list[Member], where: str) -> None:
    for name in _escaping_links(members):
        raise ArchiveError(f"{printable(join(where, name))}: a link that leads outside the tree cannot be copied")


def _escaping_links(members: list[Member]) -> list[str]:
    return escaping({member.name: member.target for member in members if member.target is not None})


def export(backend: Backend, path: str, format: str, denied: Denied) -> Export:
    """Return a file or tree as one archive; see :meth:`Backend.export`."""
    framed = FORMATS.get(format) if isinstance(format, str) else None
    if framed is None:
        raise InvalidArgumentError(f"format: {format!r} is neither 'tar' nor 'zip'")
    path, call = path or ".", Call()
    tree = _tree(backend, call, path, denied)
    if tree is not None:
        members, count = tree
        left_out = LeftOut(count)
        return Export(framed(Source(backend, path, denied, left_out, call), members), left_out)
    info = _real_info(backend, call, path)
    member = Member(info.name, False, info.mode, info.size, info.mtime)
    above = str(PurePosixPath(normalise(info.path, backend.work_dir)).parent)
    left_out = LeftOut()
    return Export(framed(Source(backend, above, "error", left_out, call), [member]), left_out)
