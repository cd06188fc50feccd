"""Whether this machine can confine commands, found out by confining one."""

from __future__ import annotations

import functools
import os
import shutil
import sys

from sandbox_kit.backends.local import process
from sandbox_kit.errors import SandboxError, UnsupportedError
from sandbox_kit.host.system import Descriptor, hold_standard_descriptors
from sandbox_kit.paths import within
from sandbox_kit.types import CommandResult

__all__ = ["ISOLATION", "can_confine", "lies_in", "program", "tried"]

ISOLATION = (
    "--unshare-user",
    "--disable-userns",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--cap-drop",
    "ALL",
    "--new-session",
    "--die-with-parent",
    "--clearenv",
)
"""Options of every confined command; the second user namespace takes away all power over the mounts of the first."""

_TRY_WITHIN = 10.0
_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")

_REASONS = (
    (
        ("unknown option", "user namespaces are not supported in setuid mode", "disable-userns"),
        "this bubblewrap lacks an option: apt install bubblewrap (0.8 with its fixes of 2024, or later)",
    ),
    (
        ("new namespace", "user namespace", "uid map", "no permissions"),
        "user namespaces are off for this user: sysctl -w kernel.unprivileged_userns_clone=1, "
        "user.max_user_namespaces=10000 or kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        ("rtm_newaddr", "loopback"),
        "user namespaces are restricted by AppArmor: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        ("mount proc", "mount devpts", "permission denied", "not permitted"),
        "this machine lets nobody mount inside a namespace, as in a container without the right: "
        "bubblewrap is installed but cannot work",
    ),
)


def program() -> str:
    """Return the absolute name of bubblewrap: of the directories in PATH those of the system count first.

    Relative ones do not count: what they are depends on who asks.

    Raises:
        UnsupportedError: it is not installed.
    """
    path = os.environ.get("PATH", os.defpath)
    found = _find(path)
    if found is None or not os.access(found, os.X_OK):
        _find.cache_clear()
        found = _find(path)
    if found is None:
        raise UnsupportedError("bubblewrap is not installed: apt install bubblewrap")
    return found


@functools.lru_cache(maxsize=4)
def _find(path: str) -> str | None:
    directories = filter(os.path.isabs, path.split(os.pathsep))
    found = shutil.which("bwrap", path=os.pathsep.join(sorted(directories, key=_rank)))
    return None if found is None else os.path.normpath(found)


def _rank(directory: str) -> bool:
    return os.path.normpath(directory) not in _SYSTEM


def lies_in(work_dir: str) -> bool:
    """Whether bubblewrap, by its name or by its real one, lies where commands of *work_dir* could replace it."""
    try:
        name = program()
    except UnsupportedError:
        return False
    return within(name, work_dir) or within(os.path.realpath(name), work_dir)


def can_confine() -> str | None:
    """Return None where bubblewrap holds a command here, else the reason in one sentence. Never raises."""
    if sys.platform != "linux":
        return f"commands are confined on Linux only, and this is {sys.platform}"
    try:
        return tried()
    except UnsupportedError as error:
        return str(error)
    except (OSError, SandboxError) as error:
        return f"bubblewrap does not run: {error}"


@functools.cache
def tried() -> str | None:
    """Why bubblewrap holds no command; None where it does. Tried with every option that confinement rests on.

    The answer is one for the whole process: a bubblewrap that breaks later fails, and no command runs without.

    Raises:
        UnsupportedError: it is not installed.
        OSError: the machine has no room for a process now, or it took too long: worth another try.
        SandboxError: the same.
    """
    result = _try(program())
    return None if result.ok else explain(result.stderr)


def explain(complaint: str) -> str:
    """Return what to do about *complaint*, which bubblewrap printed."""
    lowered = complaint.lower()
    for signs, advice in _REASONS:
        if any(sign in lowered for sign in signs):
            return advice
    last = complaint.strip().splitlines()[-1:] or ["it says nothing"]
    return f"bubblewrap does not work here: {last[0]}"


def _try(bwrap: str) -> CommandResult:
    hold_standard_descriptors()
    with Descriptor.open("/", os.O_PATH | os.O_DIRECTORY) as root:
        argv = [
            *(bwrap, *ISOLATION, "--unshare-net", "--ro-bind-fd", str(root.fd), "/"),
            *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--size", "4096", "--tmpfs", "/tmp"),
            *("--", "/bin/sh", "-c", ":"),
        ]
        return process.run(argv, cwd="/", env={}, timeout=_TRY_WITHIN, pass_fds=(root.fd,))
