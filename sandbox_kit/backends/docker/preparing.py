"""The image that a sandbox runs: the caller's, with a shell that nobody can look into, and the work directory."""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen
from docker.errors import APIError, NotFound

from sandbox_kit.backends.docker.engine import Engine, missing_is_fine, translated
from sandbox_kit.backends.docker.ownership import HELPER, serving_one_call
from sandbox_kit.backends.docker.pulling import describe, look_up
from sandbox_kit.backends.docker.shellcopy import PLACE, ShellCopy, copy_shell
from sandbox_kit.errors import InvalidArgumentError, RemoteProtocolError, SandboxUnavailableError

__all__ = ["Prepared", "prepare"]

_VERSION = "2"
_REPOSITORY = "sandbox-kit/prepared"
_LABEL = "sandbox-kit.prepared"
_MAX_LINKS = 40
_MAX_BYTES = 64 * 2**20
"""The most that a shell, or a list of users, may hold."""


@frozen
class Prepared:
    """An image that is ready for containers.

    Attributes:
        image: its id.
        user: whom commands run as, ``"uid:gid"``.
        env: the variables that the image sets.
        shell: what starts the copy of its ``/bin/sh``; empty where it has none.
        closed: whether no command of root's can change what that shell runs.
    """

    image: str
    user: str
    env: dict[str, str]
    shell: tuple[str, ...]
    closed: bool


def prepare(engine: Engine, image: str, *, user: str | None, work_dir: str) -> Prepared:
    """Make the image that containers run, once for each image, user and work directory.

    Args:
        image: a name, tag or id; pulled where the engine does not have it.
        user: a name or uid, a group may follow after ``:``; None is the image's own.
        work_dir: made there, for the user, unless the image has it.

    Raises:
        SandboxUnavailableError: there is no such image.
        InvalidArgumentError: it knows no such user.
    """
    told = describe(engine, image)
    config = told["Config"] or {}
    wanted = user if user is not None else config.get("User") or "0:0"
    key = hashlib.sha256("\0".join((_VERSION, told["Id"], wanted, work_dir)).encode()).hexdigest()[:32]
    tag = f"{_REPOSITORY}:{key}"
    found = look_up(engine, tag) or _make(engine, told["Id"], tag, wanted, work_dir)
    labels = found["Config"]["Labels"]
    return Prepared(
        image=found["Id"],
        user=labels[f"{_LABEL}.user"],
        env=dict(entry.split("=", 1) for entry in config.get("Env") or ()),
        shell=tuple(labels[f"{_LABEL}.shell"].split()),
        closed=labels[f"{_LABEL}.closed"] == "yes",
    )


def _make(engine: Engine, image: str, tag: str, user: str, work_dir: str) -> dict[str, Any]:
    with _container(engine, image) as container:
        files = _Files(engine, container)
        copy = copy_shell(files.read)
        numeric = _numeric(files, user)
        files.add(_additions(copy, numeric, None if files.has(work_dir) else work_dir))
        labels = {
            _LABEL: _VERSION,
            HELPER: "",
            f"{_LABEL}.user": numeric,
            f"{_LABEL}.shell": " ".join(copy.argv) if copy else "",
            f"{_LABEL}.closed": "yes" if copy and copy.closed else "no",
        }
        with translated():
            name, _, version = tag.partition(":")
            changes = [f'LABEL "{label}"="{value}"' for label, value in labels.items()]
            engine.api.commit(container, repository=name, tag=version, changes=changes)
    found = look_up(engine, tag)
    if found is None:
        raise SandboxUnavailableError(f"the image that was prepared is gone: {tag}")
    return found


@contextmanager
def _container(engine: Engine, image: str) -> Iterator[str]:
    """A container that is never started, to look into an image and to add to it."""
    with translated():
        made = engine.api.create_container(image, **serving_one_call({_LABEL: "making"}))["Id"]
    try:
        yield made
    finally:
        with missing_is_fine():
            engine.api.remove_container(made, v=True, force=True)


