"""One container: how it is made, found again, made anew, and removed with nothing left over."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from attrs import evolve, frozen
from docker.errors import NotFound

from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.engine import Engine, missing_is_fine, translated
from sandbox_kit.backends.docker.hosting import host_config
from sandbox_kit.backends.docker.ownership import BESIDE, ID, beside_name, container_labels, is_beside, listed_name
from sandbox_kit.backends.docker.plan import Identity, Plan
from sandbox_kit.backends.docker.preparing import Prepared
from sandbox_kit.backends.docker.pulling import look_up
from sandbox_kit.backends.docker.terms import Terms
from sandbox_kit.backends.docker.workspace import make_volume, remove_volume
from sandbox_kit.errors import SandboxConflictError, UnsupportedError

__all__ = ["Up", "beside", "bring_up", "drop_kept", "end", "known_masks"]

CONFIG = "sandbox-kit.config"
RULES = "sandbox-kit.rules"
"""What tells the rules apart that it was started under."""

PLAN = "sandbox-kit.plan"
MASKED = "sandbox-kit.masked"
"""What is masked in it: the plan's digest; and device and inode of each thing, to know it by another name."""

_KEPT = "sandbox-kit/kept"
"""The images of what kept containers held that had to be made anew."""

_REMOVED_WITHIN = 10
"""Seconds that another, such as the engine itself, may take to remove a container."""

_MADE_WITHIN = 10.0
"""Seconds that another process may take to make one whose name it has taken."""

_PAUSE = 0.05
_IDENTITY = re.compile("([0-9]{1,20}):([0-9]{1,20})")
_NOT_BEGUN = ("created", "exited")


@frozen
class Up:
    """A container that runs.

    Attributes:
        id: the engine's.
        new: whether it was made.
        joined: whether it ran before, so that others may use it.
        masked: whether it was made to hide anything.
    """

    id: str
    new: bool
    joined: bool
    masked: bool


@contextmanager
def bring_up(engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared, plan: Plan) -> Iterator[Up]:
    """Have the container run, the one that exists or a new one; if the block fails, remove what this made.

    One that is stopped and was made by another plan is made anew, with what it holds.

    Raises:
        SandboxConflictError: a stranger's container or volume, or a container of another configuration, has the name.
        InvalidArgumentError: the engine refuses a limit, network mode or OCI runtime.
        SandboxUnavailableError: the engine could not, or has no such network.
        UnsupportedError: the container is kept, and the plan mounts parts of a workspace that others may change.
    """
    if terms.persist and plan.again and not terms.workspace.ours:
        raise UnsupportedError(
            "persist: rules that name directories are not held for a container that is kept, in a workspace that "
            "is not its own: what it was left with could take part in mounting them"
        )
    with ExitStack() as undo:
        up = _obtain(undo, engine, name, sandbox_id, terms, prepared, plan)
        start(engine, up.id)
        yield up
        undo.pop_all()


def _obtain(
    undo: ExitStack, engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared, plan: Plan
) -> Up:
    """The container; *undo* is told how to leave all as it was."""
    until = time.monotonic() + _MADE_WITHIN
    while (found := find(engine, name, sandbox_id, terms)) is None or _is_outdated(found, terms, plan):
        if found is not None:
            _check_volumes(found, terms)
            _take_apart(engine, found["Id"], sandbox_id, terms)
        image = _kept_image(engine, sandbox_id, terms) or prepared.image
        made = _make(undo, engine, name, sandbox_id, terms, evolve(prepared, image=image), plan)
        if made is not None:
            return Up(made, new=True, joined=False, masked=plan != Plan())
        if time.monotonic() > until:
            raise SandboxConflictError(f"another process has taken the name {name!r}, but made no container")
        time.sleep(_PAUSE)
    status, labels = found["State"]["Status"], found["Config"]["Labels"]
    if status == "exited":
        undo.callback(halt, engine, found["Id"])
    return Up(str(found["Id"]), new=False, joined=status not in _NOT_BEGUN, masked=bool(labels.get(PLAN)))


