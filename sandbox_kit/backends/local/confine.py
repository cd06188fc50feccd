"""Confinement of one command by bubblewrap: an ordered checklist that ends in an argument vector.

The command sees the workspace under its real name, the base system, this Python and what is
exposed read-only, a small /etc, and a /tmp, /proc and /dev of its own. It has its own
process, IPC, host name, user and, unless asked otherwise, network namespaces, no
capability, and no way to make another user namespace in which it would have one. What
rules hide, there or beneath what is exposed, is covered by an empty file or directory that nobody
can read; what they protect is mounted once more, read-only. A mount point can be neither moved nor removed.

What stays open: a hard link made before, a file made later, the replacement of a symbolic link
that is itself denied, and, with the network, the host's abstract sockets. So does what the
host itself renames under the walk, and, where there are few masks, until they are mounted: bubblewrap
finds the places of its mounts by name. So no other user of the host whom one would not trust may
write in the workspace. A pin is a mount point: moving something out of it copies.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from attrs import fields

from sandbox_kit.backends.local import base, mounting, probe
from sandbox_kit.backends.local.cover import Wanted
from sandbox_kit.backends.local.etc import make_etc
from sandbox_kit.backends.local.layout import Layout
from sandbox_kit.backends.local.masks import Mount
from sandbox_kit.backends.local.namespace import Namespaces
from sandbox_kit.backends.local.nesting import lineage_of
from sandbox_kit.backends.local.occupancy import Place, occupy
from sandbox_kit.backends.local.scratch import own_directory
from sandbox_kit.backends.local.seccomp import call_filter
from sandbox_kit.errors import (
    InvalidArgumentError,
    SandboxError,
    SandboxUnavailableError,
    UnsupportedError,
    printable,
)
from sandbox_kit.host.forks import abandon_in_child
from sandbox_kit.host.system import close_all, hold_standard_descriptors
from sandbox_kit.joint_masks import JointMasks
from sandbox_kit.paths import within
from sandbox_kit.primitives import Masks
from sandbox_kit.types import Limits

__all__ = ["FEW", "MAX_WAIT", "Prepared", "check_launcher", "check_limits", "check_scratch", "obstacle", "prepare"]

MAX_WAIT = 60.0
"""How long, in seconds, a command without a time limit waits for others in its workspace."""

FEW = 12
"""So many mounts bubblewrap makes itself: a helper takes as long as these for the first."""

_NOT_MOUNTED = "Can't remount readonly on"
"""What bubblewrap says when it looks for the last mount of the helper's and finds none."""

_LAUNCHER = {"PATH": "/usr/bin:/bin", "LANG": "C"}
_CEILINGS = tuple(each.name for each in fields(Limits))


class Prepared:
    """A command's confinement, ready to start: once, then close it when the command's tree is dead.

    Attributes:
        argv: what to put before the command's own argument vector; see :meth:`command`.
        env: the environment to start it in. The command's own travels inside: a variable such
            as ``LD_PRELOAD`` must not reach what stands outside of the sandbox.
    """

    def __init__(self, place: Place) -> None:
        self.argv: list[str] = []
        self.env: Mapping[str, str] = _LAUNCHER
        self._place = place
        self._own: list[int] = []
        self._withheld: list[int] = []
        abandon_in_child(self)

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """Descriptors that the command is to be started with, under the same numbers."""
        return (*self._own, *self._place.fds)

    def command(self, argv: Sequence[str]) -> list[str]:
        """The whole argument vector; a program that is missing ends with 127, as in a shell."""
        if argv[0] == "/bin/sh":
            return [*self.argv, *argv]
        return [*self.argv, "/bin/sh", "-c", 'exec "$@"', "sh", *argv]

    def check_started(self, complaint: str) -> None:
        """Tell a command that failed from one that was never started, after its end.

        Args:
            complaint: what was printed to its standard error.

        Raises:
            SandboxUnavailableError: the sandbox could not be made; says why.
        """
        if not self._place.status.has_run():
            last = (complaint.strip().splitlines() or ["its launcher said nothing"])[-1]
            if _NOT_MOUNTED in last:
                last = "what rules mask changed while it was mounted, or the helper that mounts was killed"
            raise SandboxUnavailableError(f"the command could not be confined: {last}")

    def own(self, opener: Callable[..., int], *arguments: object) -> int:
        """Pass on what *opener* opens, and close it with the confinement; return the descriptor.

        It is one call into C: no Ctrl-C comes between the opening and the list that owns it.
        """
        self._own.extend(itertools.starmap(opener, (arguments,)))
        return self._own[-1]

    def own_memory(self, data: bytes) -> int:
        """Pass on a descriptor to read *data* from."""
        fd = self.own(os.memfd_create, "sandbox_kit", os.MFD_CLOEXEC)
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def own_pipe(self) -> tuple[int, int]:
        """Pass on the read and the write end of a new pipe."""
        self._own.extend(itertools.chain.from_iterable(itertools.starmap(os.pipe, ((),))))
        return self._own[-2], self._own[-1]

    def withhold(self, *fds: int) -> None:
        """Keep what is not to be passed on until the confinement is closed."""
        self._withheld.extend(map(self._own.pop, map(self._own.index, fds)))

    def disown(self, *fds: int) -> None:
        """Close what nobody is to hold any more."""
        any(map(os.close, map(self._own.pop, map(self._own.index, fds))))

    def close(self) -> None:
        """Close every descriptor and leave the workspace to others; closing twice is fine."""
        self._close_own()
        self._place.close()

    def __del__(self) -> None:
        self._close_own()

    def abandon(self) -> None:
        """Let go in a forked child: bubblewrap waits until nobody can write to its barrier any more."""
        self._close_own()

    def _close_own(self) -> None:
        close_all(self._own)
        close_all(self._withheld)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _typed_failures() -> Iterator[None]:
    """A block in which what the system says of descriptors, memory or the library's own directory is typed."""
    try:
        yield
    except SandboxError:
        raise
    except OSError as error:
        raise SandboxUnavailableError(f"the command cannot be confined: {error}") from error


