"""The program that runs one command at a time and ends everything that it leaves behind.

Linux only. The host starts it as ``python -I -S supervisor.py`` with one end of a socket
pair as its standard input. It is the child subreaper of what it starts: a process that
loses its parent, however often it forked and whatever session it made, becomes its
child. So the tree of a command is ended exactly by killing children until none is left,
and only unreaped children are ever signalled: no process id can be a stranger's.

A request is one message, see :func:`receive`; each answer is one packed ``REPLY``. When the
host closes its end, or dies, the tree is killed and the program exits.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Request = tuple[list[bytes], dict[bytes, bytes], bytes, list[int]]

REPLY = struct.Struct("!iii")
"""Kind, value, and the number of processes that could not be killed."""

READY, STARTED, FAILED, ENDED = range(4)
"""Kinds of reply; their values: nothing, the process id, an errno, the exit code."""

LENGTH = struct.Struct("!Q")
MAX_FDS = 250
"""Descriptors that one message can carry."""

_PR_SET_CHILD_SUBREAPER = 36
_PART = 1 << 13
if sys.platform != "win32":  # where the host imports this file, for its constants alone
    _KILL = int(signal.SIGKILL)
    _RESET = [int(number) for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]
_DEFAULT_PATH = b"/bin:/usr/bin"
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def encode_request(argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, targets: list[int]) -> bytes:
    """The message that starts a command.

    Args:
        argv: the program and its arguments.
        env: the whole environment.
        cwd: the directory to start in; empty when it is the last descriptor sent along.
        targets: the number that each of the other descriptors gets in the command, in order.
    """
    body = marshal.dumps((argv, env, cwd, targets), 2)
    return LENGTH.pack(len(body)) + body


def receive(control: socket.socket) -> tuple[Request, list[int]] | None:
    """One request, as encoded, and the descriptors that came with it; None at the end of the stream."""
    data = b""
    fds: list[int] = []
    wanted = LENGTH.size
    while len(data) < wanted:
        part, ancillary, _, _ = control.recvmsg(_PART, socket.CMSG_SPACE(MAX_FDS * 4), socket.MSG_CMSG_CLOEXEC)
        if not part:
            return None
        data += part
        for _, _, packed in ancillary:
            fds.extend(fd for (fd,) in struct.iter_unpack("i", packed))
        if len(data) >= LENGTH.size:
            wanted = LENGTH.size + LENGTH.unpack_from(data)[0]
    return marshal.loads(data[LENGTH.size :]), fds


def candidates(program: bytes, env: dict[bytes, bytes]) -> Iterator[bytes]:
    """The files to try for *program*, by the command's own PATH."""
    if b"/" in program:
        yield program
        return
    for directory in env.get(b"PATH", _DEFAULT_PATH).split(b":"):
        yield os.path.join(directory, program)


