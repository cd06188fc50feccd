"""Whether the owner of something shared still lives: a lock of the kernel's, and who the process is.

An owner holds an exclusive ``lockf`` lock on a file of its own. The kernel lets go of it with the
process, however that ends. Such a lock is also lost when *any* descriptor of the file is closed in
the process that holds it, so this process never opens the file of an owner of its own again. It is
no part of a forked child, which must be an owner of its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from attrs import frozen

from sandbox_kit.errors import SandboxUnavailableError
from sandbox_kit.host.forks import renew_in_child

__all__ = ["Owner", "OwnerLock", "held_tokens", "is_alive", "own_process", "remove_lock", "remove_stray_locks"]

_SUFFIX = ".lock"
_START = 19
"""Where the start time stands in ``/proc/<pid>/stat`` behind the program's name: field 22."""

_MINE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_THEIRS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_ATTEMPTS = 50
_PAUSE = 0.002


@frozen
class Owner:
    """One owner; a process may be several.

    Attributes:
        token: its name, unlike that of any other owner ever, and its lock file's.
        pid: its process.
        start: when the process began, in ticks since the boot; 0 where the system does not tell.
        boot: the boot of the machine that it runs in; empty where the system does not tell.
    """

    token: str
    pid: int
    start: int
    boot: str


def own_process() -> tuple[int, int, str]:
    """Return pid, start time and boot of this process, as in :class:`Owner`."""
    pid = os.getpid()
    return pid, _start_of(pid) or 0, _boot()


@cache
def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return ""


def _start_of(pid: int) -> int | None:
    """When process *pid* began; None if there is none, or what is left of it waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("latin-1").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[_START])


class _Mine:
    """The locks that this process holds, by token. Its lock is held wherever a lock file is opened or closed.

    That one is reentrant, as the garbage collector may let go of a lock within any call.
    """

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.fds: dict[str, int] = {}
        renew_in_child(self)

    def take(self, path: Path, token: str) -> None:
        """Make the lock file *path*, and hold it.

        Raises:
            OSError: it cannot be made or locked.
        """
        with self.mutex:
            self.fds[token] = _locked(path)

    def let_go(self, token: str) -> None:
        """Hold the lock of *token* no more; one that is not held is fine."""
        with self.mutex:
            fd = self.fds.pop(token, None)
            if fd is not None:
                os.close(fd)

    def renew(self) -> None:
        """The locks are the parent's: its owners are others than those of a forked child."""
        self.mutex = threading.RLock()
        for fd in self.fds.values():
            os.close(fd)
        self.fds.clear()


_mine = _Mine()


class OwnerLock:
    """A new owner in this process, alive until :meth:`release`, garbage collection or the end of the process.

    Args:
        directory: where its lock file is made, on a local file system, out of others' reach.

    Attributes:
        owner: who it is.

    Raises:
        SandboxUnavailableError: the file cannot be made or locked.
    """

    def __init__(self, directory: Path) -> None:
        self.owner = Owner(uuid4().hex, *own_process())
        try:
            _mine.take(_lock_path(directory, self.owner), self.owner.token)
        except OSError as error:
            raise SandboxUnavailableError(f"an owner's lock cannot be had in {directory}: {error}") from error
        self._let_go = weakref.finalize(self, _mine.let_go, self.owner.token)
        self._let_go.atexit = False  # what it holds may go down at exit only later; the kernel lets go in the end

    def release(self) -> None:
        """Be alive no more; the file stays. Releasing twice, or in a forked child, does nothing."""
        self._let_go()


def _locked(path: Path) -> int:
    """Make and lock *path*, anew where another process took its lock, or its name, before it was held."""
    for _ in range(_ATTEMPTS):
        fd = os.open(path, _MINE, 0o600)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False)):
                return fd
        except (BlockingIOError, PermissionError, FileNotFoundError):
            time.sleep(_PAUSE)
        except OSError:
            _discard(fd, path)
            raise
        _discard(fd, path)
    raise BlockingIOError(errno.EAGAIN, "others lock or remove it all the time", os.fspath(path))


def _discard(fd: int, path: Path) -> None:
    os.close(fd)
    with suppress(OSError):
        os.unlink(path)


def remove_lock(directory: Path, owner: Owner) -> None:
    """Remove the file of an owner that lives no more; one that is gone is fine."""
    with suppress(OSError):
        os.unlink(_lock_path(directory, owner))


def remove_stray_locks(directory: Path, known: Collection[str]) -> None:
    """Remove the files in *directory* that nobody holds, of owners whose tokens are not *known*."""
    for path in directory.glob("*" + _SUFFIX):
        if path.stem not in known:
            _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    """Remove a lock file that nobody holds, and hold it meanwhile: who is about to lock it finds that out."""
    with _mine.mutex, suppress(OSError):
        if path.stem in _mine.fds:
            return
        fd = os.open(path, _THEIRS)
        try:
            if _can_lock(fd):
                os.unlink(path)
        finally:
            os.close(fd)


def _lock_path(directory: Path, owner: Owner) -> Path:
    """Return the lock file of *owner*."""
    return directory / (owner.token + _SUFFIX)


def is_alive(owner: Owner, directory: Path) -> bool:
    """Whether *owner*, whose lock file is in *directory*, lives; when in doubt, yes.

    The lock decides. Where the file is gone, it is whether the process lives that the owner was.
    """
    try:
        return _is_held(_lock_path(directory, owner))
    except FileNotFoundError:
        return _process_lives(owner)


def held_tokens(directory: Path) -> set[str]:
    """Return the tokens of all owners, known or not, whose lock files in *directory* are held.

    Raises:
        OSError: it cannot be listed.
    """
    held: set[str] = set()
    for name in os.listdir(directory):
        path = directory / name
        with suppress(FileNotFoundError):
            if path.suffix == _SUFFIX and _is_held(path):
                held.add(path.stem)
    return held


def _is_held(path: Path) -> bool:
    """Whether somebody holds a lock file; when in doubt, yes.

    Raises:
        FileNotFoundError: it is gone.
    """
    with _mine.mutex:
        if path.stem in _mine.fds:
            return True
        try:
            fd = os.open(path, _THEIRS)
        except FileNotFoundError:
            raise
        except OSError:
            return True
        try:
            return not _can_lock(fd)
        finally:
            os.close(fd)


def _can_lock(fd: int) -> bool:
    """Whether nobody holds the file; askers share the lock, so that none stands in another's way."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _process_lives(owner: Owner) -> bool:
    if owner.boot != _boot():
        return False
    return _start_of(owner.pid) == owner.start if owner.start else _exists(owner.pid)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
