"""What a sandbox costs that is ready, beside one that is started when it is asked for, on the same engine and image.

Run as ``python -m benchmarks.bench_pool``. The engine is the one that DOCKER_HOST names, or a private one of
the tests'. Both take turns, and end what they took outside the clock; a figure is the median, beside it the
95th percentile.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from engine.daemon import Unavailable
from engine.images import ensure_image

from benchmarks.bench_docker import RULES, engine
from sandbox_kit import SandboxPool, SandboxSpec
from sandbox_kit.contract import Sandbox

TURNS = 20
READY = 2
FULL_WITHIN = 60.0


def main() -> None:
    """Print a line for each image, bare and under rules."""
    try:
        with engine() as running:
            for name in ("busybox", "debian"):
                options = {"image": ensure_image(running, name)}
                compare(name, SandboxSpec("docker", options))
                compare(f"{name}, guarded", SandboxSpec("docker", options, RULES, "inspected"))
    except Unavailable as reason:
        print(f"no engine here: {reason}")


def compare(name: str, spec: SandboxSpec) -> None:
    started: list[float] = []
    ready: list[float] = []
    with SandboxPool(spec, min_idle=READY) as pool:
        for _ in range(TURNS):
            started.append(first_result(lambda: fresh(spec)))
            fill(pool)
            ready.append(first_result(pool.acquire))
            fill(pool)
    ratio = statistics.median(started) / statistics.median(ready)
    print(f"{name}: to the first result, ms: started {told(started)}, from the pool {told(ready)}, {ratio:.0f} times")


def fill(pool: SandboxPool) -> None:
    until = time.monotonic() + FULL_WITHIN
    while pool.idle < READY:
        assert time.monotonic() < until, "the pool does not fill"
        time.sleep(0.01)


def first_result(take: Callable[[], Sandbox]) -> float:
    began = time.perf_counter()
    sandbox = take()
    sandbox.execute("echo hi")
    took = time.perf_counter() - began
    sandbox.stop(purge=True)
    return took


def fresh(spec: SandboxSpec) -> Sandbox:
    made = spec.open()
    assert isinstance(made, Sandbox)
    return made.start()


def told(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{statistics.median(ordered) * 1e3:.1f} ({ordered[int(len(ordered) * 0.95)] * 1e3:.1f})"


if __name__ == "__main__":
    main()
