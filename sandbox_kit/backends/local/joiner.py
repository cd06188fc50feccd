"""The program that runs a command in a copy of the namespaces of one that lives.

Linux only. The host starts it as ``python -I -S joiner.py HANDLES ENVIRONMENT,FILTER,STATUS CWD COMMAND...``.
Outside of every sandbox it takes the handles, enters, copies the mounts, and makes a process
namespace with a /proc of its own. Then it gives up every capability for good, as bubblewrap
does, and starts the command beneath a first process that ends it all when the command ends.
It is a program of its own since a process with threads cannot enter a user namespace.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from typing import NoReturn

ENTERED = ("mnt", "owner", "user", "net", "ipc", "uts", "cgroup")
"""The namespaces entered: that of the mounts, the user namespace that owns it, the one that commands are in, ..."""

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 22, 38, 47
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_NOT_FOUND, _NOT_EXECUTABLE, _NOT_ENTERED = 127, 126, 125

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library; :mod:`os` has none of them before Python 3.12.

    Raises:
        OSError: it fails.
    """
    if _libc[name](*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter(handles: dict[str, int]) -> list[bytes]:
    """Enter all but the inner user namespace, copy the mounts, give children a process namespace of their own.

    Returns:
        What is hidden in /proc; the /proc that is entered does not show this process, so the host's tells it.
    """
    me = os.open("/proc/self", os.O_PATH | os.O_CLOEXEC)
    call("setns", handles["owner"], 0)
    for name, handle in handles.items():
        if name not in ("owner", "user"):
            call("setns", handle, 0)
    call("unshare", _CLONE_NEWNS | _CLONE_NEWPID)
    mounts = read(os.open("mountinfo", os.O_RDONLY, dir_fd=me))
    os.close(me)
    return hidden_in_proc(mounts)


def hidden_in_proc(mounts: bytes) -> list[bytes]:
    """The names beneath /proc over which something else is mounted, in the order of *mounts*.

    Source: proc_pid_mountinfo(5).
    """
    lines = [line.partition(b" - ") for line in mounts.splitlines()]
    places = [(mount.split(b" ")[4], source.split(b" ")[0]) for mount, _, source in lines]
    return [
        name.decode("unicode_escape").encode("latin-1")
        for name, kind in places
        if name.startswith(b"/proc/") and kind != b"proc"
    ]


def mount_proc(hidden: list[bytes]) -> None:
    """Cover /proc with one that shows this process namespace, read-only, and in which the same is *hidden*."""
    covers = [os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for name in hidden]
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    call("mount", b"proc", b"/proc", b"proc", ctypes.c_ulong(flags), None)
    for name, cover in zip(hidden, covers, strict=True):
        call("mount", b"/proc/self/fd/%d" % cover, name, None, ctypes.c_ulong(_MS_BIND), None)
        os.close(cover)
    call("mount", None, b"/proc", None, ctypes.c_ulong(flags | _MS_REMOUNT | _MS_BIND | _MS_RDONLY), None)


def drop_power() -> None:
    """Give up every capability of this process and of all that it will start."""
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    capability = 0
    while _libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
        capability += 1
    call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_calls(program: bytes) -> None:
    """Have the kernel hold *program*, a filter of system calls, against this process and all that it starts."""
    call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_Program(len(program) // 8, program)), 0, 0)


def confine(handles: dict[str, int], hidden: list[bytes], cwd: bytes, program: bytes, status: int, alive: int) -> None:
    """Finish the sandbox from within: /proc, no power, an end with the host's, and no handle.

    Args:
        hidden: what is hidden in /proc.
        cwd: the directory to start in.
        program: a filter of system calls; empty for none.
        status: where to say that all is done.
        alive: the read end of a pipe that the parent holds open as long as it lives.
    """
    mount_proc(hidden)
    call("setns", handles["user"], 0)
    drop_power()
    if program:
        refuse_calls(program)
    call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if select.select([alive], [], [], 0)[0]:
        os._exit(1)
    os.chdir(cwd)
    os.write(status, b'{"exit-code": null}\n')
    os.closerange(3, max(alive, status, *handles.values()) + 1)


def become(argv: list[bytes], env: dict[bytes, bytes]) -> NoReturn:
    """Become the command, or end as a shell does when it cannot."""
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(2, argv[0] + b": " + str(error.strerror).encode() + b"\n")
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def end_with(child: int) -> NoReturn:
    """Reap until *child* has ended, then end as it did; a first process so ends all of its namespace."""
    ended = 0
    while ended != child:
        ended, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def read(fd: int) -> bytes:
    """All that *fd* holds; closes it."""
    with open(fd, "rb") as file:
        return file.read()


def main() -> None:
    """Enter, confine, run, and end as the command does."""
    handles = {name: int(fd) for name, _, fd in (item.partition("=") for item in sys.argv[1].split(","))}
    environment, program, status = (int(fd) for fd in sys.argv[2].split(","))
    cwd, *argv = (os.fsencode(argument) for argument in sys.argv[3:])
    pairs = [item.partition(b"=") for item in read(environment).split(b"\0") if item]
    instructions = read(program)
    try:
        hidden = enter(handles)
        alive, held = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(held)
            confine(handles, hidden, cwd, instructions, status, alive)
    except OSError as error:
        os.write(2, f"cannot enter the sandbox: {error}\n".encode())
        os._exit(_NOT_ENTERED)
    if first == 0:
        command = os.fork()
        if command == 0:
            become(argv, {name: value for name, _, value in pairs})
        end_with(command)
    end_with(first)


if __name__ == "__main__":
    main()
