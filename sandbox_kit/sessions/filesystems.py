"""Which file systems are mounted where, and which of them hold locks between the processes of one host."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sandbox_kit.errors import UnsupportedError

__all__ = ["check_local", "file_system_of", "mounts_beneath"]

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
    place = os.path.realpath(directory)
    found, kind = "", ""
    for point, type in _mounted(mounts):
        if _beneath(place, point) and len(point) >= len(found):
            found, kind = point, type
    return kind


def mounts_beneath(directory: Path, *, mounts: str = _MOUNTS) -> list[str]:
    """Return where file systems are mounted in *directory*, or on it; none where the system does not tell.

    Args:
        directory: not followed if it is a link.
    """
    place = os.path.join(os.path.realpath(directory.parent), directory.name)
    return [point for point, _ in _mounted(mounts) if _beneath(point, place)]


def _mounted(mounts: str) -> Iterator[tuple[str, str]]:
    """Yield each mount point and the type of its file system, the latest last."""
    try:
        lines = Path(mounts).read_text("utf-8", "surrogateescape").split("\n")
    except OSError:
        return
    for line in lines:
        mount, separator, rest = line.partition(" - ")
        if separator:
            yield _ESCAPE.sub(lambda match: chr(int(match[1], 8)), mount.split()[4]), rest.split()[0]


def _beneath(place: str, point: str) -> bool:
    return place == point or place.startswith(point.rstrip("/") + "/")
