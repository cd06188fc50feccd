"""What the engine tells of a container that was started."""

from __future__ import annotations

from typing import Any

from sandbox_kit.backends.docker.engine import Engine, translated
from sandbox_kit.errors import SandboxError, SandboxUnavailableError
from sandbox_kit.types import Usage

__all__ = ["is_alive", "usage", "why_gone"]


def usage(engine: Engine, container: str) -> Usage:
    """Return what the container uses now.

    Raises:
        SandboxUnavailableError: it does not run.
    """
    with translated():
        told = engine.api.stats(container, stream=False, one_shot=True)
    if not told.get("pids_stats"):
        raise SandboxUnavailableError(f"there is nothing that uses anything: {why_gone(engine, container)}")
    memory = told.get("memory_stats", {})
    used = memory.get("usage")
    cache = memory.get("stats", {}).get("total_inactive_file", memory.get("stats", {}).get("inactive_file", 0))
    return Usage(
        memory=None if used is None else max(0, used - cache),
        cpu_seconds=told.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0) / 1e9,
        pids=told.get("pids_stats", {}).get("current"),
    )


def is_alive(engine: Engine, container: str) -> bool:
    """Whether the container runs; one that the engine does not tell of does not."""
    try:
        state = _state(engine, container)
    except SandboxError:
        return False
    return bool(state["Running"]) and not state["Paused"]


def why_gone(engine: Engine, container: str) -> str:
    """Return what became of a container that does not answer, as one phrase."""
    try:
        state = _state(engine, container)
    except SandboxError as error:
        return str(error)
    if state["OOMKilled"] and not state["Running"]:
        return "its container ran out of memory and was killed"
    if not state["Running"]:
        return f"its container ended with exit code {state['ExitCode']}"
    return "its container runs, but its shell was ended or does not answer"


def _state(engine: Engine, container: str) -> dict[str, Any]:
    with translated():
        state: dict[str, Any] = engine.prompt.inspect_container(container)["State"]
    return state
