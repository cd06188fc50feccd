"""What a volume holds, with nothing running: the engine reads it for a container that is never started.

The engine tells of one path at a time what it is, and streams what is beneath one as a tar, whole.
It follows links only within that container, whose image is empty.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import stat
import tarfile
import weakref
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import requests
from attrs import frozen
from docker.errors import NotFound
from docker.types import Mount

from sandbox_kit.backends.docker.engine import Engine, missing_is_fine, translated
from sandbox_kit.backends.docker.ownership import ID, serving_one_call
from sandbox_kit.backends.docker.pulling import look_up
from sandbox_kit.errors import (
    NotRegularFileError,
    PathError,
    PathNotFoundError,
    SandboxConflictError,
    SandboxError,
    SandboxUnavailableError,
    printable,
)
from sandbox_kit.paths import within

__all__ = ["Node", "Volume", "has_volume", "node_of", "sandbox_volumes", "volume_name"]

_log = logging.getLogger("sandbox_kit")

_IMAGE = "sandbox-kit/empty:1"
_LABEL = "sandbox-kit.prepared"
_NO_FILES = bytes(tarfile.RECORDSIZE)
"""A tar without any member."""

_CHUNK = 2**18
_AS_IT_IS = {"Accept-Encoding": "identity"}
"""The engine compresses more slowly than it reads."""

_HEADER = "X-Docker-Container-Path-Stat"

_DIRECTORY, _LINK, _IRREGULAR = 1 << 31, 1 << 27, 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
_SPECIAL_BITS = {1 << 23: stat.S_ISUID, 1 << 22: stat.S_ISGID, 1 << 20: stat.S_ISVTX}
"""Bits of a mode as the engine, which is a Go program, tells it."""


@frozen
class Node:
    """What has a name in a volume.

    Attributes:
        is_regular: whether it is a file that can be read.
        mtime: in seconds since the epoch; in a tar whole ones.
        target: what a link holds; None where that was not told.
        is_linked: whether a tar tells only that it is another name of a file told before, and no size.
    """

    is_dir: bool
    is_link: bool
    is_regular: bool
    size: int
    mode: int
    mtime: float
    target: str | None = None
    is_linked: bool = False


class _Mounted:
    """A container, never started, that has a volume mounted; it is removed with this, at the latest.

    Args:
        volume: one that exists.
        place: where it is mounted.
    """

    def __init__(self, engine: Engine, volume: str, place: str) -> None:
        self._api = engine.api
        self._url = f"{engine.api.base_url}/v{engine.api.api_version}/containers/{_made(engine, volume, place)}"
        self.remove = weakref.finalize(self, _remove, engine, self._url.rpartition("/")[2], os.getpid())

    def ask(self, method: Literal["HEAD", "GET"], name: str) -> requests.Response:
        """Ask the engine for a path, for what it is or for all of it; the answer is to be closed."""
        url = f"{self._url}/archive?path={quote(_raw(name), safe='')}"
        return self._api.request(method, url, headers=_AS_IT_IS, stream=True, timeout=self._api.timeout)


class Volume:
    """One volume, read-only.

    While the engine streams, it answers nothing else about the same container: each stream has one of its own.

    Args:
        name: of a volume that exists.
        place: where it is mounted: absolute and normalised.
    """

    def __init__(self, engine: Engine, name: str, place: str) -> None:
        self.place = place
        self._engine = engine
        self._name = name
        self._looked_at: _Mounted | None = None

    def close(self) -> None:
        """Remove what served to look at paths; streams go on, and another look makes it anew."""
        looked_at, self._looked_at = self._looked_at, None
        if looked_at is not None:
            looked_at.remove()

    def node(self, name: str) -> Node | None:
        """Return what has an absolute *name*; None for nothing. Only its last component may be a link.

        Raises:
            NotRegularFileError: it is a link of a loop, which the engine does not tell of.
            PathError: there can be no such name.
        """
        with translated(), closing(self._looking().ask("HEAD", name)) as answer:
            if answer.ok:
                return _told(json.loads(base64.b64decode(answer.headers[_HEADER])))
            if answer.status_code == requests.codes.not_found:
                return None
        with closing(self.members(name)) as members:  # which says why not
            next(members)
        raise SandboxUnavailableError(f"the Docker engine does not tell what {printable(name)} is")

    def _looking(self) -> _Mounted:
        if self._looked_at is None:
            self._looked_at = _Mounted(self._engine, self._name, self.place)
        return self._looked_at

    def target(self, name: str) -> str:
        """Return what a link holds.

        Raises:
            SandboxConflictError: it is no link any more.
            NotRegularFileError, PathError: as for :meth:`node`.
        """
        is_sent = _told_of(name, self.place) == name
        with closing(self._stream(name, self._looking()) if is_sent else self.members(name)) as members:
            info, _ = next(members)
        if not info.issym():
            raise SandboxConflictError(f"{printable(name)}: replaced while it was being read")
        return info.linkname

    def open(self, name: str) -> BinaryIO:
        """Open a regular file.

        Raises:
            PathNotFoundError: it is gone.
            SandboxConflictError: something else has the name by now.
        """
        members = self.members(name)
        _, content = next(members)
        if content is None:
            members.close()
            raise SandboxConflictError(f"{printable(name)}: replaced while it was being opened")
        return io.BufferedReader(Content(content, members))

    def members(self, name: str) -> Generator[tuple[tarfile.TarInfo, BinaryIO | None], None, None]:
        """Yield what has *name*, then all beneath, parents first and each directory sorted; with a file its content.

        A member's name begins with the last component of *name*. A socket is left out by the engine. Content
        is read before the next member is asked for.

        Raises:
            PathNotFoundError: nothing has the name.
            NotRegularFileError, PathError: as for :meth:`node`.
        """
        top = _told_of(name, self.place)
        is_found = False
        mounted = _Mounted(self._engine, self._name, self.place)
        with ExitStack() as at_end:
            at_end.callback(mounted.remove)
            members = at_end.enter_context(closing(self._stream(top, mounted)))
            for info, content in members:
                rest = f"/{info.name.partition('/')[2]}".rstrip("/")
                if within(top + rest, name):
                    is_found = True
                    info.name = name.rpartition("/")[2] + (top + rest)[len(name) :]
                    yield info, content
        if not is_found:
            raise PathNotFoundError(name)

    def _stream(self, name: str, mounted: _Mounted) -> Generator[tuple[tarfile.TarInfo, BinaryIO | None], None, None]:
        with _reading(name), closing(mounted.ask("GET", name)) as answer:
            _check(answer, name)
            chunks = _Chunks(answer.iter_content(_CHUNK))
            with tarfile.open(
                fileobj=chunks, mode="r|", bufsize=_CHUNK, encoding="utf-8", errors="surrogateescape"
            ) as archive:
                while (info := archive.next()) is not None:
                    _forget_members(archive)
                    content = archive.extractfile(info) if info.isreg() else None
                    yield info, content  # type: ignore[misc]


def _told_of(name: str, place: str) -> str:
    """Return *name*, or the deepest directory above that the engine sends: its names are UTF-8."""
    while name != place and not name.isascii() and "\ufffd" in _raw(name).decode(errors="replace"):
        name = name.rpartition("/")[0]
    return name


def node_of(info: tarfile.TarInfo) -> Node:
    """Return what a tar tells of a member."""
    return Node(
        is_dir=info.isdir(),
        is_link=info.issym(),
        is_regular=info.isreg() or info.islnk(),
        size=0 if info.isdir() else len(_raw(info.linkname)) if info.issym() else info.size,
        mode=stat.S_IMODE(info.mode),
        mtime=float(info.mtime),
        target=info.linkname if info.issym() else None,
        is_linked=info.islnk(),
    )


def _told(told: dict[str, Any]) -> Node:
    mode = int(told["mode"])
    special = sum(bit for told_bit, bit in _SPECIAL_BITS.items() if mode & told_bit)
    is_dir, is_link = bool(mode & _DIRECTORY), bool(mode & _LINK)
    return Node(
        is_dir=is_dir,
        is_link=is_link,
        is_regular=not is_dir and not is_link and not mode & _IRREGULAR,
        size=0 if is_dir else int(told["size"]),
        mode=mode & 0o777 | special,
        mtime=datetime.fromisoformat(told["mtime"]).timestamp(),
    )


class Content(io.RawIOBase):
    """A file of a tar that is being read, as a raw file that ends the reading when it is closed."""

    def __init__(self, content: BinaryIO, members: Generator[Any, None, None] | None = None) -> None:
        self._content = content
        self._members = members

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _reading("a file"):
            data = self._content.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._members is not None:
            self._members.close()
        super().close()


def _forget_members(archive: tarfile.TarFile) -> None:
    """Have a tar that is read once keep no list of what was in it."""
    vars(archive)["members"].clear()


class _Chunks(io.RawIOBase):
    """An iterator of bytes as a raw file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        pieces: list[bytes] = []
        while size and (self._rest or self._refill()):
            piece = self._rest[: size if size >= 0 else None]
            self._rest = self._rest[len(piece) :]
            size -= len(piece) if size >= 0 else 0
            pieces.append(bytes(piece))
        return b"".join(pieces)

    def _refill(self) -> bool:
        self._rest = memoryview(next(self._chunks, b""))
        return bool(self._rest)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Raise this library's error for what breaks off a stream."""
    try:
        with translated():
            yield
    except tarfile.TarError as error:
        raise SandboxUnavailableError(f"the Docker engine's answer about {printable(name)} broke off") from error


