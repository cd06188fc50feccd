"""Long replies: how much of one comes, and what becomes of one that the host cannot keep."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_kit.backends.shell import flow
from sandbox_kit.backends.shell.duplex import Piece
from sandbox_kit.errors import SandboxUnavailableError
from tests.shell.backends import LocalShellFiles
from tests.shell.pipes import PipeDuplex

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def test_a_seek_brings_little(files: LocalShellFiles, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (root / "big").open("wb") as planted:
        planted.truncate(200_000_000)
    received: list[int] = []
    receive = PipeDuplex.receive

    def counted(duplex: PipeDuplex) -> Sequence[Piece] | None:
        pieces = receive(duplex)
        received.append(sum(len(data) for _, data in pieces or ()))
        return pieces

    monkeypatch.setattr(PipeDuplex, "receive", counted)
    with files.open_read("big") as stream:
        stream.read(6_000_000)
        stream.seek(100_000_000)
        stream.read(1)
        received.clear()
        for place in range(20):
            stream.seek((place * 77_777_777) % 190_000_000)
            assert stream.read(4096) == bytes(4096)
        assert sum(received) < 20 * 2**17
    assert len(files.loops) == 1


class Full(io.BytesIO):
    """A place on a host whose disk is full: at once, or once what was written leaves memory."""

    def __init__(self, *, at_once: bool) -> None:
        super().__init__()
        self._at_once = at_once

    def write(self, data: ReadableBuffer, /) -> int:
        return self._refuse() if self._at_once else super().write(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._refuse()

    def _refuse(self) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_stream_that_the_host_cannot_keep_is_its_readers_affair(
    files: LocalShellFiles, root: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    data = os.urandom(20_000_000)
    (root / "f").write_bytes(data)
    monkeypatch.setattr(flow, "new_spool", lambda: Full(at_once=at_once))
    with files.open_read("f") as stream:
        read = stream.read(1_500_000)
        for drain in list(files.drains):
            drain()
        assert read + stream.read() == data


@pytest.mark.needs("dash", "gnu-grep")
@pytest.mark.parametrize("at_once", [True, False])
def test_a_search_that_the_host_cannot_keep_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    (tmp_path / "f").write_text("needle and more of that line\n" * 40_000)
    monkeypatch.setattr(flow, "new_spool", lambda: Full(at_once=at_once))
    files = LocalShellFiles(tmp_path, "dash")
    with files.grep("needle") as matches:
        next(matches)
        assert files.drains
        for drain in list(files.drains):
            drain()
        with pytest.raises(SandboxUnavailableError, match="could not be kept"):
            list(matches)
    files.write("g", "x")
    files.close()