@_typed_failures()
def prepare(
    *,
    root_fd: int,
    work_dir: str,
    masks: Sequence[Masks],
    cwd: str,
    env: Mapping[str, str],
    scratch: str | None = None,
    expose: Sequence[str | os.PathLike[str]] = (),
    network: bool = False,
    limits: Limits | None = None,
    timeout: float | None = None,
    check: Callable[[], None] = lambda: None,
) -> Prepared:
    """Make everything ready for one confined command.

    Commands overlap if their masks compare equal, and wait for each other if not: keep the
    objects, or give them ``==``.

    Args:
        root_fd: the workspace.
        work_dir: its real name.
        masks: what commands must not see or change.
        cwd: the directory to start in; absolute.
        env: the command's whole environment.
        scratch: a directory of the library's own, outside the workspace; None for the user's.
        expose: host paths to show, read-only.
        network: whether commands share the host's network.
        limits: ceilings; see :func:`check_limits`.
        timeout: how long to wait for others in the workspace, in seconds; None for MAX_WAIT.
        check: called while it waits; what it raises ends the wait.

    Raises:
        UnsupportedError: this machine, the number of masks, or the size of what is exposed does not allow it.
        InvalidArgumentError: a path cannot be exposed, a name or value in *env* holds a NUL.
        PolicyError: the workspace, or what is exposed, changed while the masks were made.
        SandboxTimeoutError: another command lives in the workspace all the time, under other masks than this one's.
        PathError: an exposed path is missing, or leads through the workspace.
        SandboxUnavailableError: the system has no room for it, such as descriptors or a writable ``/tmp``.
    """
    hold_standard_descriptors()
    if (reason := obstacle(work_dir)) is not None:
        raise UnsupportedError(reason)
    check_launcher(work_dir)
    check_limits(limits)
    scratch = os.path.realpath(scratch) if scratch is not None else own_directory()
    trees, etc = base.visible_trees(expose, work_dir), make_etc(scratch, network=network)
    wanted = Wanted(root_fd, work_dir, scratch, JointMasks(masks), trees, etc)
    terms = (wanted.rules.masks, tuple(trees), network, limits) if masks else None
    place = occupy(lineage_of(root_fd), terms, MAX_WAIT if timeout is None else timeout, check, wanted.is_held_by)
    prepared = Prepared(place)
    try:
        if place.namespaces is not None:
            _enter(prepared, place, place.namespaces, env, cwd, network=network)
        else:
            _lay_out(prepared, place, wanted, env, cwd, network=network, limits=limits)
    except BaseException:
        prepared.close()
        raise
    return prepared


def _enter(
    prepared: Prepared, place: Place, namespaces: Namespaces, env: Mapping[str, str], cwd: str, *, network: bool
) -> None:
    """Have the command run in a copy of *namespaces*."""
    variables = prepared.own_memory(_lines(_assignments(env)))
    calls = prepared.own_memory(call_filter(network=network) or b"")
    prepared.argv = namespaces.argv(variables, calls, place.status.write, cwd)
    prepared.env = _LAUNCHER | {name: os.environ[name] for name in {"LD_LIBRARY_PATH"} & os.environ.keys()}


