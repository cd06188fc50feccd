"""The desk that the tools of one console share: the guarded backend, what was seen, and what runs."""

from __future__ import annotations

from attrs import evolve, field, frozen

from sandbox_kit.answers import is_answer, is_refusal
from sandbox_kit.calls import Call
from sandbox_kit.console.approving import Answers, Yes
from sandbox_kit.console.processes import Processes
from sandbox_kit.console.seen import Seen
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import (
    ApprovalRequiredError,
    PathNotDirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    ReadLimitError,
    SandboxConflictError,
    SandboxError,
    UnsupportedError,
    printable,
)
from sandbox_kit.guard import GuardedBackend
from sandbox_kit.paths import check_path, normalise

__all__ = ["Desk"]


@frozen(eq=False)
class Desk:
    """What a tool works with. Any number of threads may use it.

    Attributes:
        backend: files, and commands where there are any; under the console's rules.
        seen: the contents that tools have shown or written.
        processes: the commands that run in the background; a copy for another process has none.
        answers: whether a person's yes to a call is for the guard of *backend*, which has no other person to ask, or
            was made by the console.
    """

    backend: Backend
    seen: Seen = field(factory=Seen)
    processes: Processes = field(factory=Processes)
    answers: bool = False

    @property
    def sandbox(self) -> Sandbox:
        """The backend, as one that runs commands.

        Raises:
            UnsupportedError: it runs none.
        """
        if not isinstance(self.backend, Sandbox):
            raise UnsupportedError("there are only files here: nothing runs commands")
        return self.backend

    def approved(self, yes: Yes) -> Desk:
        """Return the desk of one call, where the console's guard is answered by *yes*, and remembers nothing."""
        guard = self.backend
        if not self.answers or not isinstance(guard, GuardedBackend):
            return self
        return evolve(self, backend=guard._asking(Answers(yes)))

    def note(self, path: str, content: bytes) -> None:
        """Take *content* for what the model knows *path* to hold."""
        self.seen.note(self._key(path), content)

    def current(self, path: str) -> bytes | None:
        """Return what *path* holds, which is what the model has seen; None where it saw nothing, or it is gone.

        What rules do not let it read is not known, either.

        Raises:
            SandboxConflictError: the content is another one by now.
        """
        key = self._key(path)
        if not self.seen.knows(key):
            return None
        content: bytes | None = None
        try:
            content = self.backend.read_bytes(path)
        except (PathNotFoundError, PathNotDirectoryError) as error:
            if is_answer(error):
                raise
            return None
        except ReadLimitError as error:
            if is_answer(error):
                raise
        except PermissionDeniedError as error:
            if isinstance(error, ApprovalRequiredError) or is_refusal(error):
                raise
            return None
        if content is None or not self.seen.is_current(key, content):
            raise SandboxConflictError(f"{printable(path)} has changed since it was last read or written here")
        return content

    def _key(self, path: str) -> str:
        """Return where *path* leads, for nobody's eyes; the name as typed where that cannot be told."""
        try:
            typed = check_path(path)
            (identity,) = self.backend._resolve((typed,), operations=("read",), authorize=Call(aside=True))
        except SandboxError:
            return normalise(path, self.backend.work_dir)
        return identity.name
