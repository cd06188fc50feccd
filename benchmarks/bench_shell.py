"""Files behind a shell of this machine, bare and guarded, beside ``cat`` through the same shell.

``python -m benchmarks.bench_shell``. Figures are medians of interleaved rounds, in ms.
"""

from __future__ import annotations

import io
import shlex
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bench_filter import chosen_words, make_tree, plain_grep
from sandbox_kit.contract import Backend
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from tests.shell.backends import KINDS, LocalShellFiles

PATTERNS = ("**/.env", "**/*.pem", "**/secrets/**", "**/.ssh/**")


def bare(files: LocalShellFiles, body: str) -> Callable[[], object]:
    """Run *body* through a shell of *files*, and take what it prints."""

    def run() -> int:
        size = 0

        def take(stream: str, data: bytes) -> None:
            nonlocal size
            size += len(data)

        with files._lease() as loop:
            loop.run(f"{body} </dev/null >&8; c=$?", take, time.monotonic() + 60)
        return size

    return run


def medians(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median time of each of *calls*, in ms."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(each) * 1000 for name, each in times.items()}


def print_ratios(kind: str, figures: dict[str, float]) -> None:
    """Print *figures*, each also as a multiple of the first."""
    first = next(iter(figures.values()))
    for name, figure in figures.items():
        print(f"{kind:5} {name:24} {figure:9.2f} {figure / first:6.2f}x")


def small(kind: str, root: Path) -> None:
    """A read and a write of one small file."""
    files = LocalShellFiles(root, kind)
    held = guarding(files, PermissionRuleset("allow", rules=[PermissionRule(each, "deny") for each in PATTERNS]))
    files.write("f", b"x" * 4096)
    files.write("k", b"x" * 1024)
    name = shlex.quote(f"{root}/f")
    print_ratios(
        kind,
        medians(
            {
                "cat 4 KiB": bare(files, f"cat {name}"),
                "read 4 KiB": lambda: files.read_bytes("f"),
                "read 4 KiB, guarded": lambda: held.read_bytes("f"),
                "write 1 KB": lambda: files.write("k", b"y" * 1024),
                "write 1 KB, guarded": lambda: held.write("k", b"y" * 1024),
                "stat": lambda: files.stat("f"),
                "ls": lambda: files.ls(),
            },
            200,
        ),
    )
    files.close()


def large(kind: str, root: Path) -> None:
    """A stream of 100 MB each way."""
    files = LocalShellFiles(root, kind)
    data = bytes(100_000_000)

    def read() -> None:
        with files.open_read("big") as stream:
            while stream.read(2**20):
                pass

    figures = medians({"write 100 MB": lambda: files.write("big", io.BytesIO(data)), "read 100 MB": read}, 3)
    for name, figure in figures.items():
        print(f"{kind:5} {name:24} {figure:9.2f} {100_000 / figure:6.0f} MB/s")
    files.close()


def grep(kind: str, tree: Path) -> None:
    """A search of up to 5,000 files beside the search program's own output."""
    files = LocalShellFiles(tree, kind)
    held = guarding(files, PermissionRuleset("allow", rules=[PermissionRule(each, "deny") for each in PATTERNS]))
    for word, hits in chosen_words(tree).items():
        raw = shlex.join(plain_grep(word)) if kind == "dash" else f"grep -rn -e {shlex.quote(word)} ."

        def count(backend: Backend = held, word: str = word) -> int:
            return sum(1 for _ in backend.grep(word))

        calls = {f"raw grep, {hits} hits": bare(files, f"cd {shlex.quote(str(tree))} && {raw}"), "grep, guarded": count}
        print_ratios(kind, medians(calls, 3))
    files.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root, tree = Path(directory, "root"), Path(directory, "tree")
        root.mkdir()
        make_tree(tree)
        for kind in KINDS:
            small(kind, root)
            large(kind, root)
            grep(kind, tree)


if __name__ == "__main__":
    main()
