"""What there is to say of the engine, for whoever looks whether this machine has one."""

from __future__ import annotations

from sandbox_kit.backends.docker.engine import connect, translated

__all__ = ["about"]


def about() -> str:
    """One line on the engine that ``DOCKER_HOST`` names.

    Raises:
        SandboxUnavailableError: it cannot be reached.
        SandboxTimeoutError: it does not answer.
    """
    engine = connect()
    with translated():
        told = engine.api.info()
    runtimes = ", ".join(sorted(told.get("Runtimes") or ()))
    return (
        f"{told['ServerVersion']} at {engine.url}, on {told['OperatingSystem']} with kernel {told['KernelVersion']}, "
        f"storage {told['Driver']}, runtimes {runtimes or 'unknown'}"
    )