def spawn(argv: list[bytes], env: dict[bytes, bytes], fds: dict[int, int]) -> int:
    """Start a command in a session of its own, with default signals; its process id.

    Args:
        fds: its descriptors, by number; ``/dev/null`` stands in for a missing 0.

    Raises:
        OSError: the program cannot be started; the error of the last candidate that exists.
    """
    actions: list[tuple[int, int, int] | tuple[int, int, bytes, int, int]] = []
    if 0 not in fds:
        actions.append((os.POSIX_SPAWN_OPEN, 0, b"/dev/null", os.O_RDONLY, 0))
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for target, source in fds.items()]
    failure: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in candidates(argv[0], env):
        try:
            return os.posix_spawn(
                path,
                argv,
                env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_RESET,
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
    raise failure


def spawn_failure(program: bytes, reason: OSError, stderr: int) -> int:
    """Start a process that ends as a shell does when it cannot start *program*; its process id."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.write(stderr, program + b": " + str(reason.strerror).encode() + b"\n")
        os._exit(_NOT_FOUND if reason.errno == errno.ENOENT else _NOT_EXECUTABLE)
    return pid


def start(request: Request, fds: list[int]) -> int:
    """Start what a request asks for; the process id.

    Raises:
        OSError: the directory cannot be entered, or the machine has no room for a process.
    """
    argv, env, cwd, targets = request
    if cwd:
        os.chdir(cwd)
    else:
        os.fchdir(fds[-1])
    sources = dict(zip(targets, fds, strict=False))
    try:
        return spawn(argv, env, sources)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise
        return spawn_failure(argv[0], error, sources[2])
    finally:
        os.chdir("/")


def lift(fds: list[int], above: int) -> list[int]:
    """*fds* moved to numbers over *above*, where no target can overwrite one before it is used."""
    if min(fds) > above:
        return fds
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above + 1) for fd in fds]
    close(fds)
    return lifted


def close(fds: list[int]) -> None:
    """Close every one of *fds*."""
    for fd in fds:
        os.close(fd)


def reap_adopted(command: int) -> bool:
    """Reap what was adopted and has ended; whether *command* has ended (it is left unreaped).

    The kernel names the eldest child first, so a flood of adopted ones hides neither the
    command's end nor, as their number a call is bounded, the host's wish for an end.
    """
    for _ in range(256):
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if info is None or info.si_pid == command:
            return info is not None
        os.waitpid(info.si_pid, 0)
    return False


def children() -> set[int]:
    """The process ids of this process's children."""
    me = os.getpid()
    with suppress(FileNotFoundError), open(f"/proc/self/task/{me}/children", "rb", 0) as listing:
        return {int(pid) for pid in listing.readall().split()}
    return set(children_by_scan(me))


def children_by_scan(parent: int) -> Iterator[int]:
    """The same where the kernel does not list children: every process whose parent is *parent*."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb", 0) as stat:
                if int(stat.readall().rpartition(b")")[2].split()[1]) == parent:
                    yield int(name)


def kill_children(spared: set[int]) -> bool:
    """Kill every child once; whether there was one. Adds to *spared* those that this user may not kill."""
    found = children() - spared
    for pid in found:
        try:
            os.kill(pid, _KILL)
        except PermissionError:
            spared.add(pid)
    return bool(found - spared)


def end_tree(command: int) -> tuple[int, int]:
    """Kill *command* and all that descends from it; its exit code, and how many could not be killed.

    Each round kills the children there are and so adopts theirs, until none is left. It waits
    only after it has killed all that were listed, so that one of them must end.
    """
    status, flags, killed = _KILL, os.WNOHANG, True
    spared: set[int] = set()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(command, _KILL)
    while True:
        try:
            while (ended := os.waitpid(-1, flags))[0]:
                status = ended[1] if ended[0] == command else status
                flags = os.WNOHANG
        except ChildProcessError:
            break
        if spared and not killed:
            break
        killed = kill_children(spared)
        flags = 0 if killed else os.WNOHANG
    code = os.waitstatus_to_exitcode(status)
    return (code if code >= 0 else 128 - code), len(spared)


class Supervisor:
    """The state of the program: its socket, and what wakes it."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.poller = select.poll()
        self.poller.register(control, select.POLLIN)
        self.wake, wake_end = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        self.poller.register(self.wake, select.POLLIN)
        with suppress(OSError):
            self.poller.register(os.pidfd_open(os.getppid()), select.POLLIN)

    def reply(self, kind: int, value: int = 0, spared: int = 0) -> None:
        """Send one answer."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.control.sendall(REPLY.pack(kind, value, spared))

    def ready(self) -> set[int]:
        """Wait for something to happen; return the descriptors that have something, but for what wakes it."""
        ready = {fd for fd, _ in self.poller.poll()}
        if self.wake in ready:
            os.read(self.wake, 4096)
            ready.remove(self.wake)
        return ready

    def idle(self) -> bool:
        """Wait for a request; False when the host has ended."""
        while not (ready := self.ready()):
            pass
        return self.control.fileno() in ready

    def serve(self, request: Request, fds: list[int]) -> None:
        """Run one command to its end, and its tree to none."""
        fds = lift(fds, max(request[3]))
        try:
            command = start(request, fds)
        except OSError as error:
            self.reply(FAILED, error.errno or errno.EIO)
            return
        finally:
            close(fds)
        self.reply(STARTED, command)
        while not reap_adopted(command) and not self.ready():
            pass
        self.reply(ENDED, *end_tree(command))

    def run(self) -> None:
        """Serve the host until it closes the socket or ends."""
        self.reply(READY)
        while self.idle() and (request := receive(self.control)) is not None:
            self.serve(*request)


def main() -> None:
    """Become a subreaper, deaf to what a terminal or a service manager sends, whatever the host blocks, and serve."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("this kernel has no child subreaper")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.set_inheritable(0, False)
    Supervisor(socket.socket(fileno=0)).run()


if __name__ == "__main__":
    main()
