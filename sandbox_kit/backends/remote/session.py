"""One session of a service: what can be asked of it."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterable

from attrs import frozen

from sandbox_kit.backends.remote.service import LOOK, Refused, Service, Terms, the
from sandbox_kit.backends.remote.wire import Pause, whole
from sandbox_kit.errors import RemoteProtocolError, SandboxUnavailableError

__all__ = ["Info", "Ran", "Session"]

_MISSING = 404
_ENVELOPE = 2**20
"""How many bytes an answer may have beside what it carries."""

_ENDS_WITHIN = 20.0
"""Seconds that the service may take to stop a container."""

_SLOWEST = 2**20
"""Bytes a second that a service has to take or give at least."""


@frozen
class Info:
    """What the service says of a session.

    Attributes:
        wakes: whether a call would be served: its sandbox runs, or is started for it.
        memory: what it uses, in bytes.
        pids: the number of its processes.
    """

    wakes: bool
    memory: int | None
    pids: int | None


@frozen
class Ran:
    """How a command line ended.

    Attributes:
        output: what it printed, on both streams.
        code: its exit code; None where the service does not know.
    """

    output: str
    code: int | None


@frozen
class Session:
    """A session that is open, by its id."""

    service: Service
    id: str

    def run(self, line: str, seconds: float, pause: Pause = whole) -> Ran:
        """Run a command line, once.

        Args:
            seconds: how long the service is to let it run.
            pause: called while it runs.

        Raises:
            SandboxUnavailableError: the service is gone: whether it ran is not known.
            SandboxTimeoutError: there was no answer in time.
        """
        body: dict[str, object] = {"command": line, "timeout_seconds": math.ceil(seconds)}
        answer = self.service.call("POST", self._path("/exec"), body, Terms(takes=seconds, pause=pause))
        code = answer.get("exit_code") if isinstance(answer, dict) else None
        return Ran(the(str, answer, "output"), code if isinstance(code, int) else None)

    def fetch(self, path: str, size: int) -> bytes:
        """Return the bytes of a file of the sandbox that nothing writes to any more.

        Raises:
            RemoteProtocolError: they are not as many as *size*.
        """
        answer = self.service.call(
            "POST",
            self._path("/read_bytes"),
            {"path": path},
            Terms(repeats=True, takes=size / _SLOWEST, limit=2 * size + _ENVELOPE),
        )
        try:
            data = base64.b64decode(the(str, answer, "content_b64"), validate=True)
        except binascii.Error as error:
            raise RemoteProtocolError(f"what the service says a file holds is no base64: {error}") from error
        if len(data) != size:
            raise RemoteProtocolError(f"the service gave {len(data)} bytes of a file that holds {size}")
        return data

    def put(self, path: str, pieces: Iterable[bytes | bytearray]) -> None:
        """Make a file of a name that nothing has.

        Raises:
            SandboxUnavailableError: the service could not.
        """
        content = base64.b64encode(b"".join(pieces)).decode()
        body = {"path": path, "content_b64": content}
        terms = Terms(repeats=True, takes=len(content) / _SLOWEST)
        answer = self.service.call("POST", self._path("/write"), body, terms)
        if not isinstance(answer, dict) or answer.get("error") is not None:
            raise SandboxUnavailableError("the service could not keep what was sent in the sandbox")

    def look(self, *, usage: bool = False) -> Info | None:
        """Return what the service says of it; None where there is no such session."""
        terms = Terms(repeats=True, query={"usage": "true"} if usage else {})
        try:
            answer = self.service.attempt("GET", self._path(), terms=terms)
        except Refused as error:
            if error.status == _MISSING:
                return None
            raise error.meaning(self.service.place) from None
        told = answer if isinstance(answer, dict) else {}
        used = told.get("usage") or {}
        wakes = the(bool, answer, "alive") or told.get("state") == "hibernated"
        return Info(wakes, used.get("memory_bytes"), used.get("pids"))

    def end(self, *, purge: bool) -> bool:
        """End it, and with *purge* discard what it keeps; whether there was one."""
        terms = Terms(repeats=True, query={"purge": "true"} if purge else {}, takes=_ENDS_WITHIN)
        try:
            self.service.attempt("DELETE", self._path(), terms=terms)
        except Refused as error:
            if error.status == _MISSING:
                return False
            raise error.meaning(self.service.place) from None
        return True

    def keeps_files(self) -> bool:
        """Whether the service has a workspace of it, open or not."""
        try:
            self.service.attempt("POST", f"/workspaces/{self.id}/ls", {"path": "."}, LOOK)
        except Refused as error:
            return error.status not in (_MISSING, 409)
        return True

    def _path(self, call: str = "") -> str:
        return f"/sessions/{self.id}{call}"
