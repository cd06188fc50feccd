"""What the console adds to a call of the guarded backend beneath it.

``python -m benchmarks.bench_console``. A figure is the median of several interleaved rounds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.console import console_tools
from sandbox_kit.contract import Sandbox
from sandbox_kit.guard import guarding
from sandbox_kit.rules.presets import SECRETS

ROUNDS = 15
FILES = 50
LINE = "0123456789abcdef" * 4

Call = Callable[[], object]


def interleaved(calls: tuple[Call, Call], repeat: int) -> list[float]:
    """Return the median time of one call of each in us; they take turns, so that noise meets both."""
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            begun = time.perf_counter()
            for _ in range(repeat):
                call()
            taken.append((time.perf_counter() - begun) / repeat * 1e6)
    return [statistics.median(taken) for taken in times]


def rows(box: Sandbox) -> dict[str, tuple[int, Call, Call]]:
    """Return, by name, how often to repeat, a call of the guarded backend, and the same by a tool."""
    tool = {each.name: each for each in console_tools(box)}
    return {
        "read 4 KiB": (200, lambda: box.read("f0"), lambda: tool["read_file"](path="f0")),
        f"ls of {FILES} files": (50, lambda: box.ls(), lambda: tool["ls"]()),
        f"grep in {FILES} files": (5, lambda: list(box.grep("f9")), lambda: tool["grep"](pattern="f9")),
        "execute true": (5, lambda: box.execute("true"), lambda: tool["execute"](command="true")),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as root, guarding(LocalSandbox(root), SECRETS, commands="inspected") as box:
        for number in range(FILES):
            box.write(f"f{number}", f"{LINE[:-1]}\n" * 64)
        print(f"{'call':20} {'backend, us':>12} {'tool, us':>10} {'ratio':>7}")
        for name, (repeat, direct, by_tool) in rows(box).items():
            plain, told = interleaved((direct, by_tool), repeat)
            print(f"{name:20} {plain:12.1f} {told:10.1f} {told / plain:7.2f}")


if __name__ == "__main__":
    main()
