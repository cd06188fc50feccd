"""Opening a session, and what is found out about its sandbox."""

from __future__ import annotations

import posixpath
import shlex

from attrs import frozen

from sandbox_kit.backends.remote.courier import Courier
from sandbox_kit.backends.remote.service import LOOK, Service, Terms, the
from sandbox_kit.backends.remote.session import Session
from sandbox_kit.errors import RemoteProtocolError, SandboxConflictError, UnsupportedError

__all__ = ["Opened", "Wanted", "open_session"]

_PIECE = 4 * 2**20
_NEEDED = ("base64", "dd", "grep", "tail", "tr", "wc")
_LOOK_WITHIN = 10.0
_STARTS_WITHIN = 300.0
"""Seconds that the service may take to start a sandbox: it may have to build an image."""

_LOOK = """
for k in {needed}; do command -v "$k" >/dev/null || echo "- $k"; done
cd -P {work_dir} && echo "+ $PWD"
mkdir -p -m 1777 {aside} 2>/dev/null
[ -w {aside} ] && ! grep -q -e ' /var ' -e ' {aside} ' /proc/mounts && echo "* {aside}"
"""
_ASIDE = "/var/tmp"


@frozen
class Wanted:
    """The session to be opened.

    Attributes:
        id: its id.
        runtime, tenant: as the service has them; None for its own default, and for nobody.
        reuse: whether one that is open is taken.
        work_dir: where its files are.
    """

    id: str
    runtime: str | None
    tenant: str | None
    reuse: bool
    work_dir: str


@frozen
class Opened:
    """A session that is open.

    Attributes:
        session: the session.
        courier: runs scripts in it.
        work_dir: the real name of its work directory.
        ceiling: how long the service lets a command run, in seconds.
    """

    session: Session
    courier: Courier
    work_dir: str
    ceiling: float


def open_session(service: Service, wanted: Wanted) -> Opened:
    """Open a session, or take one that is open.

    Raises:
        SandboxConflictError: it is open and not to be taken, or is of another runtime; or the service has another
            work directory.
        SessionLimitError: a ceiling of the service is reached.
        InvalidArgumentError: the service has no such runtime.
        UnsupportedError: a program is missing in the image; names it.
        SandboxUnavailableError: the service cannot be reached, or cannot start it.
    """
    policy = service.call("GET", "/policy", terms=LOOK)
    _check_work_dir(the(str, policy, "work_dir"), wanted.work_dir)
    body = {"session_id": wanted.id, "runtime": wanted.runtime, "tenant": wanted.tenant, "reuse": wanted.reuse}
    the(dict, service.call("POST", "/sessions", body, Terms(takes=_STARTS_WITHIN)), "session")
    session = Session(service, wanted.id)
    real, aside = _look(session, wanted.work_dir)
    piece = min(_PIECE, the(int, policy, "max_read_bytes"))
    return Opened(session, Courier(session, aside or real, piece), real, float(the(int, policy, "execute_timeout")))


def _check_work_dir(theirs: str, ours: str) -> None:
    if posixpath.normpath(theirs) != ours:
        raise SandboxConflictError(f"work_dir: the service has its files at {theirs}, not at {ours}: give that one")


def _look(session: Session, work_dir: str) -> tuple[str, str | None]:
    """Return the work directory's real name, and a directory beside it for files that nobody is to see."""
    line = _LOOK.format(needed=" ".join(_NEEDED), work_dir=shlex.quote(work_dir), aside=_ASIDE)
    found: dict[str, list[str]] = {"-": [], "+": [], "*": []}
    for told in session.run(line, _LOOK_WITHIN).output.splitlines():
        found.get(told[:1], []).append(told[2:])
    if found["-"]:
        raise UnsupportedError(f"commands and files need {', '.join(found['-'])} in the sandbox's image")
    if not found["+"]:
        raise RemoteProtocolError(f"the sandbox has no directory {work_dir}, where the service says that its files are")
    return found["+"][0], next(iter(found["*"]), None)
