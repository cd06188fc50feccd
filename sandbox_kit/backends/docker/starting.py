"""The start of a sandbox: an ordered checklist that leaves nothing behind where a step fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

from attrs import evolve, frozen

from sandbox_kit.backends.docker import container as containers
from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.building import build
from sandbox_kit.backends.docker.engine import Engine, connect
from sandbox_kit.backends.docker.files import Aside, DockerFiles
from sandbox_kit.backends.docker.plan import Identity, Plan
from sandbox_kit.backends.docker.planning import plan_masks
from sandbox_kit.backends.docker.preparing import Prepared, prepare
from sandbox_kit.backends.docker.proof import prove, prove_sources
from sandbox_kit.backends.docker.running import Running
from sandbox_kit.backends.docker.shellcopy import PLACE
from sandbox_kit.backends.docker.terms import Terms
from sandbox_kit.backends.shell.line import Reply
from sandbox_kit.errors import InvalidArgumentError, PathAccessError, PolicyError, UnsupportedError
from sandbox_kit.joint_masks import JointMasks
from sandbox_kit.primitives import MaskSource
from sandbox_kit.runtime import Runtime

__all__ = ["Started", "start"]

_OPEN_PLACE = f"if mkdir {PLACE}/open; then rmdir {PLACE}/open; else c=1; fi"
"""Tells in ``$c`` whether the place of the shell's copy is one that commands cannot change, as it was asked for."""

_PROBE = """\
cd -P . && [ -w . ] && [ -x . ]; c=$?; printf %s "$PWD" >&8
if m=$(LC_ALL=C mkdir {name} 2>&1); then rmdir {name}
else case $m in *[Pp]ermission*|*[Rr]ead-only*) c=1;; esac; fi
cd /"""
"""Tells the directory's real name, and in ``$c`` whether one can work here.

Some shells tell root that of any directory; a full disk is no reason.
"""

_ANSWER_WITHIN = 30.0
"""Seconds that a look into a new container may take."""


@frozen
class Started:
    """What was started.

    Attributes:
        running: the container that runs commands.
        aside: the one that has what is masked there; None where nothing is.
        new: whether the first was made, and did not run before.
        work_dir: the real name of the work directory there; empty where it was not looked at.
    """

    running: Running
    aside: Aside | None
    new: bool
    work_dir: str

    def close(self) -> None:
        """Let go of every shell."""
        self.running.close()
        if self.aside is not None:
            self.aside.running.close()

    def end_aside(self) -> None:
        """Remove what stands aside: it is this process's own, whoever made the other."""
        if self.aside is not None:
            self.aside.running.close()
            containers.remove(self.running.engine, self.aside.running.container)


def start(files: DockerFiles, name: str, sandbox_id: str, terms: Terms, masks: tuple[MaskSource, ...]) -> Started:
    """Have the containers of a sandbox run.

    Args:
        files: the sandbox; its prefixes are resolved in what stands aside while that is all there is.
        name: of the container that runs commands.
        masks: whose rules it has to hold.

    Raises:
        as the constructor of :class:`~sandbox_kit.DockerSandbox` tells, and
        PolicyError: what rules mask changed while it was masked.
        UnsupportedError: the masks cannot be held, or the image has no shell.
    """
    engine = connect()
    prepared = _prepared(engine, terms)
    with (
        _planned(files, engine, name, sandbox_id, terms, prepared, masks) as (plan, aside),
        containers.bring_up(engine, name, sandbox_id, terms, prepared, plan) as up,
        _opened(engine, up.id, terms, prepared) as running,
    ):
        hides = up.masked and _check_masks(running, plan, terms, joined=up.joined)
        real = "" if plan.frozen else _check_work_dir(running, terms)
        running.isolated = running.isolated and _is_closed(running)
        if not up.new:
            running.renew()
        started = Started(running, aside, up.new, real)
        if not hides:
            started.end_aside()
    return started if hides else evolve(started, aside=None)


def _prepared(engine: Engine, terms: Terms) -> Prepared:
    name = build(engine, terms.image) if isinstance(terms.image, Runtime) else terms.image
    prepared = prepare(engine, name, user=terms.user, work_dir=terms.work_dir)
    if not prepared.shell:
        raise UnsupportedError(f"the image {name!r} has no /bin/sh, which commands and files need")
    return prepared


@contextmanager
def _planned(
    files: DockerFiles,
    engine: Engine,
    name: str,
    sandbox_id: str,
    terms: Terms,
    prepared: Prepared,
    masks: tuple[MaskSource, ...],
) -> Iterator[tuple[Plan, Aside | None]]:
    """Tell what to mask, and what stands aside for the look; if the block fails, that is gone again."""
    if not masks:
        yield Plan(), None
        return
    with (
        containers.beside(engine, sandbox_id, terms, prepared) as container,
        _opened(engine, container, terms, prepared) as running,
    ):
        files._aside = Aside(running)
        known = containers.known_masks(engine, name, sandbox_id, terms.rules)
        try:
            plan = _plan(files, terms, masks, known)
            try:
                yield plan, Aside(running, plan.outside.hidden, plan.fixed | known)
            except InvalidArgumentError as error:
                if _plan(files, terms, masks, known) == plan:
                    raise
                raise PolicyError(["what the rules mask changed while the container was made"]) from error
        finally:
            files._aside = None


def _plan(files: DockerFiles, terms: Terms, masks: tuple[MaskSource, ...], known: frozenset[Identity]) -> Plan:
    rules = JointMasks([each.masks() for each in masks])
    return plan_masks(files._line_to("/"), terms.work_dir, rules, known)


@contextmanager
def _opened(engine: Engine, container: str, terms: Terms, prepared: Prepared) -> Iterator[Running]:
    """Use a container, and have its lease renewed; if the block fails, let go of it."""
    running = Running(engine, container, prepared, work_dir=terms.work_dir, env=terms.env)
    with ExitStack() as failing:
        failing.callback(running.close)
        yield running
        leases.keep(running.renew, terms.lease)
        failing.pop_all()


def _check_masks(running: Running, plan: Plan, terms: Terms, *, joined: bool) -> bool:
    """Check that what was to be masked is; whether anything is.

    Args:
        joined: others use the container, whose commands may have renamed what a mask is on.
    """
    until = time.monotonic() + _ANSWER_WITHIN
    with running.shells().lease() as loop:
        if joined:
            prove_sources(loop, terms.work_dir, until)
            return True
        there = prove(loop, plan, terms.work_dir, until)
    return plan.in_workspace or bool(there)


def _is_closed(running: Running) -> bool:
    """Whether commands cannot change what the shells run: root's could where an engine makes nothing read-only."""
    if not running.user.startswith("0:"):
        return True
    with running.shells().lease() as loop:
        return loop.run(_OPEN_PLACE, _nowhere, time.monotonic() + _ANSWER_WITHIN) != 0


def _check_work_dir(running: Running, terms: Terms) -> str:
    """Check that commands can work in the work directory; return its real name.

    Raises:
        PathAccessError: they cannot.
    """
    reply = Reply()
    with running.shells().lease() as loop:
        deadline = time.monotonic() + _ANSWER_WITHIN
        code = loop.run(_PROBE.format(name=f".sandbox-kit-{uuid4().hex}"), reply.take, deadline)
    if code:
        told = f"user {running.user} cannot write there: run as another user, or give them the directory"
        raise PathAccessError(terms.work_dir, told)
    return reply.out.decode("utf-8", "surrogateescape")


def _nowhere(_stream: str, _data: bytes) -> None:
    """Take output that is of no interest."""