class _Files:
    """The files of a container, running or not, through the engine."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._api = engine.api
        self._container = container

    def has(self, path: str) -> bool:
        return self._fetch(path) is not None

    def read(self, path: str) -> bytes | None:
        """A regular file's bytes, links followed; None where there is none.

        Raises:
            RemoteProtocolError: it is larger than any shell.
        """
        for _ in range(_MAX_LINKS):
            member = self._fetch(path)
            if member is None:
                return None
            info, data = member
            if not info.issym():
                return data if info.isreg() else None
            path = posixpath.join(posixpath.dirname(path), info.linkname)
        return None

    def _fetch(self, path: str) -> tuple[tarfile.TarInfo, bytes] | None:
        """The entry of *path* itself, and what it holds if it is a file."""
        with translated():
            try:
                stream, _ = self._api.get_archive(self._container, path)
            except NotFound:
                return None
            with tarfile.open(fileobj=_Chunks(stream), mode="r|") as archive:
                info = archive.next()
                if info is None:
                    return None
                content = archive.extractfile(info) if info.isreg() else None
                data = content.read(_MAX_BYTES + 1) if content is not None else b""
        if len(data) > _MAX_BYTES:
            raise RemoteProtocolError(f"{path} of the image holds more than {_MAX_BYTES} bytes")
        return info, data

    def add(self, archive: bytes) -> None:
        with translated():
            if not self._api.put_archive(self._container, "/", archive):
                raise APIError("the archive was not taken")


class _Chunks(io.RawIOBase):
    """An iterator of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        pieces = [self._rest]
        have = len(self._rest)
        while size is None or size < 0 or have < size:
            piece = next(self._chunks, None)
            if piece is None:
                break
            pieces.append(piece)
            have += len(piece)
        data = b"".join(pieces)
        cut = len(data) if size is None or size < 0 else size
        self._rest = data[cut:]
        return data[:cut]


def _numeric(files: _Files, user: str) -> str:
    """*user* as ``"uid:gid"``, by the image's own lists."""
    name, _, group = user.partition(":")
    users = _table(files.read("/etc/passwd"))
    entry = next((row for row in users if name in (row[0], row[2])), None)
    if entry is None and not name.isdecimal():
        raise InvalidArgumentError(f"user: the image has no user {name!r}")
    uid = entry[2] if entry else name
    if not group:
        return f"{uid}:{entry[3] if entry and len(entry) > 3 else uid}"
    if group.isdecimal():
        return f"{uid}:{group}"
    gid = next((row[2] for row in _table(files.read("/etc/group")) if row[0] == group), None)
    if gid is None:
        raise InvalidArgumentError(f"user: the image has no group {group!r}")
    return f"{uid}:{gid}"


def _table(data: bytes | None) -> list[list[str]]:
    rows = [line.split(":") for line in (data or b"").decode("utf-8", "surrogateescape").splitlines()]
    return [row for row in rows if len(row) >= 3 and row[2].isdecimal()]


def _additions(copy: ShellCopy | None, user: str, work_dir: str | None) -> bytes:
    """The archive of what is added to the image."""
    uid, _, gid = user.partition(":")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for directory in (PLACE, f"{PLACE}/lib"):
            _add(archive, directory, 0o755, directory=True)
        for name, (data, mode) in (copy.files if copy else {}).items():
            _add(archive, name, mode, data=data)
        if work_dir is not None:
            _add(archive, work_dir, 0o2775, directory=True, owner=(int(uid), int(gid)))
    return packed.getvalue()


def _add(
    archive: tarfile.TarFile,
    path: str,
    mode: int,
    *,
    directory: bool = False,
    data: bytes = b"",
    owner: tuple[int, int] = (0, 0),
) -> None:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.type = tarfile.DIRTYPE if directory else tarfile.REGTYPE
    info.mode, info.size = mode, len(data)
    info.uid, info.gid = owner
    archive.addfile(info, io.BytesIO(data))
