"""The records that operations return and accept: frozen, picklable; a notebook shows them as HTML.

Times are float seconds, sizes are bytes. Paths are those of the sandbox's own file system.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, Literal, NoReturn

from attrs import Attribute, Factory, field, frozen

from sandbox_kit.errors import CommandFailedError, InvalidArgumentError

__all__ = [
    "Action",
    "Capabilities",
    "CommandResult",
    "EditResult",
    "FileInfo",
    "GrepMatch",
    "Identity",
    "Limits",
    "Listing",
    "Operation",
    "Skipped",
    "Usage",
    "Verdict",
    "parse_size",
]

Action = Literal["allow", "ask", "deny"]
Operation = Literal["read", "write", "edit", "execute", "ls", "glob", "grep"]


@frozen
class FileInfo:
    """One entry of a directory.

    A symbolic link is described itself, not what it leads to.

    Attributes:
        name: the last component of *path*.
        path: relative to the work directory when inside it, else absolute; reads back as it stands.
        is_dir: whether it is a directory (never so for a link).
        size: in bytes; 0 for a directory.
        mtime: the time of the last change of its content, in seconds since the epoch.
        mode: the permission bits, such as ``0o644``.
        is_symlink: whether it is a symbolic link.
    """

    name: str
    path: str
    is_dir: bool
    size: int
    mtime: float
    mode: int
    is_symlink: bool = False

    def _repr_html_(self) -> str:
        from sandbox_kit.html import records

        return records.files([self])


@frozen
class Skipped:
    """Something that a walk met and could not look at.

    Attributes:
        path: as in :class:`FileInfo`.
        reason: one phrase, such as ``"permission denied by the file system"``.
    """

    path: str
    reason: str


class Listing(list[FileInfo]):
    """A list of :class:`FileInfo` sorted by path, and what could not be looked at.

    Attributes:
        skipped: entries whose content is missing from the list. What a rule hides is not among them.
    """

    def __init__(self, entries: Iterable[FileInfo] = (), skipped: Iterable[Skipped] = ()) -> None:
        super().__init__(entries)
        self.skipped = tuple(skipped)

    def _repr_html_(self) -> str:
        from sandbox_kit.html import records

        return records.files(self, self.skipped)


@frozen
class GrepMatch:
    """One line that matched.

    Attributes:
        path: as in :class:`FileInfo`.
        line_number: 1-based.
        line: the line without its end (``\\n`` or ``\\r\\n``); undecodable bytes as U+FFFD.
        before: the context lines before it, oldest first.
        after: the context lines after it.
        binary: whether the line holds a NUL byte: *line* is then empty, and it is the file's last match.
    """

    path: str
    line_number: int
    line: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    binary: bool = False

    def _repr_html_(self) -> str:
        from sandbox_kit.html import records

        return records.matches([self])


@frozen
class EditResult:
    """What an edit did.

    Attributes:
        path: as in :class:`FileInfo`.
        replacements: how many occurrences were replaced; at least 1.
    """

    path: str
    replacements: int

    def _repr_html_(self) -> str:
        from sandbox_kit.html import records

        return records.edit_result(self)


def _stdout(result: CommandResult) -> bytes:
    return result.stdout.encode()


def _stderr(result: CommandResult) -> bytes:
    return result.stderr.encode()


@frozen
class CommandResult:
    """What a command printed and how it ended.

    Attributes:
        exit_code: None only in the partial result that an error carries; 128 + N after signal N.
        stdout: decoded as UTF-8, undecodable bytes as U+FFFD.
        stderr: the same.
        output: both streams in order of arrival.
        truncated: whether output over the limit was cut off at its end.
        duration: in seconds.
        stdout_bytes: the bytes that *stdout* was decoded from.
        stderr_bytes: the bytes that *stderr* was decoded from.
    """

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    output: str = ""
    truncated: bool = False
    duration: float = 0.0
    stdout_bytes: bytes = field(default=Factory(_stdout, takes_self=True), repr=False)
    stderr_bytes: bytes = field(default=Factory(_stderr, takes_self=True), repr=False)

    @property
    def ok(self) -> bool:
        """Whether the command ended, with exit code 0."""
        return self.exit_code == 0

    def check(self) -> CommandResult:
        """Return the result itself.

        Raises:
            CommandFailedError: the exit code is not 0.
        """
        if not self.ok:
            raise CommandFailedError(self)
        return self

    def __bool__(self) -> NoReturn:
        raise TypeError("a CommandResult has no truth value: use .ok")

    def _repr_html_(self) -> str:
        from sandbox_kit.html import records

        return records.command_result(self)


@frozen
class Verdict:
    """What a ruleset says of one operation on one target.

    Attributes:
        action: ``"allow"``, ``"ask"`` or ``"deny"``.
        operation: the operation that was judged.
        rule: the rule that decided, such as ``"deny **/.env"``; None for a default.
        name: the name of the target that the rule matched.
    """

    action: Action
    operation: str
    rule: str | None
    name: str

    def _repr_html_(self) -> str:
        from sandbox_kit.html import records

        return records.verdict(self)


@frozen
class Usage:
    """What a sandbox uses now; None where the backend cannot tell.

    Attributes:
        memory: in bytes.
        cpu_seconds: of all its processes together, since they started.
        pids: the number of its processes.
    """

    memory: int | None = None
    cpu_seconds: float | None = None
    pids: int | None = None


@frozen
class Identity:
    """Which object a judged name leads to: what is opened later must be the same.

    Attributes:
        name: the real name; for something not made yet, the real parent and the rest.
        device: of the object; 0 for something not made yet.
        inode: of the same.
    """

    name: str
    device: int
    inode: int


_SIZE = re.compile(r"\s*([0-9]{1,18})(?:\.([0-9]{1,64}))?\s*([kmgt]?)i?b?\s*", re.ASCII | re.IGNORECASE)
_UNIT = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_size(value: int | str, name: str = "size") -> int:
    """Return *value* in bytes; ``"512m"`` is 512 * 2**20.

    Args:
        value: bytes, or a number with one of the units b, k, m, g, t (powers of 1024); exact, and rounded down.
        name: what to call it in an error.

    Raises:
        InvalidArgumentError: it is no such size, not positive, or more than the machine can count.
    """
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        size = _scaled(match[1], match[2] or "", _UNIT[match[3].lower()]) if match else 0
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        size = 0
    if not 0 < size <= sys.maxsize:
        raise InvalidArgumentError(f"{name}: {value!r} is not a positive size in bytes, such as 1048576 or '512m'")
    return size


def _scaled(whole: str, fraction: str, unit: int) -> int:
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * unit // scale


def _mem(value: int | str | None) -> int | None:
    return None if value is None else parse_size(value, "mem_limit")


def _memswap(value: int | str | None) -> int | None:
    return None if value is None else parse_size(value, "memswap_limit")


def _tmpfs(value: int | str | None) -> int | None:
    return None if value is None else parse_size(value, "tmpfs_size")


def _positive(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, attribute.metadata["kinds"]):
        raise InvalidArgumentError(f"{attribute.name}: {value!r} is not a number of the right kind")
    if not 0 < value <= sys.maxsize:
        raise InvalidArgumentError(f"{attribute.name}: {value!r} is not a positive number")


@frozen
class Limits:
    """Ceilings on what a sandbox may use; None sets none.

    Attributes:
        mem_limit: memory, in bytes or as ``"512m"``.
        memswap_limit: memory and swap together, in bytes or as ``"1g"``; at least *mem_limit*.
        cpus: processors, such as 1.5.
        cpu_shares: relative weight.
        pids_limit: the number of processes and threads.
        tmpfs_size: of the temporary file system, in bytes or as ``"64m"``.

    Raises:
        InvalidArgumentError: a value is no size, not positive, or swap is under memory.
    """

    mem_limit: int | None = field(default=None, converter=_mem)
    memswap_limit: int | None = field(default=None, converter=_memswap)
    cpus: float | None = field(default=None, validator=_positive, metadata={"kinds": (int, float)})
    cpu_shares: int | None = field(default=None, validator=_positive, metadata={"kinds": (int,)})
    pids_limit: int | None = field(default=None, validator=_positive, metadata={"kinds": (int,)})
    tmpfs_size: int | None = field(default=None, converter=_tmpfs)

    def __attrs_post_init__(self) -> None:
        if self.memswap_limit is None:
            return
        if self.mem_limit is None or self.memswap_limit < self.mem_limit:
            raise InvalidArgumentError("memswap_limit counts memory and swap together: it needs a mem_limit under it")


@frozen
class Capabilities:
    """What a backend can hold.

    Attributes:
        commands: ``"confined"`` where the kernel hides what rules deny from commands too,
            ``"inspected"`` where only the command line is looked at, None where there are no commands.
        channel: ``"isolated"`` where no command can forge another's result or see its data,
            ``"shared"`` where one could, None where there are no commands.
        network_off: whether commands can be kept off the network.
        symlinks: whether the file system has symbolic links.
        users: whether ``user=`` can be given.
        spawn: whether background processes can be started.
        case_sensitive: whether two names that differ in case are two files.
    """

    commands: Literal["confined", "inspected"] | None = None
    channel: Literal["isolated", "shared"] | None = None
    network_off: bool = False
    symlinks: bool = False
    users: bool = False
    spawn: bool = False
    case_sensitive: bool = True
