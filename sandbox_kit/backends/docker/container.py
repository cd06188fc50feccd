"""One container: what it may do, how it is made, found again, and removed with nothing left over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from docker.errors import NotFound
from docker.types import LogConfig, Mount

from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.engine import Engine, missing_is_fine, translated
from sandbox_kit.backends.docker.preparing import Prepared
from sandbox_kit.backends.docker.shellcopy import PLACE
from sandbox_kit.backends.docker.terms import Terms
from sandbox_kit.errors import SandboxConflictError, SandboxUnavailableError

__all__ = ["bring_up", "end"]

ID = "sandbox-kit.id"
CONFIG = "sandbox-kit.config"

MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""What engines mask by themselves, of which setting any of them takes the place."""

_CPU_PERIOD = 100_000
_REMOVED_WITHIN = 10
"""Seconds that another, such as the engine itself, may take to remove a container."""

_MADE_WITHIN = 10.0
"""Seconds that another process may take to make one whose name it has taken."""

_PAUSE = 0.05


@contextmanager
def bring_up(
    engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared
) -> Iterator[tuple[str, bool]]:
    """Have the container run, the one that exists or a new one; if the block fails, remove what this made.

    Yields:
        Its id, and whether it is new.

    Raises:
        SandboxConflictError: a stranger's container or volume, or a container of another configuration, has the name.
        InvalidArgumentError: the engine refuses a limit, network mode or OCI runtime.
        SandboxUnavailableError: the engine could not, or has no such network.
    """
    with ExitStack() as undo:
        container, new = _obtain(undo, engine, name, sandbox_id, terms, prepared)
        start(engine, container)
        yield container, new
        undo.pop_all()


def _obtain(
    undo: ExitStack, engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared
) -> tuple[str, bool]:
    """The id of the container, and whether it is new; *undo* is told how to leave all as it was."""
    until = time.monotonic() + _MADE_WITHIN
    while (found := find(engine, name, sandbox_id, terms)) is None:
        made = _make(undo, engine, name, sandbox_id, terms, prepared)
        if made is not None:
            return made, True
        if time.monotonic() > until:
            raise SandboxConflictError(f"another process has taken the name {name!r}, but made no container")
        time.sleep(_PAUSE)
    if found["State"]["Status"] == "exited":
        undo.callback(halt, engine, found["Id"])
    return str(found["Id"]), False


def _make(undo: ExitStack, engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared) -> str | None:
    """Make the volume, where it is the library's, and the container.

    Returns:
        The container's id; None where another was quicker, to whom the volume is left.
    """
    with ExitStack() as failing:
        volume = terms.workspace.source
        if terms.workspace.ours and create_volume(engine, volume, sandbox_id):
            failing.callback(_drop_volume, engine, volume, sandbox_id)
        try:
            container = create(engine, name, sandbox_id, terms, prepared)
        except SandboxConflictError:
            failing.pop_all()
            return None
        undo.push(failing.pop_all())
    undo.callback(remove, engine, container)
    return container


def end(engine: Engine, name: str, sandbox_id: str, terms: Terms, *, keep: bool, purge: bool) -> None:
    """Remove the container, or *keep* it stopped; with *purge* remove the volume that the library made.

    What is gone, or is another's, is left as it is.

    Raises:
        SandboxUnavailableError: the engine cannot be reached, or another container uses the volume.
    """
    found = _look_up(engine, name)
    if found is not None and (found["Config"]["Labels"] or {}).get(ID) == sandbox_id:
        if keep and not purge:
            halt(engine, found["Id"])
        else:
            remove(engine, found["Id"])
    if purge and terms.workspace.ours:
        remove_volume(engine, terms.workspace.source, sandbox_id)


