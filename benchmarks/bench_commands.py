"""What a local command costs: a plain subprocess, inspected, and confined under masks and pins.

Run as ``python -m benchmarks.bench_commands``. Every command is ``sh -c :``. Those of one table
take turns, so that all meet the same noise. A figure is the lower quartile of its times, in
milliseconds, as other processes only ever add to one; beside it what it adds to the plain
subprocess, and what ceiling that has.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox_kit import PermissionRule, PermissionRuleset, Sandbox, guarding
from sandbox_kit.backends.local import LocalSandbox, probe

Run = Callable[[], object]

TURNS = 60
MASKS = (3, 10, 30)
DEPTHS = (1, 2, 3)
PINNED = 30
TREE_FILES, TREE_RULES, TREE_MASKS = 10_000, 10, 64
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8", "TERM": "dumb"}


def main() -> None:
    """Print one table for each workspace."""
    reason = probe.can_confine()
    if reason is not None:
        print(f"no confined commands here: {reason}")
    with LocalSandbox() as sandbox:
        fill_small(sandbox)
        table("a small workspace", sandbox, {"inspected": 0.3}, inspected(sandbox))
        if reason is None:
            runs = {"confined": command(sandbox), **{f"{n} masks": masked(sandbox, n) for n in MASKS}}
            table("30 masked files", sandbox, dict.fromkeys(runs, 10.0), runs)
    if reason is None:
        with LocalSandbox() as sandbox:
            fill_pinned(sandbox)
            runs = {f"{PINNED} masks, pinned at depth {depth}": pinned(sandbox, depth) for depth in DEPTHS}
            table("pins", sandbox, {}, runs)
        with LocalSandbox() as sandbox:
            fill_large(sandbox)
            name = f"{TREE_RULES} rules, {TREE_MASKS} masks"
            table(f"{TREE_FILES:,} files", sandbox, {name: 60.0}, {name: large(sandbox)})


def fill_small(sandbox: Sandbox) -> None:
    for number in range(max(MASKS)):
        sandbox.write(f"d{number % 3}/secret{number}.key", "x")


def fill_pinned(sandbox: Sandbox) -> None:
    """Thirty secrets at each depth, each beneath directories of its own."""
    for depth in DEPTHS:
        for number in range(PINNED):
            sandbox.write("/".join(pinned_parts(depth, number)), "x")


def pinned_parts(depth: int, number: int) -> list[str]:
    return [f"deep{depth}-{number}" if level == 0 else f"level{level}" for level in range(depth)] + ["secret"]


def fill_large(sandbox: Sandbox) -> None:
    """Files that the host writes itself: through the sandbox they would take longer than all commands."""
    root = Path(sandbox.work_dir)
    for number in range(TREE_FILES):
        directory = root / f"package{number % 40}" / f"module{number % 400}"
        directory.mkdir(parents=True, exist_ok=True)
        name = f"secret{number % TREE_RULES}.key" if number < TREE_MASKS else f"file{number}.py"
        (directory / name).write_text("x")


def denying(*patterns: str) -> PermissionRuleset:
    return PermissionRuleset(rules=tuple(PermissionRule(pattern, "deny") for pattern in patterns))


def command(sandbox: Sandbox) -> Run:
    return lambda: sandbox.execute(":", check=True)


def inspected(sandbox: Sandbox) -> Mapping[str, Run]:
    rules = denying(*(f"**/secret{number}.key" for number in range(10)))
    return {"inspected": command(guarding(sandbox, rules, commands="inspected"))}


def masked(sandbox: Sandbox, count: int) -> Run:
    rules = denying(*(f"**/secret{number}.key" for number in range(count)))
    return command(guarding(sandbox, rules, commands="confined"))


def pinned(sandbox: Sandbox, depth: int) -> Run:
    rules = denying(*("/".join(pinned_parts(depth, number)) for number in range(PINNED)))
    return command(guarding(sandbox, rules, commands="confined"))


def large(sandbox: Sandbox) -> Run:
    rules = denying(*(f"**/secret{number}.key" for number in range(TREE_RULES)))
    return command(guarding(sandbox, rules, commands="confined"))


def plain(directory: str) -> Run:
    def run() -> None:
        subprocess.run(["/bin/sh", "-c", ":"], env=ENVIRONMENT, cwd=directory, capture_output=True, check=True)

    return run


def table(title: str, sandbox: Sandbox, ceilings: Mapping[str, float], runs: Mapping[str, Run]) -> None:
    """Measure *runs* in turn with a plain subprocess, and print what each adds to it."""
    times = in_turn({"plain subprocess": plain(sandbox.work_dir), **runs})
    base = quartile(times["plain subprocess"])
    print(f"{title:36}{'ms':>8}{'added':>8}{'ratio':>8}{'at most':>9}")
    for name, measured in times.items():
        taken = quartile(measured)
        ceiling = f"{ceilings[name]:9.1f}" if name in ceilings else ""
        print(f"  {name:34}{1e3 * taken:8.2f}{1e3 * (taken - base):8.2f}{taken / base:8.1f}{ceiling}")


def quartile(times: Sequence[float]) -> float:
    """The lower quartile."""
    return statistics.quantiles(times, n=4)[0]


def in_turn(runs: Mapping[str, Run]) -> dict[str, list[float]]:
    """Seconds that each of *runs* took, turn by turn."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return times


if __name__ == "__main__":
    main()
