"""LocalSandbox: commands over one directory of the host, confined by the kernel where it can be."""

from __future__ import annotations

import os
import stat
import tempfile
import time
import weakref
from collections.abc import Sequence
from os import PathLike
from typing import Any
from uuid import uuid4

from sandbox_kit.arguments import check_timeout
from sandbox_kit.backends.local import confine, process, temporary
from sandbox_kit.backends.local.backend import LocalBackend
from sandbox_kit.backends.local.launch import Launch, Terms, check_user
from sandbox_kit.backends.local.preload import load_all
from sandbox_kit.backends.local.running import Running
from sandbox_kit.contract import Backend, Process, Sandbox
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathError,
    PathNotDirectoryError,
    SandboxClosedError,
)
from sandbox_kit.host.pin import Root
from sandbox_kit.host.system import host_name
from sandbox_kit.primitives import Authorize, Command, Masks, MaskSource, Operations, settle
from sandbox_kit.types import Capabilities, CommandResult, Limits, Usage

__all__ = ["LocalSandbox"]

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)


class LocalSandbox(LocalBackend, Sandbox):
    """Files and commands in one directory of the host.

    Where bubblewrap works, commands see the workspace, the base system read-only, a small
    ``/etc`` made for them, this Python's prefixes and *expose*, with a ``/tmp``, ``/proc`` and
    ``/dev`` of their own, and nothing else of the host. Elsewhere, and over a root that nothing
    can be confined to, such as ``/``, they run as plain processes, and ``capabilities.commands``
    says "inspected". ``stop()`` keeps the files; ``stop(purge=True)`` removes them if the library
    made the directory.

    Args:
        root: a directory that exists; None makes a temporary one at the start, which is removed by
            leaving ``with``, by dropping the sandbox and at exit, never in a forked child.
        expose: more paths of the host that confined commands see, read-only. Under rules they are walked
            for each command, and what the rules hide beneath them is hidden; a path that they hide
            itself is not shown.
        network: None keeps commands off the network where that can be held, False refuses to start
            where it cannot, True lets them on.
        limits: ceilings; one that cannot be held here is refused at the start.
        default_timeout: the time limit of a command that gives none, in seconds; None for no limit.
        max_read_bytes, file_timeout: as for :class:`LocalBackend`.

    Raises:
        UnsupportedError: at the start: *network* or *limits* cannot be held on this machine, or *root*
            holds bubblewrap, as ``/usr`` does.
        PathNotFoundError: at the start: *root* is missing.
        SandboxUnavailableError: later: the directory was removed.
        SandboxClosedError: a command ran while another thread called ``stop()``.
        InvalidArgumentError: *expose* is no sequence of paths, *network* or *limits* of another type.
    """

    def __init__(
        self,
        root: str | PathLike[str] | None = None,
        *,
        expose: Sequence[str | PathLike[str]] = (),
        network: bool | None = None,
        limits: Limits | None = None,
        default_timeout: float | None = None,
        max_read_bytes: int | str = Backend.max_read_bytes,
        file_timeout: float = Backend.file_timeout,
    ) -> None:
        LocalBackend.__init__(
            self, "." if root is None else root, max_read_bytes=max_read_bytes, file_timeout=file_timeout
        )
        self._temporary = root is None
        if self._temporary:
            self._given = ""
        self._terms = Terms(_exposed(expose), _network(network), _limits(limits))
        self.default_timeout = check_timeout(default_timeout, "default_timeout")
        self._begin()

    def _begin(self) -> None:
        Sandbox.__init__(self)
        self._running = Running()
        self._end: weakref.finalize[Any, Any] | None = None
        self._discard: weakref.finalize[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_id", "_life", "_running", "_end", "_discard"}
        kept = {name: value for name, value in super().__getstate__().items() if name not in left_out}
        return kept | {"_given": ""} if self._temporary else kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._id = f"local-{uuid4().hex[:12]}"
        self._begin()

    def __repr__(self) -> str:
        return f"LocalSandbox({self._given!r})" if self._given else "LocalSandbox()"

    @property
    def temporary(self) -> bool:
        return self._temporary

    @property
    def work_dir(self) -> str:
        """The directory's real name; a temporary one has none until it is made."""
        root = self._opened
        if root is None and not self._given:
            raise self._closed()
        return os.path.realpath(self._given) if root is None else root.name

    @property
    def capabilities(self) -> Capabilities:
        confined = confine.obstacle(self._place()) is None
        return Capabilities(
            commands="confined" if confined else "inspected",
            channel="isolated" if confined else "shared",
            network_off=confined,
            symlinks=True,
            spawn=True,
            case_sensitive=self._case_sensitive(),
        )

    def _place(self) -> str:
        """The work directory's real name; before a temporary one is made, that of the directory it will lie in."""
        return self.work_dir if self._given else os.path.realpath(tempfile.gettempdir())

    def _case_sensitive(self) -> bool:
        if self._opened is not None:
            return self._opened.case_sensitive
        try:
            return Root(self._place()).case_sensitive
        except PathError:
            return True

    def _held(self) -> Root:
        root = self._opened
        if root is None:
            raise self._closed()
        return root

    def _closed(self) -> SandboxClosedError:
        return SandboxClosedError(f"{self!r} is not started: use 'with sandbox:' or call start()")

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        if self._opened is not None:
            return
        load_all()
        self._terms.check(self._place(), ours=self._temporary)
        if not self._given:
            self._given = temporary.make()
            self._discard = weakref.finalize(self, temporary.remove, self._given, os.getpid())
        self._opened = Root(self._given)
        self._running = Running()
        self._end = weakref.finalize(self, self._running.end)

    def _stop(self, purge: bool) -> None:
        if self._end is not None:
            self._end()
        self._opened = None
        if purge and self._discard is not None:
            self._discard()
            self._discard, self._given = None, ""

    def _is_alive(self) -> bool:
        root = self._opened
        return root is not None and os.fstat(root.fd).st_nlink > 0

    def _usage(self) -> Usage:
        if self._opened is None:
            raise self._closed()
        return self._running.usage()

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        began, running = time.monotonic(), self._running
        with self._launch(command, operations, authorize, masks, running) as launch:
            result = process.run(
                launch.argv,
                cwd=launch.start_in,
                env=launch.env,
                stdin=command.stdin if not isinstance(command.stdin, int) else None,
                timeout=command.timeout,
                max_output=command.max_output,
                on_output=command.on_output,
                pass_fds=launch.pass_fds,
                began=began,
                running=running,
                cancellation=command.cancellation,
            )
            launch.check_started(result.exit_code, result.stderr)
            return result

    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> Process:
        running = self._running
        launch = self._launch(command, operations, authorize, masks, running)
        try:
            return process.spawn(
                launch.argv,
                cwd=launch.start_in,
                env=launch.env,
                stdin=command.stdin,
                max_output=command.max_output,
                pass_fds=launch.pass_fds,
                running=running,
                owner=self,
                on_end=launch.close,
                check_started=launch.check_started,
            )
        except BaseException:
            launch.close()
            raise

    def _launch(
        self,
        command: Command,
        operations: Operations,
        authorize: Authorize,
        masks: tuple[Masks, ...] | None,
        running: Running,
    ) -> Launch:
        """Judge *command* and make it ready to be started."""
        root = self._root
        check_user(command.user)
        for operation in operations:
            authorize(operation, (command.text,))
        typed, spot, info = self._existing(command.cwd, ("ls",), authorize)
        settle(("ls",), authorize, tuple(dict.fromkeys((typed, spot.real))), spot.identity)
        if not stat.S_ISDIR(info.st_mode):
            raise PathNotDirectoryError(command.cwd)
        cwd = self._open_same(spot, command.cwd, _DIRECTORY)
        return self._terms.launch(command, root, cwd, spot.real, masks, running)


def _exposed(paths: Sequence[str | PathLike[str]]) -> tuple[str, ...]:
    """The absolute names of *paths*; links in them are resolved for each command."""
    if isinstance(paths, str | bytes) or not isinstance(paths, Sequence):
        raise InvalidArgumentError(f"expose: {paths!r} is not a sequence of paths")
    return tuple(host_name(path, "expose") for path in paths)


def _network(network: bool | None) -> bool | None:
    if network is not None and not isinstance(network, bool):
        raise InvalidArgumentError(f"network: {network!r} is none of None, False and True")
    return network


def _limits(limits: Limits | None) -> Limits:
    if limits is not None and not isinstance(limits, Limits):
        raise InvalidArgumentError(f"limits: {limits!r} is not Limits")
    return limits or Limits()