def find(engine: Engine, name: str, sandbox_id: str, terms: Terms) -> dict[str, Any] | None:
    """The container that has *name*, as the engine describes it; None where there is none.

    Raises:
        SandboxConflictError: it is a stranger's, or has another configuration.
    """
    found = _look_up(engine, name)
    if found is None:
        return None
    labels = found["Config"]["Labels"] or {}
    if labels.get(ID) != sandbox_id:
        raise SandboxConflictError(f"the container {name!r} is not a sandbox's: choose another sandbox_id")
    if labels.get(CONFIG) != terms.digest():
        raise SandboxConflictError(f"sandbox {sandbox_id!r} exists with another configuration: stop it first")
    return found


def _look_up(engine: Engine, name: str) -> dict[str, Any] | None:
    with translated():
        try:
            return dict(engine.api.inspect_container(name))
        except NotFound:
            return None


def create(engine: Engine, name: str, sandbox_id: str, terms: Terms, prepared: Prepared) -> str:
    """Make the container; return its id.

    Raises:
        InvalidArgumentError: the engine refuses a limit, network mode or OCI runtime.
        SandboxConflictError: the name is taken by now.
        SandboxUnavailableError: the engine could not.
    """
    labels = {**terms.labels, ID: sandbox_id, CONFIG: terms.digest()}
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
            host_config=_host_config(engine, terms),
        )
    return str(made["Id"])


def _host_config(engine: Engine, terms: Terms) -> dict[str, Any]:
    limits = terms.limits
    config = engine.api.create_host_config(
        network_mode=terms.network,
        read_only=terms.read_only,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        auto_remove=not terms.persist,
        log_config=LogConfig(type="none"),
        runtime=terms.oci_runtime,
        mem_limit=limits.mem_limit,
        memswap_limit=limits.memswap_limit,
        cpu_shares=limits.cpu_shares,
        cpu_period=_CPU_PERIOD if limits.cpus else None,
        cpu_quota=int(limits.cpus * _CPU_PERIOD) if limits.cpus else None,
        pids_limit=limits.pids_limit,
        tmpfs=_tmpfs(terms),
        mounts=[_mount(terms)],
    )
    config["MaskedPaths"] = list(MASKED)
    config["ReadonlyPaths"] = [*READ_ONLY, PLACE]
    return dict(config)


def _tmpfs(terms: Terms) -> dict[str, str]:
    mounts = {leases.PLACE: "mode=700,size=64k"}
    size = terms.limits.tmpfs_size
    if size is not None or terms.read_only:
        mounts["/tmp"] = "mode=1777,exec" + (f",size={size}" if size is not None else "")
    return mounts


def _mount(terms: Terms) -> Mount:
    workspace = terms.workspace
    return Mount(terms.work_dir, workspace.source, type="bind" if workspace.bound else "volume")


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


def create_volume(engine: Engine, name: str, sandbox_id: str) -> bool:
    """Make a volume; whether it was not there before.

    Raises:
        SandboxConflictError: a stranger's volume has the name.
    """
    owner = _volume_owner(engine, name)
    if owner == sandbox_id:
        return False
    if owner is not None:
        raise SandboxConflictError(f"the volume {name!r} is not this sandbox's: choose another sandbox_id")
    with translated():
        engine.api.create_volume(name, labels={ID: sandbox_id})
    return True


def _volume_owner(engine: Engine, name: str) -> str | None:
    """The id of the sandbox whose volume has *name*; empty for a stranger's, None where there is none."""
    with translated():
        try:
            return str((engine.api.inspect_volume(name)["Labels"] or {}).get(ID, ""))
        except NotFound:
            return None


def _drop_volume(engine: Engine, name: str, sandbox_id: str) -> None:
    """Remove a volume that was made in vain, unless another container uses it by now."""
    with suppress(SandboxUnavailableError):
        remove_volume(engine, name, sandbox_id)


def remove_volume(engine: Engine, name: str, sandbox_id: str) -> None:
    """Remove a sandbox's volume; one that is gone, or a stranger's, is left as it is.

    Raises:
        SandboxUnavailableError: another container uses it.
    """
    if _volume_owner(engine, name) != sandbox_id:
        return
    try:
        with missing_is_fine():
            engine.api.remove_volume(name)
    except SandboxConflictError as error:
        raise SandboxUnavailableError(f"the volume {name} is still in use: {error}") from error