def _is_outdated(found: Mapping[str, Any], terms: Terms, plan: Plan) -> bool:
    """Whether a container that is to be started holds other rules, or masks something else than *plan*."""
    labels, wanted = found["Config"]["Labels"], (terms.rules, plan.digest())
    return found["State"]["Status"] in _NOT_BEGUN and (labels.get(RULES, ""), labels.get(PLAN, "")) != wanted


def _check_volumes(found: Mapping[str, Any], terms: Terms) -> None:
    """Check that an image of a container that is to be kept would hold all of it.

    Raises:
        UnsupportedError: it has volumes of the image's making.
    """
    mounts = [each for each in found["Mounts"] if each["Type"] == "volume" and each["Name"] != terms.workspace.source]
    if terms.persist and mounts:
        places = ", ".join(sorted(each["Destination"] for each in mounts))
        raise UnsupportedError(
            f"persist: the rules, or what they mask, have changed, and the container cannot be made anew with what its "
            f"image keeps in volumes ({places}): start it under the rules that it had, or stop(purge=True)"
        )


def _take_apart(engine: Engine, container: str, sandbox_id: str, terms: Terms) -> None:
    """Remove a container that is stopped, and make an image of what it held, if that is to be kept.

    One that another process has started meanwhile is left to it.
    """
    if terms.persist:
        with translated():
            engine.api.commit(container, repository=_KEPT, tag=sandbox_id)
    try:
        with missing_is_fine():
            engine.api.remove_container(container, v=True)
    except SandboxConflictError:
        drop_kept(engine, sandbox_id)


def _kept_image(engine: Engine, sandbox_id: str, terms: Terms) -> str | None:
    """The image of what a container of the same configuration held, which was taken apart."""
    found = look_up(engine, f"{_KEPT}:{sandbox_id}") if terms.persist else None
    ours = found is not None and (found["Config"]["Labels"] or {}).get(CONFIG) == terms.digest()
    return str(found["Id"]) if found is not None and ours else None


def known_masks(engine: Engine, name: str, sandbox_id: str, rules: str) -> frozenset[Identity]:
    """Device and inode of what was masked in a sandbox's container; nothing where there is none, or other *rules* held.

    Raises:
        SandboxConflictError: what is told of that cannot be read, so the library did not say it.
    """
    found = _look_up(engine, name)
    labels = (found["Config"]["Labels"] or {}) if found else {}
    told = labels.get(MASKED, "") if (labels.get(ID), labels.get(RULES)) == (sandbox_id, rules) else ""
    pairs = [_IDENTITY.fullmatch(pair) for pair in told.split(",") if pair]
    if None in pairs:
        raise SandboxConflictError(f"the container {name!r} was not made by this library: stop it first")
    return frozenset((int(pair[1]), int(pair[2])) for pair in pairs if pair)


def _make(
    undo: ExitStack, engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared, plan: Plan
) -> str | None:
    """Make the volume, where it is the library's, and the container.

    Returns:
        The container's id; None where another was quicker, to whom the volume is left.
    """
    with ExitStack() as failing:
        make_volume(failing, engine, sandbox_id, terms)
        try:
            container = create(engine, name, sandbox_id, terms, prepared, plan)
        except SandboxConflictError:
            failing.pop_all()
            return None
        undo.push(failing.pop_all())
    undo.callback(remove, engine, container)
    return container


@contextmanager
def beside(engine: Engine, sandbox_id: str, terms: Terms, prepared: Prepared) -> Iterator[str]:
    """Have a container run that sees the workspace as it is; if the block fails, remove what this made.

    Yields:
        Its id. It is this process's own, and holds nothing.
    """
    name = beside_name(sandbox_id)
    alone = evolve(terms, persist=False, network="none", labels={**terms.labels, BESIDE: "yes"})
    with ExitStack() as undo:
        make_volume(undo, engine, sandbox_id, terms)
        container = create(engine, name, sandbox_id, alone, prepared, Plan())
        undo.callback(remove, engine, container)
        start(engine, container)
        yield container
        undo.pop_all()