def _lay_out(
    prepared: Prepared,
    place: Place,
    wanted: Wanted,
    env: Mapping[str, str],
    cwd: str,
    *,
    network: bool,
    limits: Limits | None,
) -> None:
    """Have the command run in namespaces of its own."""
    shown = wanted.shown()
    base.make_room(wanted.etc, shown.trees, wanted.work_dir)
    layout = Layout(wanted.work_dir, wanted.scratch, prepared.own)
    layout.isolate(network=network, env=env, status=place.status.write)
    if (program := call_filter(network=network)) is not None:
        layout.refuse_calls(prepared.own_memory(program))
    layout.show_system(wanted.etc, tmp_size=limits.tmpfs_size if limits is not None else None)
    layout.show_trees(shown.trees)
    layout.hide(shown.hidden)
    layout.seal()
    layout.show_workspace(wanted.root_fd)
    mounts = wanted.mounts().mounts
    if wanted.rules.masks:
        place.is_held(wanted.cover(mounts, shown))
    _mount(prepared, layout, wanted, mounts)
    layout.start_in(cwd)
    prepared.argv = [probe.program(), "--args", str(prepared.own_memory(_lines(layout.options))), "--"]


def _mount(prepared: Prepared, layout: Layout, wanted: Wanted, mounts: Sequence[Mount]) -> None:
    """Have *mounts* made: a few by bubblewrap, many by a helper, which does not take longer for each."""
    if len(mounts) > FEW and mounting.works():
        told, info = prepared.own_pipe()
        barrier, opens = prepared.own_pipe()
        mounting.arm(opens)
        request = prepared.own_memory(mounting.request(wanted.root_fd, wanted.work_dir, layout.hiding, mounts))
        served = mounting.serve(told, opens, request)
        prepared.withhold(told)
        prepared.disown(opens, request)
        if served:
            layout.await_mounts(mounting.awaiting(mounts, info, barrier))
            return
    layout.mount(mounts)


def obstacle(work_dir: str) -> str | None:
    """Return why commands cannot be confined to *work_dir* on this machine, in one sentence; None where they can.

    None as well where what confines them lies in *work_dir*: it is not tried, and :func:`check_launcher` refuses it.
    """
    if work_dir in ("/", "/dev") or within(work_dir, "/proc"):
        return f"{printable(work_dir)} is no workspace that commands can be confined to: use another directory"
    return None if probe.lies_in(work_dir) else probe.can_confine()


def check_launcher(work_dir: str) -> None:
    """Check that commands cannot replace what confines them. What they may bring about is no reason to run plain.

    Raises:
        UnsupportedError: bubblewrap lies in *work_dir*, or is gone, or *work_dir* is this package.
    """
    probe.program()
    for what, there in (("bubblewrap", probe.lies_in(work_dir)), ("this library", base.is_own_package(work_dir))):
        if there:
            raise UnsupportedError(
                f"{what} lies in the workspace, where commands could replace it: {printable(work_dir)}"
            )


def check_scratch(work_dir: str) -> None:
    """Check that no file operation of *work_dir* reaches the library's own directory.

    Raises:
        UnsupportedError: it lies in *work_dir*, as in ``/tmp``, or belongs to somebody else.
    """
    if within(own_directory(), work_dir):
        raise UnsupportedError(
            f"the workspace holds {own_directory()}, which confinement rests on: use a directory beneath "
            f"{printable(work_dir)}"
        )


def check_limits(limits: Limits | None, reason: str | None = None) -> None:
    """Check that every ceiling can be held: bubblewrap holds the size of temporary file systems alone.

    Args:
        reason: why commands are not confined; None where they are.

    Raises:
        UnsupportedError: one cannot; names it.
    """
    for name in _CEILINGS if limits is not None else ():
        if getattr(limits, name) is not None and (name != "tmpfs_size" or reason is not None):
            raise UnsupportedError(f"{name}: {reason or 'confined local commands can be held to tmpfs_size only'}")


def _assignments(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def _lines(items: Iterable[str]) -> bytes:
    """*items*, each ended by a NUL.

    Raises:
        InvalidArgumentError: one holds a NUL itself.
    """
    data = [os.fsencode(item) for item in items]
    if any(b"\0" in item for item in data):
        raise InvalidArgumentError("a name that a command is started with holds a NUL")
    return b"".join(item + b"\0" for item in data)
