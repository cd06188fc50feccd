"""``python -m benchmarks [NAME...]``: run each ``bench_NAME.py`` in a process of its own, all by default."""

import subprocess
import sys
from pathlib import Path

PREFIX = "bench_"


def main(names: list[str]) -> int:
    """Run the named benchmarks one after another; return 1 if one of them failed, else 0."""
    chosen = names or sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).parent.glob(f"{PREFIX}*.py"))
    failed = [name for name in chosen if run(name) != 0]
    for name in failed:
        print(f"{name}: failed")
    return 1 if failed else 0


def run(name: str) -> int:
    print(f"== {name}", flush=True)
    return subprocess.run([sys.executable, "-m", f"benchmarks.{PREFIX}{name}"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
