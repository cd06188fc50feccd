"""A process swaps what a path names while it is read and written: nothing leaks, nothing is written outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.errors import SandboxError
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

READS = 20_000
WRITES = 5_000
COPIES = 120
FEWEST = 20
SECRET = "TOPSECRET"
FLIP = """
import ctypes, os, select, sys
one, other = map(os.fsencode, sys.argv[1:])
exchange, times = ctypes.CDLL(None).renameat2, 0
print("begun", flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(20):
        times += exchange(-100, one, -100, other, 2) == 0
print(times)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged by renameat2")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "f").write_text(SECRET)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "d").mkdir(parents=True)
    (made / "d" / "f").write_text("harmless")
    return made


@pytest.fixture(params=["file", "directory"])
def names(request: pytest.FixtureRequest, root: Path, outside: Path) -> tuple[Path, Path]:
    """What ``d/f`` is read through, and a link that leads outside from there."""
    inside = root / ("d/f" if request.param == "file" else "d")
    (root / "link").symlink_to(outside / "f" if request.param == "file" else outside)
    return inside, root / "link"


@contextmanager
def flipping(names: tuple[Path, Path]) -> Iterator[None]:
    """Exchange *names* over and over, each time in one step, in another process while the block runs."""
    argv = [sys.executable, "-c", FLIP, *map(str, names)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            yield
            told, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert int(told) > FEWEST


def test_a_racing_read_never_leaks(root: Path, names: tuple[Path, Path]) -> None:
    backend = LocalBackend(root)
    seen: set[str] = set()
    with flipping(names):
        for _ in range(READS // 2):
            with suppress(SandboxError):
                seen.add(backend.read("d/f"))
    assert seen == {"harmless"}


def test_a_racing_write_changes_nothing_outside(root: Path, outside: Path, names: tuple[Path, Path]) -> None:
    backend = LocalBackend(root)
    written = 0
    with flipping(names):
        for number in range(WRITES // 2):
            with suppress(SandboxError):
                backend.write("d/f" if number % 5 else f"d/new/{number}", "harmless")
                written += 1
    assert written
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"f": SECRET}


def stand_in(kind: str, path: Path, outside: Path) -> None:
    """Make what a link that stays inside is exchanged with."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
        (path / "g").write_text("harmless")
    elif kind == "file":
        path.write_text("harmless")
    else:
        path.symlink_to({"denied": "secret.key", "outside": str(outside / "f"), "dangling": "nowhere"}[kind])


@pytest.mark.parametrize("kind", ["denied", "outside", "dangling", "file", "directory", "fifo"])
def test_a_copy_that_skips_is_never_ended_by_an_entry_that_changes(
    root: Path, outside: Path, tmp_path: Path, kind: str
) -> None:
    (root / "secret.key").write_text(SECRET)
    (root / "link").symlink_to("d/f")
    stand_in(kind, root / "other", outside)
    backend = guarding(LocalBackend(root), PermissionRuleset("allow", rules=[PermissionRule("*.key", "deny")]))
    with flipping((root / "link", root / "other")):
        for number in range(COPIES):
            with backend.export(denied="skip") as stream:
                assert SECRET.encode() not in stream.read()
                assert stream.denied >= 1
            assert backend.download(".", tmp_path / f"copy{number}", denied="skip") >= 1
            assert (tmp_path / f"copy{number}" / "d/f").read_text() == "harmless"
