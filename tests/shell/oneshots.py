"""Files of this machine by one shell each, whose answer is one text as a provider gives it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Sequence
from pathlib import Path

from sandbox_kit.backends.shell.duplex import Piece
from sandbox_kit.backends.shell.oneshot import OneShotFiles
from sandbox_kit.backends.shell.packing import Package, inline
from sandbox_kit.errors import SandboxTimeoutError, SandboxUnavailableError
from sandbox_kit.host.unfinished import new_name
from sandbox_kit.types import Capabilities
from tests.shell.backends import environment
from tests.shell.pipes import SHELLS

MOST = 100_000
"""What such a provider cuts its answers to, in bytes."""


class LocalOneShotFiles(OneShotFiles):
    """A directory of this machine.

    Args:
        root: the work directory.
        kind: a name of SHELLS.
        directory: where long streams are kept.
        piece: in pieces of how many bytes.

    Attributes:
        shots: how many scripts have run.
    """

    def __init__(
        self, root: Path, kind: str, directory: Path, *, max_read_bytes: int = 2**20, piece: int = 2**20
    ) -> None:
        self._root = os.path.realpath(root)
        self._argv = SHELLS[kind][:-1]
        self._environment = environment(kind)
        self._tool_path = self._environment["PATH"]
        self._directory = directory
        self._piece = piece
        self.max_read_bytes = max_read_bytes
        self.shots = 0

    @property
    def id(self) -> str:
        return f"one-shot-{id(self):x}"

    @property
    def work_dir(self) -> str:
        return self._root

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(symlinks=True, case_sensitive=True)

    def _shoot(
        self, script: bytes, stdin: Sequence[bytes | bytearray], timeout: float | None
    ) -> Generator[Piece, None, None]:
        self.shots += 1
        package = Package(str(self._directory), self._piece)
        streams = package.unwrap(self._answer(package.wrap(script, self._source(stdin)), timeout))
        if streams is None:
            raise SandboxUnavailableError("the shell ended before its script")
        try:
            for stream, packed in streams.items():
                yield stream, packed.first
                for part in packed.parts:
                    yield stream, Path(part.path).read_bytes()
                yield stream, packed.last
        finally:
            shutil.rmtree(package.parked, ignore_errors=True)

    def _source(self, stdin: Sequence[bytes | bytearray]) -> str:
        if sum(map(len, stdin)) <= 2**14:
            return inline(stdin)
        staged = self._directory / new_name()
        staged.write_bytes(b"".join(stdin))
        return f"cat {staged} |"

    def _answer(self, line: str, timeout: float | None) -> str:
        try:
            done = subprocess.run(
                [shutil.which(self._argv[0]) or "sh", *self._argv[1:], "-c", line],
                cwd="/",
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SandboxTimeoutError("the script took too long", timeout) from error
        return done.stdout[:MOST].decode(errors="replace")
