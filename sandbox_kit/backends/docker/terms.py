"""What a container is made with, and which of it a caller may say."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Collection, Mapping
from os import PathLike

from attrs import asdict, field, frozen

from sandbox_kit.arguments import check_string
from sandbox_kit.backends.docker import leases
from sandbox_kit.backends.docker.shellcopy import PLACE
from sandbox_kit.errors import InvalidArgumentError
from sandbox_kit.paths import within
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.runtime import Runtime
from sandbox_kit.types import Limits

__all__ = [
    "NAME",
    "Terms",
    "Workspace",
    "check_flag",
    "check_labels",
    "check_limits",
    "check_text",
    "check_work_dir",
    "check_workspace",
    "digest_rules",
]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WORK_DIR = "/workspace"
_OWN_NAME = "sandbox-kit-"
_OWN_LABEL = "sandbox-kit."
_SYSTEM = (
    *("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys"),
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/sbin"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/local/sbin"),
)
"""Where programs and what they need lie: commands would write them for whatever else runs in the container."""


@frozen
class Workspace:
    """What is mounted at the work directory.

    Attributes:
        source: a volume's name, or a directory of the engine's machine.
        bound: whether it is a directory.
        ours: whether the library makes the volume, and purges it.
        temporary: whether that volume goes with the process that made it; no part of the configuration.
    """

    source: str
    bound: bool = False
    ours: bool = False
    temporary: bool = field(default=False, eq=False)


@frozen
class Terms:
    """What a container is made with; two that differ in any of it are two configurations.

    Attributes:
        image: as the caller named it.
        user: as the caller named it.
        network: a network mode of the engine.
        read_only: whether the root file system is.
        oci_runtime: such as ``"runsc"``; None is the engine's own.
        labels: of the caller's.
        env: variables for every command.
        persist: whether the container is kept when it has ended.
        lease: seconds after which it ends when nobody renews it; None for never.
        rules: what tells those apart that the kernel holds for commands, which may change while a container is
            stopped; empty for none.
    """

    image: str | Runtime
    work_dir: str
    workspace: Workspace
    user: str | None = None
    network: str = "none"
    read_only: bool = False
    oci_runtime: str | None = None
    limits: Limits = field(factory=Limits)
    labels: Mapping[str, str] = field(factory=dict)
    env: Mapping[str, str] = field(factory=dict)
    persist: bool = False
    lease: float | None = None
    rules: str = ""

    def digest(self) -> str:
        """What tells two configurations apart, whatever the rules."""
        told = asdict(self)
        del told["workspace"]["temporary"], told["rules"]
        if self.limits.cpus is not None:
            told["limits"]["cpus"] = float(self.limits.cpus)
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def digest_rules(rulesets: Collection[PermissionRuleset]) -> str:
    """Return what tells *rulesets* apart from others; empty for none."""
    if not rulesets:
        return ""
    told = [asdict(ruleset, filter=lambda attribute, _: bool(attribute.eq)) for ruleset in rulesets]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def check_text(value: str, name: str) -> str:
    """Return *value*.

    Raises:
        InvalidArgumentError: it is no text, empty, or holds a NUL.
    """
    if not check_string(value, name).strip() or "\0" in value:
        raise InvalidArgumentError(f"{name}: {value!r} is empty, or holds a NUL")
    return value


def check_flag(value: bool, name: str) -> bool:
    """Return *value*.

    Raises:
        InvalidArgumentError: it is no bool.
    """
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name}: is a bool, not {type(value).__name__}")
    return value


def check_limits(value: Limits | None) -> Limits:
    """Return *value*, or none at all for None.

    Raises:
        InvalidArgumentError: it is something else.
    """
    if value is not None and not isinstance(value, Limits):
        raise InvalidArgumentError(f"limits: is a Limits, not {type(value).__name__}")
    return value or Limits()


def check_labels(value: Mapping[str, str] | None) -> dict[str, str]:
    """Return *value* as a dict.

    Raises:
        InvalidArgumentError: it is no mapping of texts to texts, or has a label of the library's own.
    """
    labels = {} if value is None else value
    if not isinstance(labels, Mapping) or not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise InvalidArgumentError(f"labels: {labels!r} is not a mapping of texts to texts")
    for label in labels:
        if label.startswith(_OWN_LABEL):
            raise InvalidArgumentError(f"labels: {label!r} begins as the library's own do, with {_OWN_LABEL!r}")
    return dict(labels)


def check_work_dir(work_dir: str | None, image: str | Runtime) -> str:
    """Return where the workspace is mounted: *work_dir*, or else what a Runtime says, or ``/workspace``.

    Raises:
        InvalidArgumentError: nothing can be mounted there.
    """
    if work_dir is None and isinstance(image, Runtime):
        work_dir = image.work_dir
    return _WORK_DIR if work_dir is None else _absolute(work_dir)


def _absolute(work_dir: str) -> str:
    if not isinstance(work_dir, str) or not work_dir.startswith("/") or "\0" in work_dir:
        raise InvalidArgumentError(f"work_dir: {work_dir!r} is not an absolute path")
    name = posixpath.normpath("/" + work_dir.strip("/"))
    ours = any(within(name, place) for place in (PLACE, leases.PLACE))
    system = any(within(name, place) or within(place, name) for place in _SYSTEM)
    if ours or system or ".." in work_dir.split("/"):
        raise InvalidArgumentError(f"work_dir: nothing can be mounted at {work_dir!r}")
    return name


def check_workspace(workspace: str | PathLike[str] | None, sandbox_id: str, *, temporary: bool = False) -> Workspace:
    """Return what is mounted: a volume of the sandbox's own, or the one or the directory that the caller named.

    Raises:
        InvalidArgumentError: it names neither.
    """
    if workspace is None:
        return Workspace(f"sandbox-kit-{sandbox_id}", ours=True, temporary=temporary)
    if not isinstance(workspace, str | PathLike) or not isinstance(os.fspath(workspace), str):
        raise InvalidArgumentError(f"workspace: {workspace!r} is neither a text nor a path")
    if isinstance(workspace, str) and "/" not in workspace:
        if not NAME.fullmatch(workspace):
            raise InvalidArgumentError(f"workspace: {workspace!r} is neither a volume's name nor a path")
        if workspace.startswith(_OWN_NAME):
            raise InvalidArgumentError(f"workspace: {workspace!r} is a sandbox's own: use its sandbox_id")
        return Workspace(workspace)
    return Workspace(os.path.abspath(os.fspath(workspace)), bound=True)
