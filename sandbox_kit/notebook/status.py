"""What a sandbox is and whether it lives, as a record that a notebook shows."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import SandboxClosedError
from sandbox_kit.guard import GuardedBackend
from sandbox_kit.html.fragments import output, table
from sandbox_kit.rules.ruleset import OPERATIONS, PermissionRuleset

__all__ = ["Status", "status"]


@frozen
class Status:
    """A sandbox, as it is when one asks.

    Attributes:
        backend: as it represents itself; a guard names what it guards.
        id: its name; None before it has one.
        work_dir: where relative paths start; None before that is known.
        state: ``"alive"``, ``"not running"``, or ``"files only"``.
        commands: how rules hold for commands, as ``Capabilities.commands`` says; None where there are none.
        rules: of each guard, the outermost first: how many rules, and what holds where none matches.
    """

    backend: str
    id: str | None
    work_dir: str | None
    state: str
    commands: str | None
    rules: tuple[str, ...]

    def _repr_html_(self) -> str:
        rows = [
            ("backend", self.backend),
            ("id", self.id or "none yet"),
            ("work_dir", self.work_dir or "not known yet"),
            ("state", self.state),
            ("commands", self.commands or "none"),
            ("rules", "\n".join(self.rules) or "none"),
        ]
        return output(table(("sandbox", ""), rows))


def status(backend: Backend) -> Status:
    """Return what *backend* is now; looks whether it is alive.

    Raises:
        SandboxUnavailableError: what runs it cannot be reached.
    """
    return Status(
        backend=repr(backend),
        id=_known(lambda: backend.id),
        work_dir=_known(lambda: backend.work_dir),
        state=_state(backend),
        commands=backend.capabilities.commands,
        rules=tuple(map(_told, backend.rulesets)) if isinstance(backend, GuardedBackend) else (),
    )


def _known(ask: Callable[[], str]) -> str | None:
    try:
        return ask()
    except SandboxClosedError:
        return None


def _state(backend: Backend) -> str:
    if not isinstance(backend, Sandbox):
        return "files only"
    return "alive" if backend.is_alive() else "not running"


def _told(ruleset: PermissionRuleset) -> str:
    own = (rule for operation in OPERATIONS for rule in ruleset.permissions(operation).rules)
    return f"{len({*ruleset.rules, *own})} rules, else {ruleset.default}"