def _check(answer: requests.Response, name: str) -> None:
    """Raise what the engine says of a path, without any name of its machine.

    Raises:
        PathNotFoundError: nothing has the name.
        NotRegularFileError: it is a link of a loop.
        PathError: there can be no such name.
        SandboxUnavailableError: the engine could not.
    """
    if answer.ok:
        return
    if answer.status_code == requests.codes.not_found:
        raise PathNotFoundError(name)
    told = answer.text
    if "too many l" in told:
        raise NotRegularFileError(name)
    if "too long" in told:
        raise PathError(name, "file name too long")
    raise SandboxUnavailableError(f"the Docker engine cannot read {printable(name)}")


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _made(engine: Engine, volume: str, place: str) -> str:
    """Make a container, never to be started, that has *volume*; return its id."""
    if look_up(engine, _IMAGE) is None:
        with translated():
            name, _, tag = _IMAGE.partition(":")
            engine.api.import_image_from_data(_NO_FILES, repository=name, tag=tag, changes=[f"LABEL {_LABEL}=empty"])
    mount = Mount(place, volume, type="volume", read_only=True, no_copy=True)
    with translated():
        config = engine.api.create_host_config(mounts=[mount], network_mode="none")
        made = engine.api.create_container(_IMAGE, host_config=config, network_disabled=True, **serving_one_call())
    return str(made["Id"])


