"""What it takes to list and export the files of a session, beside os.walk, tarfile, zipfile and ``tar c``.

``python -m benchmarks.bench_archive``. A figure is the best of several interleaved rounds.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.sessions.archive import WorkspaceArchive

ROUNDS = 5
FILES = 10_000
DIRECTORIES = 100
LARGE = 64
MEBIBYTE = 2**20

Call = Callable[[], object]


def interleaved(calls: dict[str, Call]) -> dict[str, float]:
    """Return the shortest time of one call in seconds; the calls take turns, so that noise meets all."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def fill(root: Path) -> None:
    """Make the sessions: many small files in one directory and in many, and a few large ones."""
    noise = random.Random(0)
    flat, deep, large = (root / name / "workspace" for name in ("flat", "deep", "large"))
    for workspace in (flat, deep, large):
        workspace.mkdir(parents=True)
    for number in range(FILES):
        (flat / f"file-{number:05}").write_bytes(b"x")
        directory = deep / f"{number % DIRECTORIES:02}"
        directory.mkdir(exist_ok=True)
        (directory / f"{number:05}").write_bytes(b"x" * 100)
    for number in range(LARGE):
        half = noise.randbytes(MEBIBYTE // 2)
        (large / f"{number}").write_bytes(half + b"words and more words\n" * (MEBIBYTE // 42))


def drained(stream: object) -> int:
    """Read *stream* to its end; return how many bytes it gave."""
    total = 0
    with stream as opened:  # type: ignore[attr-defined]
        while chunk := opened.read(2**18):
            total += len(chunk)
    return total


def walked(top: Path) -> int:
    """What os.walk needs to tell what a walk of an archive tells."""
    return sum(
        len([os.lstat(os.path.join(at, name)) for name in sorted([*dirs, *files])]) for at, dirs, files in os.walk(top)
    )


def listed(top: Path) -> int:
    """What os.scandir needs to tell what ls of an archive tells."""
    with os.scandir(top) as entries:
        return len(sorted((entry.name, entry.stat(follow_symlinks=False).st_size) for entry in entries))


class Nowhere:
    """A file that takes everything and keeps nothing; it cannot be searched."""

    def write(self, data: bytes) -> int:
        return len(data)

    def flush(self) -> None:
        """Keep nothing."""


def tarred(top: Path) -> None:
    with tarfile.open(fileobj=Nowhere(), mode="w|") as archive:  # type: ignore[call-overload]
        archive.add(top, arcname=".")


def zipped(top: Path) -> None:
    with zipfile.ZipFile(Nowhere(), "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for path in top.rglob("*"):
            archive.write(path, path.relative_to(top))


def by_program(top: Path) -> None:
    subprocess.run(f"tar cf - -C {top} . | cat > /dev/null", shell=True, check=True)


def show(title: str, calls: dict[str, Call], unit: str, figure: Callable[[float], float]) -> None:
    print(f"{title:44} {unit:>10}")
    for name, seconds in interleaved(calls).items():
        print(f"  {name:42} {figure(seconds):10.1f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        fill(root)
        bare, guarded = WorkspaceArchive(root), WorkspaceArchive(root, ruleset=SECRETS)
        flat, deep, large = (root / name / "workspace" for name in ("flat", "deep", "large"))
        size = sum(path.stat().st_size for path in large.iterdir()) / MEBIBYTE
        show(
            "read_bytes of 1 byte",
            {
                "open().read()": (flat / "file-00000").read_bytes,
                "archive": lambda: bare.read_bytes("flat", "file-00000"),
                "archive, secrets preset": lambda: guarded.read_bytes("flat", "file-00000"),
            },
            "us",
            lambda seconds: seconds * 1e6,
        )
        show(
            f"ls of {FILES:,} files in one directory",
            {
                "os.scandir and stat, sorted": lambda: listed(flat),
                "archive": lambda: bare.ls("flat"),
                "archive, secrets preset": lambda: guarded.ls("flat"),
            },
            "ms",
            lambda seconds: seconds * 1e3,
        )
        show(
            f"walk of {FILES:,} files in {DIRECTORIES} directories",
            {
                "os.walk and lstat": lambda: walked(deep),
                "archive": lambda: sum(1 for _ in bare.walk("deep")),
                "archive, changes": lambda: sum(1 for _ in bare.changes("deep", 0)),
                "archive, secrets preset": lambda: sum(1 for _ in guarded.walk("deep")),
            },
            "ms",
            lambda seconds: seconds * 1e3,
        )
        tars: dict[str, Call] = {
            "tarfile, streamed": lambda: tarred(large),
            "archive": lambda: drained(bare.export("large")),
            "archive, secrets preset": lambda: drained(guarded.export("large")),
        }
        if shutil.which("tar"):
            tars["tar c | cat"] = lambda: by_program(large)
        show(f"tar of {LARGE} files of 1 MiB", tars, "MiB/s", lambda seconds: size / seconds)
        show(
            f"tar of {FILES:,} files of 100 bytes",
            {"tarfile, streamed": lambda: tarred(deep), "archive": lambda: drained(bare.export("deep"))},
            "ms",
            lambda seconds: seconds * 1e3,
        )
        show(
            f"zip of {LARGE} files of 1 MiB",
            {
                "zipfile, streamed": lambda: zipped(large),
                "archive": lambda: drained(bare.export("large", format="zip")),
            },
            "MiB/s",
            lambda seconds: size / seconds,
        )


if __name__ == "__main__":
    main()
