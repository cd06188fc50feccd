"""What becomes of a call, and of the next one, when a shell or a tool in it is killed, stopped, or out of room."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_kit import PermissionRule, PermissionRuleset, guarding
from sandbox_kit.backends.shell.loop import Loop
from sandbox_kit.errors import (
    PathError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    UnsupportedError,
)
from tests.shell.backends import LocalShellFiles
from tests.shell.pipes import PipeDuplex

ROUNDS = 50
MV = shutil.which("mv")
SCRIPT = b"touch pwned; echo pwned >pwned; exit 0\n"


def shell_of(loop: Loop) -> int:
    """The process id of a shell."""
    duplex = loop._duplex
    assert isinstance(duplex, PipeDuplex)
    return duplex.program.pid


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def named(pid: int) -> str:
    """The program that a process runs, also as busybox does without executing it."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


@contextmanager
def killing(files: LocalShellFiles, tool: str) -> Iterator[list[int]]:
    """Kill each *tool* that a shell of *files* starts within the block; gives the victims."""
    over = threading.Event()
    killed: list[int] = []

    def hunt() -> None:
        while not over.is_set():
            for loop in list(files.loops):
                for child in children(shell_of(loop)):
                    if named(child) == tool:
                        os.kill(child, signal.SIGKILL)
                        killed.append(child)

    hunter = threading.Thread(target=lambda: _quietly(hunt, over), daemon=True)
    hunter.start()
    try:
        yield killed
    finally:
        over.set()
        hunter.join()


def _quietly(hunt: Callable[[], None], over: threading.Event) -> None:
    while not over.is_set():
        try:
            hunt()
        except OSError:
            continue


class Endless(io.RawIOBase):
    """A source that goes on until told, of lines that a shell would run."""

    def __init__(self, count: int) -> None:
        self._left = count

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self._left -= 1
        return SCRIPT * 5000 if self._left > 0 else b""


def write_often(files: LocalShellFiles) -> None:
    for _ in range(ROUNDS):
        files.write("f", Endless(20))  # type: ignore[arg-type]


@pytest.mark.parametrize("held", [b"kept", None])
def test_a_killed_dd_leaves_a_whole_file_and_runs_nothing(
    files: LocalShellFiles, root: Path, held: bytes | None
) -> None:
    if held is not None:
        files.write("f", held)
    for _ in range(3):
        with killing(files, "dd") as killed, pytest.raises(SandboxError):
            write_often(files)
        assert killed
    assert os.listdir(root) in ([], ["f"])
    if held is not None or (root / "f").exists():
        assert (root / "f").read_bytes() in (held, SCRIPT * 5000 * 19)
    assert not Path("/pwned").exists()


def test_a_killed_dd_in_place_runs_nothing(files: LocalShellFiles, root: Path) -> None:
    files.write("f", "x")
    os.link(root / "f", root / "g")
    with killing(files, "dd") as killed, pytest.raises(SandboxError):
        write_often(files)
    assert killed
    assert sorted(os.listdir(root)) == ["f", "g"]
    files.write("f", "whole")
    assert (root / "g").read_text() == "whole"


