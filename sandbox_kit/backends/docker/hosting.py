"""What a container may do and see: its host configuration, as the engine takes it."""

from __future__ import annotations

import posixpath
from typing import Any

from docker.types import LogConfig, Mount

from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.engine import Engine, translated
from sandbox_kit.backends.docker.plan import Plan
from sandbox_kit.backends.docker.shellcopy import PLACE
from sandbox_kit.backends.docker.terms import Terms
from sandbox_kit.errors import UnsupportedError
from sandbox_kit.paths import relative

__all__ = ["host_config"]

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


def host_config(engine: Engine, terms: Terms, plan: Plan) -> dict[str, Any]:
    """Return it: no capabilities and no way to gain any, the limits, and what *plan* masks.

    Raises:
        UnsupportedError: the plan mounts parts of the workspace, and the engine does not tell where that lies.
    """
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
        mounts=_mounts(engine, terms, plan),
    )
    config["MaskedPaths"] = [*MASKED, *plan.outside.hidden, *plan.hidden]
    config["ReadonlyPaths"] = [*READ_ONLY, PLACE, *plan.outside.read_only, *plan.read_only]
    return dict(config)


def _tmpfs(terms: Terms) -> dict[str, str]:
    mounts = {leases.PLACE: "mode=700,size=64k"}
    size = terms.limits.tmpfs_size
    if size is not None or terms.read_only:
        mounts["/tmp"] = "mode=1777,exec" + (f",size={size}" if size is not None else "")
    return mounts


def _mounts(engine: Engine, terms: Terms, plan: Plan) -> list[Mount]:
    """The workspace, and the parts of it that are mounted once more."""
    workspace = terms.workspace
    mounts = [
        Mount(
            terms.work_dir,
            workspace.source,
            type="bind" if workspace.bound else "volume",
            read_only=plan.frozen,
        )
    ]
    if plan.again:
        source = _source(engine, terms)
        for name, read_only in plan.again.items():
            part = posixpath.join(source, relative(name, terms.work_dir))
            mounts.append(Mount(name, part, type="bind", read_only=read_only))
    return mounts


def _source(engine: Engine, terms: Terms) -> str:
    """Where the workspace lies on the engine's machine."""
    if terms.workspace.bound:
        return terms.workspace.source
    with translated():
        told = engine.api.inspect_volume(terms.workspace.source)
    if not told.get("Mountpoint"):
        raise UnsupportedError(
            f"the engine does not tell where the volume {terms.workspace.source} lies: "
            "rules that name directories cannot be held there by the kernel"
        )
    return str(told["Mountpoint"])
