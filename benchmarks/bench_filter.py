"""grep: the filter's throughput and memory, and whole searches beside what the programs print by themselves.

``python -m benchmarks.bench_filter``. The tree is a copy of up to 5,000 files of this Python's library.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sandbox_kit.search.dialect import GREP_ENV, Dialect, parse
from sandbox_kit.search.filter import ByteFilter, GrepFilter
from sandbox_kit.search.records import grep_options, ripgrep_options
from sandbox_kit.search.runs import expand
from sandbox_kit.search.scan import Scanner

CHUNK = 2**16
FILES = 5000
ROUNDS = 9
WANTED_HITS = (0, 300, 40_000)
WORDS = (
    "qzqzqzqz",
    "TODO",
    "XXX",
    "FIXME",
    "deprecated",
    "yield from",
    "except ",
    "raise ",
    "import ",
    "return ",
    "if ",
)


def least_ms(*actions: Callable[[], object]) -> list[float]:
    """Return the shortest time of each action in ms; they take turns, so that noise meets all."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(ROUNDS):
        for action, taken in zip(actions, times, strict=True):
            begun = time.perf_counter()
            action()
            taken.append((time.perf_counter() - begun) * 1e3)
    return [min(taken) for taken in times]


# --- the filter alone ---


def stream(files: int, hits: int) -> list[bytes]:
    """Return the output of a grep with that many hits in each file, in chunks."""
    line = b"        return self.something(argument, other)\n"
    records = b"".join(
        b"./lib/package%d/module%d.py\0%d:%d:%s" % (number % 97, number, hit * 7 + 1, hit * 400, line)
        for number in range(files)
        for hit in range(hits)
    )
    return [records[begin : begin + CHUNK] for begin in range(0, len(records), CHUNK)]


def through_bytes(chunks: list[bytes], allow: Callable[[bytes], bool]) -> None:
    search_filter = ByteFilter(allow)
    for chunk in chunks:
        search_filter.feed(chunk)
    search_filter.close()


def through_records(chunks: list[bytes], allow: Callable[[bytes], bool]) -> None:
    search_filter = GrepFilter(allow)
    for chunk in chunks:
        search_filter.feed(chunk)
    search_filter.close()


def filter_throughput() -> None:
    mostly: dict[str, Callable[[bytes], bool]] = {
        "allowed": lambda name: not name.endswith(b"9.py"),
        "denied": lambda name: name.endswith(b"9.py"),
    }
    for files, hits in ((4000, 40), (20_000, 8), (100_000, 1)):
        chunks = stream(files, hits)
        size = sum(map(len, chunks)) / 1e6
        for label, allow in mostly.items():
            to_bytes, to_records = least_ms(
                lambda chunks=chunks, allow=allow: through_bytes(chunks, allow),  # type: ignore[misc]
                lambda chunks=chunks, allow=allow: through_records(chunks, allow),  # type: ignore[misc]
            )
            print(
                f"filter, {hits:3} hits a file, most {label:7}: to bytes {size / to_bytes * 1e3:6.0f} MB/s,"
                f" to records {size / to_records * 1e3:6.0f} MB/s"
            )


def filter_memory() -> None:
    chunks = stream(2000, 8)
    search_filter = GrepFilter(lambda name: name.endswith(b"9.py"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fed = 0
    while fed < 2**30:
        for chunk in chunks:
            search_filter.feed(chunk)
            fed += len(chunk)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"filter, memory: {fed / 2**30:.1f} GiB in, the peak grew by {grown / 1024:.1f} MiB")


# --- whole searches ---


def make_tree(root: Path) -> None:
    source = Path(sysconfig.get_paths()["stdlib"])
    names = [path for path in sorted(source.rglob("*.py")) if path.is_file()][:FILES]
    for path in names:
        target = root / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    size = sum(path.stat().st_size for path in names)
    print(f"tree: {len(names)} files, {size / 1e6:.0f} MB")


def output_of(argv: list[str], root: Path) -> Iterator[bytes]:
    environment = {"PATH": os.environ["PATH"], **GREP_ENV}
    with subprocess.Popen(argv, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 2**18):
            yield chunk


def read_raw(argv: list[str], root: Path) -> int:
    return sum(map(len, output_of(argv, root)))


def filtered(argv: list[str], root: Path) -> int:
    search_filter = GrepFilter(lambda name: not name.endswith(b".env"))
    hits = [hit for chunk in output_of(argv, root) for hit in expand(search_filter.feed(chunk))]
    return len([hit.to_match("path") for hit in [*hits, *expand(search_filter.close())]])


def scanned(dialect: Dialect, root: Path) -> int:
    scanner = Scanner(dialect)
    count = 0
    for directory, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(directory, name), "rb", buffering=0) as stream:
                count += sum(1 for _ in scanner.scan(stream, b"name"))
    return count


def chosen_words(root: Path) -> dict[str, int]:
    """Return words that occur in about as many lines of the tree as is wanted, each with that number."""
    counts = {word: scanned(parse(word), root) for word in WORDS}
    chosen = [min(counts, key=lambda word: abs(counts[word] - wanted)) for wanted in WANTED_HITS]
    return {word: counts[word] for word in chosen}


def plain_ripgrep(word: str) -> list[str]:
    return ["rg", "-uu", "--text", "--line-number", "--with-filename", "--no-heading", "-e", word, "."]


def plain_grep(word: str) -> list[str]:
    return ["grep", "-rna", "-e", word, "."]


def whole_searches(root: Path) -> None:
    for word, count in chosen_words(root).items():
        dialect = parse(word)
        rg = ["rg", *ripgrep_options(dialect), "."]
        grep = ["grep", *grep_options(dialect), "."]
        raw_rg, ours_rg, raw_grep, ours_grep, scan = least_ms(
            lambda word=word: read_raw(plain_ripgrep(word), root),  # type: ignore[misc]
            lambda rg=rg: filtered(rg, root),  # type: ignore[misc]
            lambda word=word: read_raw(plain_grep(word), root),  # type: ignore[misc]
            lambda grep=grep: filtered(grep, root),  # type: ignore[misc]
            lambda dialect=dialect: scanned(dialect, root),  # type: ignore[misc]
        )
        print(
            f"{count:6} hits of {word!r}: rg {raw_rg:.0f} ms, to records {ours_rg:.0f} ({ours_rg / raw_rg:.2f}x)"
            f"; grep {raw_grep:.0f} ms, to records {ours_grep:.0f} ({ours_grep / raw_grep:.2f}x)"
            f"; own scan {scan:.0f} ({scan / raw_grep:.2f}x grep)"
        )


def main() -> None:
    """Print every figure."""
    filter_throughput()
    filter_memory()
    with tempfile.TemporaryDirectory() as directory:
        make_tree(Path(directory))
        whole_searches(Path(directory))


if __name__ == "__main__":
    main()
