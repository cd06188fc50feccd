"""ShellFiles over shells of this machine: dash with its GNU tools, busybox with nothing else on PATH."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox_kit.backends.shell.files import ShellFiles
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.types import Capabilities
from tests.shell.pipes import SHELLS, PipeDuplex

KINDS = tuple(SHELLS)


@functools.cache
def busybox_links() -> str:
    """A directory with a link for each applet of busybox, and nothing else."""
    directory = tempfile.mkdtemp(prefix="busybox-")
    os.chmod(directory, 0o755)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    listed = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
    real = subprocess.run(["which", "busybox"], capture_output=True, text=True, check=True).stdout.strip()
    for applet in listed.stdout.split():
        os.symlink(real, os.path.join(directory, applet))
    return directory


def environment(kind: str) -> dict[str, str]:
    """The whole environment of a shell of that kind."""
    return {"PATH": busybox_links() if kind == "ash" else "/usr/local/bin:/usr/bin:/bin"}


class LocalShellFiles(ShellFiles):
    """A directory of this machine behind shells of it.

    Args:
        root: the work directory.
        kind: a name of SHELLS.
        user: whom the shells run as; None for the tests' own.
        path: where they look for programs; None for the kind's own.

    Attributes:
        kind: as given.
        loops: the shells that live.
        drains: of the leases that run.
    """

    def __init__(
        self,
        root: Path,
        kind: str,
        *,
        max_read_bytes: int = 2**20,
        user: int | None = None,
        path: str | None = None,
    ) -> None:
        self._root = os.path.realpath(root)
        self.kind = kind
        self._user = user
        self._environment = environment(kind)
        self._tool_path = self._environment["PATH"] if path is None else path
        self._idle: list[Loop] = []
        self._lock = threading.Lock()
        self.max_read_bytes = max_read_bytes
        self.loops: list[Loop] = []
        self.drains: list[Callable[[], None]] = []

    @property
    def id(self) -> str:
        return f"shell-{self.kind}-{id(self):x}"

    @property
    def work_dir(self) -> str:
        return self._root

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(symlinks=True, case_sensitive=True)

    @contextmanager
    def _lease(self, drain: Callable[[], None] | None = None) -> Iterator[Loop]:
        loop = self._take()
        self.drains += [drain] if drain else []
        try:
            yield loop
        finally:
            if drain:
                self.drains.remove(drain)
            with self._lock:
                if loop.lost:
                    self.loops.remove(loop)
                else:
                    self._idle.append(loop)

    def _take(self) -> Loop:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        program = SHELLS[self.kind]
        argv = (str(shutil.which(program[0])), *program[1:])
        loop = Loop(PipeDuplex(argv, "/", self._environment, self._user))
        with self._lock:
            self.loops.append(loop)
        return loop

    def close(self) -> None:
        """End the shells."""
        for loop in self.loops:
            loop.close()
        self._idle.clear()
        self.loops.clear()
