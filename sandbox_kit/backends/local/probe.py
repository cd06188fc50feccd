"""Whether this machine can confine commands, found out by confining one."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from sandbox_kit.errors import UnsupportedError
from sandbox_kit.paths import within

__all__ = ["ISOLATION", "can_confine", "lies_in", "program"]

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


@functools.cache
def can_confine() -> str | None:
    """Return None where bubblewrap holds a command here, else the reason in one sentence.

    Tried once a process, with every option that confinement rests on. Never raises.
    """
    if sys.platform != "linux":
        return f"commands are confined on Linux only, and this is {sys.platform}"
    try:
        tried = _try(program())
    except UnsupportedError as error:
        return str(error)
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap does not run: {error}"
    if tried.returncode == 0:
        return None
    return explain(tried.stderr.decode(errors="replace"))


def explain(complaint: str) -> str:
    """Return what to do about *complaint*, which bubblewrap printed."""
    lowered = complaint.lower()
    for signs, advice in _REASONS:
        if any(sign in lowered for sign in signs):
            return advice
    last = complaint.strip().splitlines()[-1:] or ["it says nothing"]
    return f"bubblewrap does not work here: {last[0]}"


def _try(bwrap: str) -> subprocess.CompletedProcess[bytes]:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        return subprocess.run(
            [
                *(bwrap, *ISOLATION, "--unshare-net", "--ro-bind-fd", str(root), "/"),
                *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--size", "4096", "--tmpfs", "/tmp"),
                *("--", "/bin/sh", "-c", ":"),
            ],
            pass_fds=(root,),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRY_WITHIN,
            check=False,
        )
    finally:
        os.close(root)
