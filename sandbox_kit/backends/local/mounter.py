"""The program that mounts what rules mask, in namespaces that bubblewrap is making.

Linux 5.12 and later. The host starts it once, as ``python -I -S mounter.py`` with one end of a socket pair as its
standard input, and sends it one packet for each sandbox. A child of its own serves that: it waits until
bubblewrap comes to its barrier, enters, and puts every mount on an open descriptor, which no name that
changes meanwhile can redirect. If anything is not as it was found, or the child dies, the
mounts are not complete, and bubblewrap, which looks for the last of them, starts nothing.

Bubblewrap looks through the list of all mounts for each that it makes itself; this program does not.

Source: open_tree(2), move_mount(2), mount_setattr(2), openat2(2).
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox_kit.backends.local.masks import Kind

    Identity = tuple[int, int]
    Item = tuple[bytes, bytes, int, int]
    Request = tuple[bytes, Identity, dict[bytes, bytes], list[Item]]

_NEW_ROOT, _OLD_ROOT = b"/newroot", b"/oldroot"
"""Where bubblewrap has the sandbox and the host until it has made the former."""

_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_AT_EMPTY_PATH, _AT_RECURSIVE, _OPEN_TREE_CLONE = 0x1000, 0x8000, 1
_MOVE_EMPTY_PATHS = 0x04 | 0x40
_RESOLVE = 0x02 | 0x04 | 0x08  # RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH
_RDONLY, _NOSUID, _NODEV = 1, 2, 4
_NS_GET_USERNS = 0xB701
_CAPACITY = 1 << 12
_FDS = struct.Struct("3i")
PINNED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC

_HOW = (ctypes.c_uint64 * 3)(PINNED, 0, _RESOLVE)
_READ_ONLY = (ctypes.c_uint64 * 4)(_NOSUID | _NODEV | _RDONLY)
_WRITABLE = (ctypes.c_uint64 * 4)(_NOSUID | _NODEV)
_HOW_SIZE, _ATTRIBUTES_SIZE = ctypes.c_size_t(24), ctypes.c_size_t(32)

_libc = ctypes.CDLL(None, use_errno=True)


def encode_request(
    work_dir: str, root: Identity, hiding: Mapping[Kind, str], items: Iterable[tuple[Kind, str, Identity]]
) -> bytes:
    """What to make in one sandbox.

    Args:
        work_dir: the absolute name of the workspace.
        root: its device and inode.
        hiding: kind of mount -> the host's name of what hides.
        items: kind, name relative to *work_dir*, device and inode of what is mounted over; parents first.
    """
    sources = {kind.encode(): os.fsencode(name) for kind, name in hiding.items()}
    packed = [(kind.encode(), os.fsencode(name) or b".", *identity) for kind, name, identity in items]
    return marshal.dumps((os.fsencode(work_dir), root, sources, packed), 2)


def checked(result: int) -> int:
    """The *result* of a call into the C library.

    Raises:
        OSError: it failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def open_beneath(root: int, name: bytes, identity: Identity) -> int:
    """Open *name* beneath *root*, through no link, if it is still what it was.

    Raises:
        OSError: it is not.
    """
    fd = checked(_libc.syscall(_OPENAT2, root, name, _HOW, _HOW_SIZE))
    check_identity(fd, identity)
    return fd


def check_identity(fd: int, identity: Identity) -> None:
    """Raise OSError unless *fd* is open on what has this device and inode."""
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) != identity:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


def clone(source: int, *, read_only: bool) -> int:
    """A mount of what *source* is open on, which is nowhere yet."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    tree = checked(_libc.syscall(_OPEN_TREE, source, b"", flags))
    attributes = _READ_ONLY if read_only else _WRITABLE
    checked(_libc.syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, attributes, _ATTRIBUTES_SIZE))
    return tree


def mount_all(request: Request) -> None:
    """Make every mount, in order, when the namespaces are entered.

    All are cloned before the first is put in place, so that none shows another.

    Raises:
        OSError: something is not as it was found.
    """
    work_dir, identity, hiding, items = request
    root = os.open(_NEW_ROOT + work_dir, PINNED | os.O_DIRECTORY)
    check_identity(root, identity)
    hidden = {kind: os.open(_OLD_ROOT + name, PINNED) for kind, name in hiding.items()}
    trees = []
    for kind, name, *there in items:
        source = hidden[kind] if kind in hidden else open_beneath(root, name, (there[0], there[1]))
        trees.append(clone(source, read_only=kind != b"read-write"))
    for tree, (_, name, *there) in zip(trees, items, strict=True):
        target = open_beneath(root, name, (there[0], there[1]))
        checked(_libc.syscall(_MOVE_MOUNT, tree, b"", target, b"", _MOVE_EMPTY_PATHS))
        os.close(target)


def told(info: int) -> tuple[int, int]:
    """What bubblewrap says of its child: the process id, and the inode of its mount namespace."""
    said = b""
    while not said.rstrip().endswith(b"}"):
        more = os.read(info, _CAPACITY)
        if not more:
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
        said += more
    pairs = dict(line.split(b":") for line in said.replace(b'"', b"").strip(b" \n{}").split(b","))
    values = {name.strip(): int(value) for name, value in pairs.items()}
    return values[b"child-pid"], values[b"mnt-namespace"]


def await_barrier(barrier: int) -> None:
    """Wait until the pipe *barrier* has been read.

    Raises:
        OSError: nobody will.
    """
    poller = select.poll()
    poller.register(barrier, select.POLLOUT)
    if poller.poll() != [(barrier, select.POLLOUT)]:
        raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))


def join_owner(pid: int, mount_namespace: int) -> int:
    """Enter the user namespace that owns the mount namespace of a process; a descriptor of the latter."""
    mounts = os.open(b"/proc/%d/ns/mnt" % pid, os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(mounts).st_ino != mount_namespace:
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
    checked(_libc.setns(fcntl.ioctl(mounts, _NS_GET_USERNS), 0))
    return mounts


def serve(info: int, barrier: int, data: int) -> None:
    """Serve one request, in a process of its own."""
    request: Request = marshal.loads(os.pread(data, os.fstat(data).st_size, 0))
    mounts = join_owner(*told(info))
    await_barrier(barrier)
    checked(_libc.setns(mounts, 0))
    mount_all(request)
    os.close(barrier)


def receive(control: socket.socket) -> tuple[int, ...]:
    """The descriptors of one request; empty at the end."""
    _, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(_FDS.size), socket.MSG_CMSG_CLOEXEC)
    return _FDS.unpack(ancillary[0][2]) if ancillary else ()


def main() -> None:
    """Serve the host until it closes the socket or ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=0)
    while fds := receive(control):
        if os.fork() == 0:
            try:
                control.close()
                serve(*fds)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    main()
