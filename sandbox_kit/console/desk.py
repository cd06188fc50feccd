"""The desk that the tools of one console share: the guarded backend, what was seen, and what runs."""

from __future__ import annotations

from attrs import evolve, field, frozen

from sandbox_kit.answers import is_answer
from sandbox_kit.console.processes import Processes
from sandbox_kit.console.seen import Seen
from sandbox_kit.contract import Backend, Sandbox
from sandbox_kit.errors import (
    PathNotDirectoryError,
    PathNotFoundError,
    ReadLimitError,
    SandboxConflictError,
    UnsupportedError,
    printable,
)
from sandbox_kit.guard import GuardedBackend
from sandbox_kit.paths import normalise

__all__ = ["Desk"]


@frozen(eq=False)
class Desk:
    """What a tool works with. Any number of threads may use it.

    Attributes:
        backend: files, and commands where there are any; under the console's rules.
        seen: the contents that tools have shown or written.
        processes: the commands that run in the background; a copy for another process has none.
    """

    backend: Backend
    seen: Seen = field(factory=Seen)
    processes: Processes = field(factory=Processes)

    @property
    def sandbox(self) -> Sandbox:
        """The backend, as one that runs commands.

        Raises:
            UnsupportedError: it runs none.
        """
        if not isinstance(self.backend, Sandbox):
            raise UnsupportedError("there are only files here: nothing runs commands")
        return self.backend

    def approved(self) -> Desk:
        """Return the desk of one call that a person has approved: what its guard would ask is answered with yes.

        Nobody else's call is, and nothing is remembered. A denial stays one, and a guard beneath asks its own person.
        """
        guard = self.backend
        return evolve(self, backend=guard._asking(_yes)) if isinstance(guard, GuardedBackend) else self

    def note(self, path: str, content: bytes) -> None:
        """Take *content* for what the model knows *path* to hold."""
        self.seen.note(self._key(path), content)

    def current(self, path: str) -> bytes | None:
        """Return what *path* holds, which is what the model has seen; None where it saw nothing, or it is gone.

        Raises:
            SandboxConflictError: the content is another one by now.
        """
        if not self.seen.knows(self._key(path)):
            return None
        try:
            content = self.backend.read_bytes(path)
        except (PathNotFoundError, PathNotDirectoryError) as error:
            if is_answer(error):
                raise
            return None
        except ReadLimitError as error:
            if is_answer(error):
                raise
            content = None
        if content is None or not self.seen.is_current(self._key(path), content):
            raise SandboxConflictError(f"{printable(path)} has changed since it was last read or written here")
        return content

    def _key(self, path: str) -> str:
        return normalise(path, self.backend.work_dir)


def _yes(operation: str, target: str, reason: str) -> bool:
    return True