def end(engine: Engine, name: str, sandbox_id: str, terms: Terms, *, keep: bool, purge: bool) -> None:
    """Remove the containers, or *keep* the one that runs commands, stopped.

    With *purge* remove the volume too, if the library made it. What is gone, or is another's, is left as it is.

    Raises:
        SandboxUnavailableError: the engine cannot be reached, or another container uses the volume.
    """
    found = _look_up(engine, name)
    if found is not None and (found["Config"]["Labels"] or {}).get(ID) == sandbox_id:
        if keep and not purge:
            halt(engine, found["Id"])
        else:
            remove(engine, found["Id"])
    _end_beside(engine, sandbox_id)
    if purge:
        drop_kept(engine, sandbox_id)
        if terms.workspace.ours:
            remove_volume(engine, terms.workspace.source, sandbox_id)


def _end_beside(engine: Engine, sandbox_id: str) -> None:
    """Remove what serves file calls."""
    with translated():
        found = engine.api.containers(all=True, filters={"label": [f"{ID}={sandbox_id}", f"{BESIDE}=yes"]})
    for each in found:
        if is_beside(listed_name(each), each["Labels"]):
            remove(engine, each["Id"])


def drop_kept(engine: Engine, sandbox_id: str) -> None:
    """Remove the image of what a kept container held."""
    with suppress(SandboxConflictError), missing_is_fine():
        engine.api.remove_image(f"{_KEPT}:{sandbox_id}")


def find(engine: Engine, name: str, sandbox_id: str, terms: Terms) -> dict[str, Any] | None:
    """The container that has *name*, as the engine describes it; None where there is none.

    Raises:
        SandboxConflictError: it is a stranger's, has another configuration, or runs under other rules.
    """
    found = _look_up(engine, name)
    if found is None:
        return None
    labels = found["Config"]["Labels"] or {}
    if labels.get(ID) != sandbox_id:
        raise SandboxConflictError(f"the container {name!r} is not a sandbox's: choose another sandbox_id")
    if labels.get(CONFIG) != terms.digest():
        raise SandboxConflictError(f"sandbox {sandbox_id!r} exists with another configuration: stop it first")
    if found["State"]["Status"] not in _NOT_BEGUN and labels.get(RULES, "") != terms.rules:
        raise SandboxConflictError(f"sandbox {sandbox_id!r} runs under other rules: stop it first")
    return found


def _look_up(engine: Engine, name: str) -> dict[str, Any] | None:
    with translated():
        try:
            return dict(engine.api.inspect_container(name))
        except NotFound:
            return None


def create(engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared, plan: Plan) -> str:
    """Make the container; return its id.

    Raises:
        InvalidArgumentError: the engine refuses a limit, network mode or OCI runtime.
        SandboxConflictError: the name is taken by now.
        SandboxUnavailableError: the engine could not.
    """
    labels = {**container_labels(sandbox_id, terms), CONFIG: terms.digest(), RULES: terms.rules, **_plan_labels(plan)}
    with translated():
        made = engine.api.create_container(
            prepared.image,
            command=["-c", leases.watch_script(terms.lease)],
            entrypoint=list(prepared.shell),
            name=name,
            user="0:0",
            working_dir="/",
            hostname="sandbox",
            environment={name: "" for name in prepared.env if name.startswith("LD_")},
            stdin_open=True,
            labels=labels,
            healthcheck={"test": ["NONE"]},
            host_config=host_config(engine, terms, plan),
        )
    return str(made["Id"])


def _plan_labels(plan: Plan) -> dict[str, str]:
    """Those of what is masked; given where nothing is, too, as the image of a kept container has its own."""
    return {PLAN: plan.digest(), MASKED: ",".join(f"{device}:{inode}" for device, inode in sorted(plan.masked))}


def start(engine: Engine, container: str) -> None:
    """Start a container; one that runs is fine.

    Raises:
        SandboxUnavailableError: the engine could not.
    """
    with translated():
        engine.api.start(container)


def halt(engine: Engine, name: str) -> None:
    """End what runs in a container, and keep it; one that is stopped or gone is fine."""
    with suppress(SandboxConflictError), missing_is_fine():
        engine.api.kill(name)
        engine.api.wait(name, timeout=10)


def remove(engine: Engine, name: str) -> None:
    """Remove a container, running or not; one that is gone, or being removed by another, is fine."""
    try:
        with missing_is_fine():
            engine.api.remove_container(name, v=True, force=True)
    except SandboxConflictError:
        with missing_is_fine():
            engine.api.wait(name, timeout=_REMOVED_WITHIN, condition="removed")
