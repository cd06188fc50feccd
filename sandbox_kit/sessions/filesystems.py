"""Which file systems are mounted where, and which of them hold locks between the processes of one host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from attrs import frozen

from sandbox_kit.errors import UnsupportedError

__all__ = ["Location", "check_local", "file_system_of", "location_of", "mounts_beneath"]

_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = re.compile(r"\\([0-7]{3})")

_NOT_LOCAL = {
    "9p": "a share of another machine's files",
    "afs": "a network file system",
    "ceph": "a network file system",
    "cifs": "a network file system",
    "fuse.gcsfuse": "an object store",
    "fuse.glusterfs": "a network file system",
    "fuse.rclone": "an object store",
    "fuse.s3fs": "an object store",
    "fuse.sshfs": "a network file system",
    "lustre": "a network file system",
    "ncpfs": "a network file system",
    "nfs": "a network file system",
    "nfs4": "a network file system",
    "prl_fs": "a share of another machine's files",
    "smb3": "a network file system",
    "smbfs": "a network file system",
    "vboxsf": "a share of another machine's files",
}


@frozen
class _Mount:
    """One mount.

    Attributes:
        point: where it is.
        device: of the file system, as ``"major:minor"``.
        root: the directory of the file system that is mounted.
        type: of the file system.
    """

    point: str
    device: str
    root: str
    type: str


@frozen
class Location:
    """Where a file is, however many mounts lead to it.

    Attributes:
        device: of its file system, as ``"major:minor"``.
        name: its name there, absolute.
    """

    device: str
    name: PurePosixPath

    def beneath(self, other: Location) -> tuple[str, ...] | None:
        """Return the components of its name beneath another location; None where it is not beneath it."""
        inside = self.device == other.device and self.name.is_relative_to(other.name)
        return self.name.relative_to(other.name).parts if inside else None


def check_local(directory: Path, *, mounts: str = _MOUNTS) -> None:
    """Check that locks taken in *directory* hold.

    Args:
        directory: one that exists.
        mounts: what lists the mounts of this process, in the form of ``/proc/self/mountinfo``.

    Raises:
        UnsupportedError: it lies on a file system known not to hold them; names it.
    """
    kind = file_system_of(directory, mounts=mounts)
    if kind in _NOT_LOCAL:
        raise UnsupportedError(f"{directory} is on {kind}, {_NOT_LOCAL[kind]}: sessions need a local file system")


def file_system_of(directory: Path, *, mounts: str = _MOUNTS) -> str:
    """Return the type of the file system that *directory* is on; empty where the system does not tell."""
    mount = _mount_of(os.path.realpath(directory), mounts)
    return "" if mount is None else mount.type


def location_of(path: Path, *, mounts: str = _MOUNTS) -> Location | None:
    """Return where *path*, itself not followed if it is a link, is; None where the system does not tell."""
    place = os.path.join(os.path.realpath(path.parent), path.name)
    mount = _mount_of(place, mounts)
    if mount is None:
        return None
    return Location(mount.device, PurePosixPath(mount.root, PurePosixPath(place).relative_to(mount.point)))


def _mount_of(place: str, mounts: str) -> _Mount | None:
    """The innermost mount that a real name is on, of several at one point the latest."""
    found = None
    for mount in _mounted(mounts):
        if _beneath(place, mount.point) and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def mounts_beneath(directory: Path, *, mounts: str = _MOUNTS) -> list[str]:
    """Return where file systems are mounted in *directory*, or on it; none where the system does not tell.

    Args:
        directory: not followed if it is a link.
    """
    place = os.path.join(os.path.realpath(directory.parent), directory.name)
    return [mount.point for mount in _mounted(mounts) if _beneath(mount.point, place)]


def _mounted(mounts: str) -> Iterator[_Mount]:
    """Yield each mount, the latest last."""
    try:
        lines = Path(mounts).read_text("utf-8", "surrogateescape").split("\n")
    except OSError:
        return
    for line in lines:
        mount, separator, rest = line.partition(" - ")
        if separator:
            _, _, device, root, point, *_ = mount.split()
            yield _Mount(_unescaped(point), device, _unescaped(root), rest.split()[0])


def _unescaped(name: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), name)


def _beneath(place: str, point: str) -> bool:
    return place == point or place.startswith(point.rstrip("/") + "/")
