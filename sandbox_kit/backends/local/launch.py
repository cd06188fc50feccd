"""What it takes to start one command: its arguments and environment, and what must stay open until its end."""

from __future__ import annotations

import os
import pwd
import resource
from collections.abc import Mapping, Sequence
from functools import partial

from attrs import frozen

from sandbox_kit.backends.local import confine
from sandbox_kit.backends.local.environment import command_environment
from sandbox_kit.backends.local.running import Running
from sandbox_kit.backends.local.scratch import tidy
from sandbox_kit.cancelling import Cancellation
from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError, UnsupportedError
from sandbox_kit.host.aside import aside
from sandbox_kit.host.pin import Root
from sandbox_kit.host.system import Descriptor
from sandbox_kit.primitives import Command, Masks
from sandbox_kit.types import Limits

__all__ = ["Launch", "Terms", "check_size", "check_user"]

_MAX_STRING = 32 * 4096
_MAX_TOTAL = 6 * 2**20
_SMALL = _MAX_STRING - 8192
"""What all kernels take, in bytes, of which a character has at most four."""
_SLACK = 8192
"""What the launcher adds to a command's own arguments, at most, and the kernel to them, in bytes."""


@frozen
class Launch:
    """A command ready to be started. Close it when the tree is dead; closing twice is fine.

    Attributes:
        argv: the whole argument vector.
        env: the environment to start it in.
        cwd: the directory that the command is to start in.
        prepared: what confines it; None for a plain process.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Descriptor
    prepared: confine.Prepared | None = None

    @property
    def start_in(self) -> int | str:
        """The directory to start *argv* in: what confines a command enters the command's own by itself."""
        return self.cwd.fd if self.prepared is None else "/"

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """Descriptors that the command is started with, under the same numbers."""
        return () if self.prepared is None else self.prepared.pass_fds

    def check_started(self, exit_code: int | None, complaint: str) -> None:
        """Tell a command that failed from one whose confinement did, after its end.

        Args:
            exit_code: how it ended.
            complaint: what was printed to its standard error, or the end of it.

        Raises:
            SandboxUnavailableError: the command was never started; says why.
        """
        if exit_code and self.prepared is not None:
            self.prepared.check_started(complaint)

    def close(self) -> None:
        """Close the directory, and leave the workspace to others."""
        self.cwd.close()
        if self.prepared is not None:
            aside(self.prepared.close)

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@frozen
class Terms:
    """What every command of one sandbox is held to.

    Attributes:
        expose: host paths that confined commands see, read-only.
        network: None keeps commands off it where that can be held, False always, True lets them on.
        limits: ceilings.
    """

    expose: tuple[str, ...]
    network: bool | None
    limits: Limits

    def check(self, work_dir: str, *, ours: bool = False) -> None:
        """Check that they can be held over *work_dir* on this machine.

        Args:
            ours: the workspace is yet to be made, in *work_dir*.

        Raises:
            UnsupportedError: one cannot; names the option. Or what confines commands lies in *work_dir*.
        """
        reason = confine.obstacle(work_dir)
        if reason is None:
            confine.check_launcher(work_dir)
            if not ours:
                confine.check_scratch(work_dir)
            tidy()
        if self.network is False and reason is not None:
            raise UnsupportedError(f"network=False cannot be held: {reason}")
        confine.check_limits(self.limits, reason)

    def launch(
        self,
        command: Command,
        root: Root,
        cwd: Descriptor,
        name: str,
        masks: tuple[Masks, ...] | None,
        running: Running,
    ) -> Launch:
        """Make *command* ready.

        Args:
            root: the workspace.
            cwd: the directory to start in; the launch closes it.
            name: its real name.
            masks: what the kernel must hide; None for a command that it is not to confine.
            running: what the command will belong to; its end ends the wait for others in the workspace.

        Raises:
            InvalidArgumentError: its arguments and environment are more than the kernel starts a program with.
            UnsupportedError: what it is held to cannot be held; names it.
            SandboxClosedError: *running* was ended while it waited.
            SandboxTimeoutError: commands held to other masks live in the workspace all the time.
            PolicyError: the workspace, or what is exposed, changed while the masks were made.
        """
        wait = _Wait(running, command.cancellation)
        env = command_environment(root.name, command.env)
        check_size(command.argv, env)
        if masks is None or self._cannot_confine(root.name, masks):
            self._check_unconfined()
            return Launch(command.argv, env, cwd)
        prepare = partial(
            confine.prepare,
            root_fd=root.fd,
            work_dir=root.name,
            masks=masks,
            expose=self.expose,
            network=bool(self.network),
            cwd=name,
            env=env,
            limits=self.limits,
            timeout=command.timeout,
            check=wait.check,
        )
        try:
            prepared = aside(prepare)
        except BaseException:
            wait.broken_off = True
            raise
        return Launch(prepared.command(command.argv), prepared.env, cwd, prepared)

    def _cannot_confine(self, work_dir: str, masks: tuple[Masks, ...]) -> bool:
        reason = confine.obstacle(work_dir)
        if reason is not None and masks:
            raise UnsupportedError(f"files cannot be hidden from commands: {reason}")
        return reason is not None

    def _check_unconfined(self) -> None:
        if self.network is False:
            raise UnsupportedError("network=False cannot be held for a command that is not confined")
        confine.check_limits(self.limits, "a command that is not confined cannot be held to it")


class _Wait:
    """The wait of a command for others in the workspace.

    Attributes:
        broken_off: whether nobody wants the command any more.
    """

    def __init__(self, running: Running, cancellation: Cancellation) -> None:
        self.broken_off = False
        self._running = running
        self._cancellation = cancellation

    def check(self) -> None:
        """Check that it is to go on.

        Raises:
            SandboxClosedError: somebody has stopped the sandbox.
            SandboxUnavailableError: it was broken off.
            Cancelled: another thread has cancelled it.
        """
        self._running.check()
        self._cancellation.check()
        if self.broken_off:
            raise SandboxUnavailableError("the wait for others in the workspace was broken off")


def check_size(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Check that the kernel can start a program with *argv* and *env*, which it holds to sizes.

    Raises:
        InvalidArgumentError: a word or variable takes 128 KiB or more, or all together more than the stack may.
    """
    characters = sum(map(len, argv)) + sum(map(len, env)) + sum(map(len, env.values()))
    if 4 * characters + 10 * (len(argv) + len(env)) < _SMALL:
        return
    words = [*argv, *(f"{name}={value}" for name, value in env.items())]
    sizes = [len(os.fsencode(word)) + 1 for word in words]
    if max(sizes) > _MAX_STRING:
        raise InvalidArgumentError(
            f"a word of a command, or a variable of its environment, takes {max(sizes)} bytes: "
            f"at most {_MAX_STRING} can be passed; use stdin or a file"
        )
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    room = _MAX_TOTAL if stack == resource.RLIM_INFINITY else min(_MAX_TOTAL, max(stack // 4, _MAX_STRING))
    if (total := sum(sizes) + 8 * len(sizes)) > room - _SLACK:
        raise InvalidArgumentError(
            f"a command and its environment take {total} bytes: at most {room - _SLACK} can be passed; "
            "use stdin or a file"
        )


def check_user(user: str | int | None) -> None:
    """Check that commands run as *user* anyway.

    Raises:
        UnsupportedError: it is another one than this process runs as.
    """
    if user is None or user == os.geteuid():
        return
    if not isinstance(user, str) or _user_id(user) != os.geteuid():
        raise UnsupportedError(f"user={user!r}: local commands run as the user that this process runs as")


def _user_id(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None
