"""A sandbox that passes everything on to another one, which it holds for the length of each call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO

from sandbox_kit.contract import Process, Sandbox
from sandbox_kit.primitives import Authorize, Command, Entry, Masks, Operations, Query
from sandbox_kit.rules.ruleset import PermissionRuleset
from sandbox_kit.search.matches import Matches
from sandbox_kit.types import CommandResult, FileInfo, Identity

__all__ = ["ForwardingSandbox"]


class ForwardingSandbox(Sandbox):
    """Implements every primitive that touches files or commands by the same one of another sandbox.

    Public methods are inherited, so what is built on the primitives is passed on the day it is written.
    """

    @abstractmethod
    def _awake(self) -> AbstractContextManager[Sandbox]:
        """Hold the sandbox to pass on to, up and running, until the block ends."""

    def _confines(self, ruleset: PermissionRuleset) -> bool:
        with self._awake() as sandbox:
            return sandbox._confines(ruleset)

    def _resolve(
        self, paths: Sequence[str], *, operations: Operations, authorize: Authorize, follow: bool = True
    ) -> tuple[Identity, ...]:
        with self._awake() as sandbox:
            return sandbox._resolve(paths, operations=operations, authorize=authorize, follow=follow)

    def _as_given(self) -> str:
        with self._awake() as sandbox:
            return sandbox._as_given()

    def _resolve_prefixes(self, prefixes: Sequence[str]) -> tuple[str, ...]:
        with self._awake() as sandbox:
            return sandbox._resolve_prefixes(prefixes)

    def _stat(self, path: str, *, operations: Operations, authorize: Authorize) -> FileInfo:
        with self._awake() as sandbox:
            return sandbox._stat(path, operations=operations, authorize=authorize)

    def _scandir(
        self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1
    ) -> Generator[Entry, None, None]:
        with self._awake() as sandbox:
            return sandbox._scandir(path, operations=operations, authorize=authorize, depth=depth)

    def _readlink(self, path: str, *, operations: Operations, authorize: Authorize) -> str:
        with self._awake() as sandbox:
            return sandbox._readlink(path, operations=operations, authorize=authorize)

    def _open_read(
        self, path: str, *, operations: Operations, authorize: Authorize, expect: Identity | None = None
    ) -> BinaryIO:
        with self._awake() as sandbox:
            return sandbox._open_read(path, operations=operations, authorize=authorize, expect=expect)

    def _open_write(
        self,
        path: str,
        *,
        operations: Operations,
        authorize: Authorize,
        expect: Identity | None = None,
        mode: int | None = None,
    ) -> AbstractContextManager[BinaryIO]:
        steps = self._writing(path, operations, authorize, expect, mode)
        next(steps)
        return _continued(steps)

    def _writing(
        self, path: str, operations: Operations, authorize: Authorize, expect: Identity | None, mode: int | None
    ) -> Generator[Any, None, None]:
        """Open a file to write, yield nothing, then the stream; the sandbox stays up until this ends or is dropped."""
        with self._awake() as sandbox:
            opened = sandbox._open_write(path, operations=operations, authorize=authorize, expect=expect, mode=mode)
            yield None
            with opened as stream:
                yield stream

    def _mkdir(self, path: str, *, operations: Operations, authorize: Authorize, mode: int | None = None) -> None:
        with self._awake() as sandbox:
            sandbox._mkdir(path, operations=operations, authorize=authorize, mode=mode)

    def _symlink(self, target: str, path: str, *, operations: Operations, authorize: Authorize) -> None:
        with self._awake() as sandbox:
            sandbox._symlink(target, path, operations=operations, authorize=authorize)

    def _remove(self, path: str, *, operations: Operations, authorize: Authorize, recursive: bool) -> None:
        with self._awake() as sandbox:
            sandbox._remove(path, operations=operations, authorize=authorize, recursive=recursive)

    def _rename(self, source: str, target: str, *, operations: Operations, authorize: Authorize) -> None:
        with self._awake() as sandbox:
            sandbox._rename(source, target, operations=operations, authorize=authorize)

    def _search(self, query: Query, path: str, *, operations: Operations, authorize: Authorize) -> Matches:
        with self._awake() as sandbox:
            return sandbox._search(query, path, operations=operations, authorize=authorize)

    def _run(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> CommandResult:
        with self._awake() as sandbox:
            return sandbox._run(command, operations=operations, authorize=authorize, masks=masks)

    def _spawn(
        self, command: Command, *, operations: Operations, authorize: Authorize, masks: tuple[Masks, ...] | None = ()
    ) -> Process:
        with self._awake() as sandbox:
            return sandbox._spawn(command, operations=operations, authorize=authorize, masks=masks)


@contextmanager
def _continued(steps: Generator[Any, None, None]) -> Generator[BinaryIO, None, None]:
    yield from steps
