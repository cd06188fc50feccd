"""The volume that is a sandbox's own workspace: made with it, and removed by a purge."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from docker.errors import NotFound

from sandbox_kit.backends.docker.engine import Engine, missing_is_fine, translated
from sandbox_kit.backends.docker.ownership import ID, volume_labels
from sandbox_kit.backends.docker.terms import Terms
from sandbox_kit.errors import SandboxConflictError, SandboxUnavailableError

__all__ = ["make_volume", "remove_volume"]


def make_volume(failing: ExitStack, engine: Engine, sandbox_id: str, terms: Terms) -> None:
    """Make the volume, where it is the library's and not there; *failing* removes what was made."""
    volume = terms.workspace.source
    if terms.workspace.ours and _create_volume(engine, volume, sandbox_id, terms):
        failing.callback(_drop_volume, engine, volume, sandbox_id)


def _create_volume(engine: Engine, name: str, sandbox_id: str, terms: Terms) -> bool:
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
        engine.api.create_volume(name, labels=volume_labels(sandbox_id, terms))
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
