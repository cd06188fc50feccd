"""Where a path leads in the sandbox: what its shell tells of one place, taken apart."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence

from attrs import frozen

from sandbox_kit.errors import (
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathNotDirectoryError,
    PathNotFoundError,
    SandboxConflictError,
    SandboxError,
    printable,
)
from sandbox_kit.paths import display, join, normalise, parts
from sandbox_kit.types import FileInfo, Identity

__all__ = ["Spot", "Stat", "apart", "call", "check_length", "parse_spot", "parse_stat"]

_NAME_MAX = 255
_PATH_MAX = 4096

_FAULTS: dict[str, type[PathError]] = {"n": PathNotFoundError, "d": PathNotDirectoryError, "a": PathAccessError}


@frozen
class Stat:
    """An entry itself.

    Attributes:
        device, inode: which one.
        mode: its kind and permission bits.
        links: how many names it has.
        size: in bytes.
        mtime: in seconds since the epoch.
        born: when it was made, which tells it from an earlier one of that inode; empty where that is not known.
    """

    device: int
    inode: int
    mode: int
    links: int
    size: int
    mtime: float
    born: str = ""

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_regular(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    def is_same(self, other: Stat | Identity) -> bool:
        """Whether it is the same object."""
        return (self.device, self.inode) == (other.device, other.inode)

    def describe(self, name: str, work_dir: str) -> FileInfo:
        """Return the public record of what has the absolute *name*."""
        path = display(name, work_dir)
        return FileInfo(
            path.rpartition("/")[2] or path,
            path,
            self.is_dir,
            0 if self.is_dir else self.size,
            self.mtime,
            stat.S_IMODE(self.mode),
            self.is_link,
        )


@frozen
class Spot:
    """One place: a name in a directory.

    Attributes:
        parent: the real name of the deepest directory on the way.
        rest: what comes beneath it: one name, or more where parents are missing; none for the root.
        stat: what is there; None for nothing.
        hops: real names of the links on the way, and of what each ``..`` left.
        fault: why the way ends at *parent*, one letter; empty where it does not.
        own: whether what is there belongs to the user and group of the shell.
        writable: whether entries can be made in *parent*.
        text: what the link holds that is there; None where it was not asked for.
        leads: where that link leads.
    """

    parent: str
    rest: tuple[str, ...]
    stat: Stat | None = None
    hops: tuple[str, ...] = ()
    fault: str = ""
    own: bool = False
    writable: bool = False
    text: str | None = None
    leads: Spot | None = None

    @property
    def name(self) -> str:
        """The last component; ``.`` for the root."""
        return self.rest[-1] if self.rest else "."

    @property
    def real(self) -> str:
        """The real name, or the one that it would have."""
        return normalise(join(self.parent, "/".join(self.rest))) if self.rest else self.parent

    @property
    def identity(self) -> Identity:
        """Which object it is; device 0 and inode 0 for nothing yet."""
        if self.stat is None:
            return Identity(self.real, 0, 0)
        return Identity(self.real, self.stat.device, self.stat.inode)

    def error(self, path: str) -> SandboxError:
        """Return what a fault says of *path*, as typed."""
        if self.fault == "l":
            return NotRegularFileError(path, "too many symbolic links, or a loop of them")
        kind = _FAULTS.get(self.fault)
        if kind is None:
            return SandboxConflictError(f"{printable(path)}: replaced while it was looked up")
        return kind(path)


def parse_stat(line: str) -> Stat | None:
    """Return what ``stat`` printed by the prelude's format; None where it found nothing."""
    fields = line.split()
    if len(fields) not in (6, 7):
        return None
    device, inode, mode, links, size, mtime, *born = fields
    return Stat(int(device), int(inode), int(mode, 16), int(links), int(size), float(mtime), *born)


def parse_spot(records: Sequence[str]) -> Spot:
    """Return the place that a reply tells of.

    Raises:
        SandboxConflictError: it tells of none.
    """
    cut = records.index("t") if "t" in records else len(records)
    leads = parse_spot(records[cut + 1 :]) if cut < len(records) else None
    told: dict[str, str] = {}
    hops: list[str] = []
    for record in records[:cut]:
        if record[:1] == "h":
            hops.append(record[1:])
        else:
            told[record[:1]] = record[1:]
    if "p" not in told:
        raise SandboxConflictError("the shell in the sandbox did not tell where a path leads")
    below = told.get("n", ".")
    rest = [*([below] if below != "." else []), *parts(told.get("m", ""))]
    return Spot(
        told["p"],
        tuple(rest),
        parse_stat(told.get("s", "")),
        tuple(hops),
        told.get("e", ""),
        "o" in told,
        "w" in told,
        told.get("l"),
        leads,
    )


def apart(records: Sequence[str]) -> list[Sequence[str]]:
    """Return the answers of a reply that holds several."""
    ends = [place for place, record in enumerate(records) if record == "z"]
    return [records[begin:end] for begin, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)]


def check_length(name: str, path: str) -> None:
    """Refuse an absolute name that no file can have.

    Raises:
        PathError: it has more than 4,095 bytes, or a component more than 255.
    """
    if len(name) <= _NAME_MAX // 4:
        return
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) >= _PATH_MAX or any(len(part) > _NAME_MAX for part in raw.split(b"/")):
        raise PathError(path, "file name too long")


def call(function: str, *arguments: str | int) -> str:
    """Return the script that calls one of the prelude's functions."""
    return " ".join([function, *(shlex.quote(str(argument)) for argument in arguments)])
