"""DockerSandbox: files and commands in a container of a Docker engine."""

from __future__ import annotations

import logging
import os
import time
import warnings
import weakref
from collections.abc import Callable, Collection, Mapping
from os import PathLike
from typing import Any, Literal
from uuid import uuid4

from attrs import evolve, frozen

from sandbox_kit.arguments import check_timeout, command
from sandbox_kit.backends.docker import container as containers
from sandbox_kit.backends.docker.engine import Engine, connect
from sandbox_kit.backends.docker.files import Aside, DockerFiles
from sandbox_kit.backends.docker.running import Running
from sandbox_kit.backends.docker.starting import Started, start
from sandbox_kit.backends.docker.terms import (
    NAME,
    Terms,
    check_flag,
    check_labels,
    check_limits,
    check_text,
    check_work_dir,
    check_workspace,
    digest_rules,
)
from sandbox_kit.backends.shell.loop import Take
from sandbox_kit.contract import Backend, Process, Sandbox
from sandbox_kit.errors import (
    CommandTimeoutError,
    InvalidArgumentError,
    SandboxClosedError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.host.turns import TurnTimeoutError
from sandbox_kit.output import Capture
from sandbox_kit.primitives import Authorize, Command, Masks, MaskSource, Operations
from sandbox_kit.rules.checker import PermissionChecker
from sandbox_kit.rules.masks import RuleMasks
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.runtime import Runtime
from sandbox_kit.types import Capabilities, CommandResult, Limits, Usage, parse_size

__all__ = ["DockerSandbox"]

_log = logging.getLogger("sandbox_kit")


class DockerSandbox(DockerFiles, Sandbox):
    """Files and commands in a container.

    Commands run without capabilities and cannot gain any, and **without a network unless one is
    asked for**. What they leave running ends with them. The engine is the one that
    ``DOCKER_HOST`` names; it may be on another machine.

    The kernel hides from commands what the rules of a guard deny, if the guard is made, and started, before
    the sandbox is.

    ``stop()`` removes the container and keeps the workspace. ``stop(purge=True)`` removes the
    workspace too if the library made it: the volume that it is without *workspace*.

    Args:
        image: a name, tag or id, pulled if the engine does not have it; or a :class:`Runtime`, built once.
        sandbox_id: 1 to 64 of ``A-Za-z0-9._-``, the first alphanumeric. A sandbox of this name that exists,
            here or in another process, is the one that ``start()`` begins to use. None makes one up, and
            leaving ``with`` then removes the workspace too, unless *workspace* is given.
        workspace: a directory of the engine's machine, as a path or a text with a slash; or a volume's name.
            None is a volume of the sandbox's own.
        work_dir: where it is mounted; ``/workspace``, unless a Runtime says otherwise.
        user: whom commands run as, a name or uid, a group may follow after ``:``. None is the image's own.
        limits: ceilings, held by the engine.
        network: a network mode of the engine: ``"none"``, ``"bridge"``, or a network's name.
        read_only: whether the root file system is; ``/tmp`` and the workspace stay writable.
        oci_runtime: such as ``"runsc"`` or ``"kata"``; None is the engine's own.
        env: variables for every command.
        labels: for the container and its volume; none may begin with ``sandbox-kit.``.
        persist: whether ``stop()`` keeps the container, stopped, with what was installed in it.
        lease: seconds after which the container ends by itself when no process that started the sandbox
            lives any more to renew it; None for never.
        default_timeout: the time limit of a command that gives none, in seconds; None for no limit.
        max_read_bytes, file_timeout: as for every backend.

    Raises:
        InvalidArgumentError: an argument that no sandbox could have; at the start, one that the engine refuses.
        SandboxUnavailableError: at the start: no engine, or no such image.
        SandboxConflictError: at the start: a stranger's container or volume, or a container of another configuration,
            has the name.
        PathAccessError: at the start: commands could not write to the workspace.
        UnsupportedError: at the start: the image has no shell, or the kernel cannot hold the rules; names what.
        PolicyError: at the start: what rules hide became a link, or was exchanged, while it was masked.
    """

    _ends_when_dropped = True
    """Whether the container that this process made ends when the handle is dropped, or the process exits."""

    def __init__(
        self,
        image: str | Runtime,
        *,
        sandbox_id: str | None = None,
        workspace: str | PathLike[str] | None = None,
        work_dir: str | None = None,
        user: str | int | None = None,
        limits: Limits | None = None,
        network: str = "none",
        read_only: bool = False,
        oci_runtime: str | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        persist: bool = False,
        lease: float | None = 120.0,
        default_timeout: float | None = None,
        max_read_bytes: int | str = Backend.max_read_bytes,
        file_timeout: float = Backend.file_timeout,
    ) -> None:
        given = command(":", env=env, user=user)
        self._sandbox_id = uuid4().hex[:12] if sandbox_id is None else _checked_id(sandbox_id)
        self._temporary = sandbox_id is None and workspace is None
        self._terms = Terms(
            image=image if isinstance(image, Runtime) else check_text(image, "image"),
            work_dir=check_work_dir(work_dir, image),
            workspace=check_workspace(workspace, self._sandbox_id, temporary=self._temporary),
            user=None if user is None else str(user),
            network=check_text(network, "network"),
            read_only=check_flag(read_only, "read_only"),
            oci_runtime=None if oci_runtime is None else check_text(oci_runtime, "oci_runtime"),
            limits=check_limits(limits),
            labels=check_labels(labels),
            env=given.env,
            persist=check_flag(persist, "persist"),
            lease=check_timeout(lease, "lease"),
        )
        self.default_timeout = check_timeout(default_timeout, "default_timeout")
        self.max_read_bytes = parse_size(max_read_bytes, "max_read_bytes")
        self.file_timeout = check_timeout(file_timeout, "file_timeout") or Backend.file_timeout
        self._begin()

    def _begin(self) -> None:
        Sandbox.__init__(self)
        self._running: Running | None = None
        self._aside: Aside | None = None
        self._held: tuple[PermissionRuleset, ...] = ()
        self._begun: _Begun | None = None

    def __getstate__(self) -> dict[str, Any]:
        left_out = {"_life", "_running", "_aside", "_held", "_begun"}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become a copy: a reference to a sandbox, of which leaving ``with`` discards nothing."""
        self.__dict__.update(state)
        self._temporary = False
        self._terms = evolve(self._terms, workspace=evolve(self._terms.workspace, temporary=False))
        self._begin()

    def __repr__(self) -> str:
        return f"DockerSandbox({self._terms.image!r}, sandbox_id={self._sandbox_id!r})"

    @property
    def id(self) -> str:
        return self._sandbox_id

    @property
    def temporary(self) -> bool:
        return self._temporary

    @property
    def work_dir(self) -> str:
        return self._terms.work_dir

    @property
    def name(self) -> str:
        """The container's name on the engine."""
        return f"sandbox-kit-{self._sandbox_id}"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            commands="confined" if self._running is None or self._held else "inspected",
            channel="isolated" if self._running is None or self._running.isolated else "shared",
            network_off=True,
            symlinks=True,
            users=True,
            spawn=True,
            case_sensitive=True,
        )

    def stop(self, purge: bool = False, *, remove: bool | None = None) -> None:
        """End every command and remove the container; the workspace's files stay.

        Args:
            purge: remove the workspace's volume too, *if the library made it*, and the container that
                ``persist=True`` keeps.
            remove: taken for *purge*, with a warning; for callers who know it from elsewhere.

        Stopping twice, or what is gone, is no error. In a process forked from the one that started it,
        this only lets go of the handle.

        Raises:
            SandboxUnavailableError: the engine cannot be reached; the stop can be repeated.
        """
        if remove is not None:
            warnings.warn("stop(remove=...) means stop(purge=...)", DeprecationWarning, stacklevel=2)
        Sandbox.stop(self, purge or bool(remove))

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        if self._running is None or ruleset in self._held:
            return True
        return not RuleMasks(PermissionChecker(ruleset, self.work_dir), self.work_dir).any()

    def _start(self, masks: tuple[MaskSource, ...] = ()) -> None:
        held = tuple(source.ruleset for source in masks)
        if self._running is not None:
            self._check_held(held)
            return
        started = start(self, self.name, self._sandbox_id, self._terms_under(masks), masks)
        ours = self._ends_when_dropped and (started.new or self._begun is not None)
        self._let_go()
        self._begun = self._end_with_me(started, ours=ours)
        self._running, self._aside, self._held, self._base = started.running, started.aside, held, None
        self._entered = started.work_dir

    def _terms_under(self, masks: tuple[MaskSource, ...]) -> Terms:
        """What a container is made with that holds the rules of *masks*."""
        held = tuple(source.ruleset for source in masks)
        return evolve(self._terms, rules=digest_rules(held))

    def _check_held(self, wanted: Collection[PermissionRuleset]) -> None:
        """Check that the kernel holds rules for commands.

        Raises:
            UnsupportedError: it does not; what it holds is settled at the start.
        """
        if any(ruleset not in self._held for ruleset in wanted):
            raise UnsupportedError(
                f"{self!r} was started without these rules, which the kernel then cannot hold for its commands: "
                "stop it, and start it by its guard"
            )

    def _end_with_me(self, started: Started, *, ours: bool) -> _Begun:
        ending = self._ending(purge=self._temporary) if ours else _nothing
        finalizer = weakref.finalize(self, _end_quietly, started, ending, os.getpid())
        return _Begun(started, os.getpid(), finalizer)

    def _ending(self, *, purge: bool) -> Callable[[Engine], None]:
        name, sandbox_id, terms, keep = self.name, self._sandbox_id, self._terms, self._terms.persist
        return lambda engine: containers.end(engine, name, sandbox_id, terms, keep=keep, purge=purge)

    def _stop(self, purge: bool) -> None:
        begun, self._running, self._aside, self._held = self._begun, None, None, ()
        if begun is not None and begun.pid != os.getpid():
            self._temporary = False
        else:
            if begun is not None:
                begun.started.close()
            self._ending(purge=purge)(connect() if begun is None else begun.started.running.engine)
        self._let_go()

    def _let_go(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.finalizer.detach()

    def _is_alive(self) -> bool:
        return self._running is not None and self._running.is_alive()

    def _usage(self) -> Usage:
        return self._up().usage()

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        began, running = time.monotonic(), self._up()
        cwd = self._judge(command, operations, authorize, masks)
        capture = Capture(command.max_output, command.on_output)
        take = _Taker(capture.feed)
        deadline = None if command.timeout is None else began + command.timeout
        try:
            code = self._run_to_end(running, command, cwd, take, deadline)
        except TurnTimeoutError as error:
            raise SandboxTimeoutError(str(error), command.timeout) from error
        except SandboxTimeoutError as error:
            if error is take.raised or deadline is None or time.monotonic() < deadline:
                raise
            raise CommandTimeoutError(capture.result(None, time.monotonic() - began), command.timeout) from error
        return capture.result(code, time.monotonic() - began)

    def _run_to_end(self, running: Running, command: Command, cwd: str, take: _Taker, deadline: float | None) -> int:
        shells = running.shells(command.user)
        trusted = running.isolated or not self._held
        try:
            if command.stdin is None and trusted and not running.busy:
                listening = command.on_output is not None
                script, cancellation = running.script(command, cwd), command.cancellation
                return shells.run(script, take, deadline, listening=listening, cancellation=cancellation)
            with shells.exclusively(deadline, command.cancellation):
                return running.run(command, cwd, take, deadline)
        except SandboxUnavailableError as error:
            if error is take.raised:
                raise
            if self._running is not running:
                raise SandboxClosedError("the sandbox was stopped while the command ran") from error
            raise SandboxUnavailableError(f"the command was lost: {running.why_gone()}") from error

    def _judge(
        self, command: Command, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None
    ) -> str:
        """Ask for *command*; return the real name of the directory that it starts in."""
        self._check_held([each.ruleset for each in masks or ()])
        for operation in operations:
            authorize(operation, (command.text,))
        return self._directory(command.cwd, authorize)

    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> Process:
        running = self._up()
        if command.user is not None:
            raise UnsupportedError("user: background commands run as users of their own")
        cwd = self._judge(command, operations, authorize, masks)
        return running.spawn(command, cwd, owner=self)


@frozen(eq=False)
class _Begun:
    """What was started, and has not been ended.

    Attributes:
        pid: the process that did.
        finalizer: ends it when the sandbox is dropped.
    """

    started: Started
    pid: int
    finalizer: weakref.finalize[Any, Any]


class _Taker:
    """Passes output on, and remembers an error that taking it raised: that is the caller's own."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self.raised: BaseException | None = None

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        try:
            self._take(stream, data)
        except BaseException as error:
            self.raised = error
            raise


def _end_quietly(started: Started, ending: Callable[[Engine], None], owner: int) -> None:
    """Stop a sandbox that was dropped, or whose process exits; never in a forked child."""
    if os.getpid() != owner:
        return
    started.close()
    try:
        started.end_aside()
        ending(started.running.engine)
    except SandboxError as error:
        _log.warning("a sandbox that was dropped could not be removed: %s", error)


def _nothing(_engine: Engine) -> None:
    """Leave a container to whoever made it."""


def _checked_id(sandbox_id: str) -> str:
    if not isinstance(sandbox_id, str) or not NAME.fullmatch(sandbox_id):
        raise InvalidArgumentError(f"sandbox_id: {sandbox_id!r} is not 1 to 64 of A-Za-z0-9._-, the first alphanumeric")
    return sandbox_id