def test_an_interrupted_write_leaves_the_old_file(files: LocalShellFiles, root: Path) -> None:
    files.write("f", "kept")

    class Interrupted(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            if files.loops and (root / "f").exists() and len(os.listdir(root)) > 1:
                raise KeyboardInterrupt
            return SCRIPT * 40_000

    with pytest.raises(KeyboardInterrupt):
        files.write("f", Interrupted())  # type: ignore[arg-type]
    assert os.listdir(root) == ["f"]
    assert files.read("f") == "kept"


def test_bytes_that_stop_half_way_replace_nothing(files: LocalShellFiles, root: Path) -> None:
    files.write("f", "kept")
    with files._lease() as loop:
        before = loop._duplex.send
        budget = [200_000]

        def send(data: memoryview) -> int:
            if budget[0] <= 0:
                raise SandboxUnavailableError("cut")
            sent = before(data[: budget[0]])
            budget[0] -= sent
            return sent

        loop._duplex.send = send  # type: ignore[method-assign]
    with pytest.raises(SandboxUnavailableError):
        files.write("f", SCRIPT * 20_000)
    deadline = time.monotonic() + 10
    while os.listdir(root) != ["f"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert os.listdir(root) == ["f"]
    assert files.read("f") == "kept"


@pytest.mark.parametrize("path", ["f", "d/e/new"])
@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.needs("dash")
def test_a_shell_that_dies_before_the_new_file_has_its_place_leaves_nothing(
    tmp_path: Path, path: str, size: int
) -> None:
    tools, root = tmp_path / "tools", tmp_path / "root"
    for made in (tools, root):
        made.mkdir()
    (tools / "mv").write_text(f'#!/bin/sh\n[ ! -e {tmp_path}/armed ] || exec kill -9 "$PPID"\nexec {MV} "$@"\n')
    (tools / "mv").chmod(0o755)
    files = LocalShellFiles(root, "dash", path=f"{tools}:{os.defpath}")
    files.write("f", "kept")
    (tmp_path / "armed").touch()
    with pytest.raises(SandboxUnavailableError):
        files.write(path, "x" * size)
    assert os.listdir(root) == ["f"]
    assert files.read("f") == "kept"
    files.close()


def test_a_dead_shell_is_replaced(files: LocalShellFiles) -> None:
    files.write("f", "x")
    for look in (lambda: files.read("f"), lambda: files.stat("f"), lambda: files.ls(), lambda: list(files.grep("x"))):
        for loop in files.loops:
            os.kill(shell_of(loop), signal.SIGKILL)
        try:
            assert look()
        except SandboxUnavailableError:
            assert look()


def test_a_stopped_shell_is_given_up_in_time(files: LocalShellFiles) -> None:
    files.write("f", "x")
    files.file_timeout = 0.5
    stopped = [shell_of(loop) for loop in files.loops]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(SandboxTimeoutError):
        files.read("f")
    assert time.monotonic() - begun < 10
    files.file_timeout = 30
    assert files.read("f") == "x"


@pytest.mark.parametrize("size", [3_000, 100_000, 9_000_000])
@pytest.mark.parametrize("path", ["new", "kept", "d/e/new"])
def test_a_full_disk_is_told_and_leaves_nothing(files: LocalShellFiles, tmp_path: Path, size: int, path: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=False).returncode
    ):
        pytest.skip("needs root, to mount a small file system")
    made = LocalShellFiles(small, files.kind)
    try:
        made.write("kept", "kept")
        (small / "filler").write_bytes(b"x" * 61_440)
        with pytest.raises(PathError, match="no space left on device"):
            made.write(path, os.urandom(size))
        assert sorted(os.listdir(small)) == ["filler", "kept"]
        assert made.read("kept") == "kept"
    finally:
        made.close()
        subprocess.run(["umount", small], check=True)


def test_a_file_is_streamed_with_bounded_memory(files: LocalShellFiles, root: Path) -> None:
    with (root / "big").open("wb") as planted:
        planted.truncate(300_000_000)
    with files.open_read("big") as stream:
        assert stream.seek(0, io.SEEK_END) == 300_000_000
        stream.seek(299_999_990)
        assert stream.read() == bytes(10)
        stream.seek(5)
        assert stream.read(70_000) == bytes(70_000)
        assert stream.tell() == 70_005
    assert len(files.loops) == 1


EDGES = [2**16 - 1, 2**16, 2**16 + 1, 2**20 - 1, 2**20, 2**20 + 1, 5_000_000]


@pytest.mark.parametrize("size", EDGES)
def test_every_byte_of_a_file_arrives(files: LocalShellFiles, root: Path, size: int) -> None:
    data = os.urandom(size)
    (root / "f").write_bytes(data)
    files.max_read_bytes = size
    held = guarding(files, PermissionRuleset("allow", rules=[PermissionRule("other", "deny")]))
    assert files.read_bytes("f") == data
    assert held.read_bytes("f") == data
    with files.open_read("f") as stream:
        assert b"".join(iter(lambda: stream.read(10_007), b"")) == data
        assert stream.seek(size - 3) == size - 3
        assert stream.read() == data[-3:]
        assert stream.seek(1) == 1
        assert stream.read(5) == data[1:6]


def test_a_stream_that_is_drained_goes_on_from_what_was_kept(files: LocalShellFiles, root: Path) -> None:
    data = os.urandom(20_000_000)
    (root / "f").write_bytes(data)
    with files.open_read("f") as stream:
        read = stream.read(1_500_000)
        assert files.drains
        for drain in list(files.drains):
            drain()
        for loop in list(files.loops):
            os.kill(shell_of(loop), signal.SIGKILL)
        assert read + stream.read() == data


def test_a_stream_whose_shell_is_killed_goes_on_by_another(files: LocalShellFiles, root: Path) -> None:
    data = os.urandom(20_000_000)
    (root / "f").write_bytes(data)
    with files.open_read("f") as stream:
        read = stream.read(1_500_000)
        for loop in list(files.loops):
            os.kill(shell_of(loop), signal.SIGKILL)
        assert read + stream.read() == data


def test_a_stream_that_nobody_reads_holds_up_nobody(files: LocalShellFiles, root: Path) -> None:
    (root / "f").write_bytes(b"x" * 20_000_000)
    with files.open_read("f") as stream:
        stream.read(1_500_000)
        assert files.drains
        files.write("g", "y")
        assert files.read("g") == "y"
    assert not files.drains
    assert files.read("g") == "y"


def test_a_stream_whose_tool_is_killed_is_an_error(files: LocalShellFiles, root: Path) -> None:
    with (root / "f").open("wb") as planted:
        planted.truncate(200_000_000)
    with killing(files, "dd"), pytest.raises(SandboxError), files.open_read("f") as stream:
        shutil.copyfileobj(stream, io.BytesIO())


def test_a_file_that_shrinks_while_it_is_read_ends_early(files: LocalShellFiles, root: Path) -> None:
    (root / "f").write_bytes(b"a" * 30_000_000)
    with files.open_read("f") as stream:
        assert stream.read(10) == b"a" * 10
        os.truncate(root / "f", 100_000)
        assert stream.read() == b"a" * 99_990


class Uneven(io.RawIOBase):
    """A source that gives pieces of given sizes."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@pytest.mark.parametrize("sizes", [[1, 70_000, 3, 2, 17_000_000, 1], [9_000_000] * 3, [2**24], [2**24, 1], [1] * 300])
def test_pieces_of_any_size_are_written_in_order(files: LocalShellFiles, root: Path, sizes: list[int]) -> None:
    pieces = [os.urandom(size) for size in sizes]
    whole = b"".join(pieces)
    files.write("f", Uneven(pieces))  # type: ignore[arg-type]
    assert (root / "f").read_bytes() == whole
    os.link(root / "f", root / "g")
    files.write("f", whole[::-1])
    assert (root / "g").read_bytes() == whole[::-1]


def test_a_file_that_is_replaced_while_it_is_read_is_a_conflict(files: LocalShellFiles, root: Path) -> None:
    (root / "f").write_bytes(b"a" * 5_000_000)
    with files.open_read("f") as stream:
        assert stream.read(10) == b"a" * 10
        (root / "other").write_bytes(b"b" * 5_000_000)
        (root / "other").rename(root / "f")
        with pytest.raises(SandboxError):
            stream.read()


def test_a_search_that_is_drained_goes_on_from_what_was_kept(files: LocalShellFiles, root: Path) -> None:
    for number in range(40):
        (root / f"{number:02}").write_text("needle and more of that line\n" * 4000)
    with files.grep("needle") as matches:
        found = [next(matches)]
        for drain in list(files.drains):
            drain()
        for loop in list(files.loops):
            os.kill(shell_of(loop), signal.SIGKILL)
        found += matches
    if files.kind == "dash":
        assert len(found) == 160_000
    assert len({match.path for match in found}) == 40


def test_a_search_that_nobody_reads_holds_up_nobody(files: LocalShellFiles, root: Path) -> None:
    (root / "f").write_text("needle\n" * 200_000)
    matches = files.grep("needle")
    next(matches)
    assert files.read("f", limit=1) == "needle\n"
    files.write("g", "x")
    assert len(list(matches)) == 199_999


def test_what_an_image_lacks_is_named(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("cat", "chmod", "dd", "find", "ln", "mkdir", "mv", "rm", "rmdir", "readlink", "grep"):
        (tools / tool).symlink_to(shutil.which(tool) or "/nonexistent")
    bare = LocalShellFiles(tmp_path, "dash", path=str(tools))
    with pytest.raises(UnsupportedError, match="stat"):
        bare.read("f")
    bare.close()