def _remove(engine: Engine, container: str, owner: int) -> None:
    """Remove the container; what a forked child drops is its parent's."""
    if os.getpid() != owner:
        return
    try:
        with missing_is_fine():
            engine.api.remove_container(container, force=True)
    except SandboxError as error:
        _log.warning("a container that had a volume mounted could not be removed: %s", error)


def volume_name(sandbox_id: str) -> str:
    """Return the name of the volume that a sandbox of this id makes for itself."""
    return f"sandbox-kit-{sandbox_id}"


def has_volume(engine: Engine, name: str, sandbox_id: str | None = None) -> bool:
    """Whether there is a volume; with *sandbox_id*, one that a sandbox of this id made for itself."""
    with translated():
        try:
            found = engine.api.inspect_volume(name)
        except NotFound:
            return False
    return sandbox_id is None or (found["Labels"] or {}).get(ID) == sandbox_id


def sandbox_volumes(engine: Engine, labels: dict[str, str]) -> list[str]:
    """Return the ids of the sandboxes that have volumes of their own with all of *labels*."""
    wanted = [ID, *(f"{name}={value}" for name, value in labels.items())]
    with translated():
        found = engine.api.volumes(filters={"label": wanted})["Volumes"] or []
    pairs = [(each["Name"], each["Labels"][ID]) for each in found]
    return [sandbox_id for name, sandbox_id in pairs if name == volume_name(sandbox_id)]
