"""A file by which an operator changes a policy while programs run."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sandbox_kit.errors import PathError, PathNotFoundError, PolicyError, printable
from sandbox_kit.host.forks import ForkedFreeLock
from sandbox_kit.host.system import host_text
from sandbox_kit.sessions.files import Signature, Version, read_version
from sandbox_kit.sessions.places import check_place
from sandbox_kit.sessions.policy import SandboxPolicy, apply_policy_update

__all__ = ["PolicyOverrides"]

logger = logging.getLogger("sandbox_kit")

_SUFFIXES = (".json", ".toml")
_CLOCK_STEP_NS: Final = 2_500_000_000
"""How far apart two changes of a file may be and still leave it with the same times: FAT keeps every other second."""


class PolicyOverrides:
    """Applies an update that stands in a file to a policy, each time that the file changes.

    The file is what :func:`apply_policy_update` takes, as JSON or TOML, and is refused like a call. It may be absent.
    Whichever came last holds: the file, when it changed, or a call. Content that is malformed, unreadable or
    refused is logged once and tried again at the next refresh; until then the values stay as they are, as they
    do when the file is deleted. Safe from several threads.

    Args:
        policy: what to change.
        path: a ``.json`` or ``.toml`` file of the host, at most 1 MiB; links are followed at each refresh.
        outside: directories that it may not lie in. It may never lie in a workspace of *policy*, as
            named, as resolved, or by a link on the way, nor have a second name, which may lie in one:
            sandboxed code could write its own policy.

    Raises:
        PolicyError: it lies where it may not, or has another suffix.
        PathError: it is a loop of links.
        InvalidArgumentError: *path* or a directory is no path.
    """

    def __init__(
        self, policy: SandboxPolicy, path: str | os.PathLike[str], outside: Iterable[str | os.PathLike[str]] = ()
    ) -> None:
        self._policy = policy
        name = host_text(path, "path")
        self._path = name if os.path.isabs(name) else os.path.join(os.getcwd(), name)
        self._outside = tuple(os.path.abspath(host_text(directory, "outside")) for directory in outside)
        self._lock = ForkedFreeLock()
        self._applied: Version | None = None
        self._trusted: Signature | None = None
        self._complaint: tuple[Signature | None, str] | None = None
        if Path(self._path).suffix.lower() not in _SUFFIXES:
            raise PolicyError([f"{printable(self._path)}: is neither a {' nor a '.join(_SUFFIXES)} file"])
        self._check_place(None)

    @property
    def path(self) -> str:
        """The file, absolute."""
        return self._path

    def refresh(self) -> list[str]:
        """Apply the file if it has changed since it was applied.

        Returns:
            The dotted names of what changed, sorted; empty where the file did not, or is ignored.
        """
        if self._trusted is not None and self._trusted == self._signature():
            return []
        with self._lock:
            return self._apply()

    def _signature(self) -> Signature | None:
        try:
            return Signature.of(os.stat(self._path))
        except OSError:
            return None

    def _apply(self) -> list[str]:
        try:
            now = time.time_ns()
            version = read_version(self._path)
            names = [] if version == self._applied else self._update(version)
        except PathNotFoundError:
            return []
        except (PathError, PolicyError) as error:
            self._ignore(error)
            return []
        self._applied, self._complaint = version, None
        self._trust(version, now)
        if names:
            logger.info("policy overrides %s: changed %s", printable(self._path), ", ".join(names))
        return names

    def _update(self, version: Version) -> list[str]:
        from sandbox_kit.rules.documents import parse_document

        self._check_place(version.signature)
        return apply_policy_update(self._policy, parse_document(version.content, Path(self._path).suffix))

    def _check_place(self, opened: Signature | None) -> None:
        root = self._policy.snapshot().workspace_root
        check_place(self._path, root, self._outside, opened)

    def _trust(self, version: Version, now: int) -> None:
        """Trust the signature alone from now on, if a later change is sure to give another one."""
        is_old = abs(now - version.signature.changed) > _CLOCK_STEP_NS
        self._trusted = version.signature if is_old else None

    def _ignore(self, error: PathError | PolicyError) -> None:
        self._trusted = None
        complaint = self._signature(), str(error)
        if complaint != self._complaint:
            self._complaint = complaint
            logger.warning("policy overrides %s ignored: %.2000s", printable(self._path), printable(str(error)))
