"""What a look at the overrides file and an update of the policy cost, beside a bare ``os.stat``.

``python -m benchmarks.bench_policy``. A figure is the median of several interleaved rounds.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sandbox_kit import PolicyOverrides, SandboxPolicy, apply_policy_update

ROUNDS = 15
CALLS = 300
SETTLED_AFTER = 2.6

Call = Callable[[], object]


def interleaved(calls: dict[str, Call]) -> dict[str, float]:
    """Return the median time of one call in us; the calls take turns, so that noise meets all."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begun = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - begun) / CALLS * 1e6)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    policy = SandboxPolicy.from_dict({"runtimes": {"py": "python:3.12", "locked": {"mem_limit": "512m"}}})
    numbers = itertools.count(1)
    with tempfile.TemporaryDirectory() as directory:
        still, moving = Path(directory, "still.json"), Path(directory, "moving.json")
        still.write_text('{"max_sessions": 3, "runtimes": {"locked": {"mem_limit": "1g"}}}')
        unchanged, changing = PolicyOverrides(policy, still), PolicyOverrides(policy, moving)
        absent = PolicyOverrides(policy, Path(directory, "absent.json"))
        time.sleep(SETTLED_AFTER)
        unchanged.refresh()

        def rewrite() -> None:
            moving.write_text(f'{{"cpu_shares": {next(numbers)}}}')

        def rewrite_and_refresh() -> None:
            rewrite()
            changing.refresh()

        calls: dict[str, Call] = {
            "os.stat": lambda: os.stat(still),
            "refresh, unchanged": unchanged.refresh,
            "refresh, absent": absent.refresh,
            "write": rewrite,
            "write and refresh": rewrite_and_refresh,
            "update by a call": lambda: apply_policy_update(policy, {"cpu_shares": next(numbers)}),
            "snapshot": policy.snapshot,
        }
        medians = interleaved(calls)
    for name, median in medians.items():
        print(f"{name:20} {median:8.2f} us")


if __name__ == "__main__":
    main()
