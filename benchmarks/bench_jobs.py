"""What many short jobs take, on two workers beside a plain loop, and in containers beside llm-sandbox's pool.

Run as ``python -m benchmarks.bench_jobs``. The engine is the one that DOCKER_HOST names, or a private one of
the tests'. A job is one ``echo`` in a sandbox; ours is a fresh one for each, with a workspace of its own. The
peer's pool hands out the same two containers again and again, and what a job leaves in one stays there; or
each once, and starts another one. The start of workers and pools is not in the figures. A peer that is
missing or fails is said to.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from engine.daemon import Unavailable
from engine.images import ensure_image

from benchmarks.bench_docker import engine
from sandbox_kit import SECRETS, SandboxSpec
from sandbox_kit.contract import Sandbox

JOBS = 200
WORKERS = 2
TURNS = 3
ENDS_AT_ONCE = "trap 'exit 0' TERM; sleep 100000 & wait"
"""What a peer's container runs: one that is asked to end does."""

Run = Callable[[Iterable[int]], list[str]]


def main() -> None:
    """Print a table for directories of this host, bare and under rules, and one for containers."""
    compare("local", SandboxSpec("local"), JOBS, TURNS)
    compare("local, secrets", SandboxSpec("local", {}, SECRETS), JOBS, TURNS)
    try:
        with engine() as running:
            image = ensure_image(running, "debian")
            compare("docker", SandboxSpec("docker", {"image": image}), JOBS, 1)
            peer(image)
    except Unavailable as reason:
        print(f"no engine here: {reason}")


def compare(name: str, spec: SandboxSpec, jobs: int, turns: int) -> None:
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        runs = {"plain loop": lambda items: loop(spec, items), f"map, {WORKERS} workers": mapped(spec, pool, 1)}
        with ThreadPoolExecutor(WORKERS) as threads:
            runs[f"map, {WORKERS} threads"] = mapped(spec, threads, WORKERS)
            table(f"{name}: {jobs} jobs", runs, jobs, turns)


def loop(spec: SandboxSpec, items: Iterable[int]) -> list[str]:
    return [one(spec, item) for item in items]


def one(spec: SandboxSpec, item: int) -> str:
    made = spec.open()
    assert isinstance(made, Sandbox)
    with made:
        return made.execute(f"echo {item}").stdout


def mapped(spec: SandboxSpec, executor: Executor, sandboxes: int) -> Run:
    def run(items: Iterable[int]) -> list[str]:
        results = spec.map("echo {item}", items, executor=executor, sandboxes=sandboxes)
        return [result.check().value.stdout for result in results]

    return run


def peer(image: str) -> None:
    """The same by llm-sandbox, with a pool of as many containers as there are workers."""
    try:
        with ExitStack() as pools:
            runs = {
                "its pool, reused": by_peer(pools, image),
                "its pool, used once": by_peer(pools, image, max_container_uses=1),
            }
            table(f"docker, llm-sandbox: {JOBS} jobs", runs, JOBS, 1)
    except Exception as error:  # a peer that is missing or fails is said to, and judged no further
        print(f"llm-sandbox: not run ({type(error).__name__}: {str(error)[:80]})")


def by_peer(pools: ExitStack, image: str, **limits: int) -> Run:
    from llm_sandbox import SandboxSession  # type: ignore[import-not-found]
    from llm_sandbox.pool import PoolConfig, create_pool_manager  # type: ignore[import-not-found]

    def one(item: int) -> str:
        with SandboxSession(lang="python", pool=pool) as session:
            return str(session.execute_command(f"echo {item}").stdout)

    sizes = PoolConfig(max_pool_size=WORKERS, min_pool_size=WORKERS, **limits)
    ends = {"command": ["sh", "-c", ENDS_AT_ONCE]}
    made = create_pool_manager(
        config=sizes, lang="python", image=image, skip_environment_setup=True, runtime_configs=ends
    )
    pool = pools.enter_context(made)
    threads = pools.enter_context(ThreadPoolExecutor(WORKERS))
    return lambda items: list(threads.map(one, items))


def table(title: str, runs: dict[str, Run], jobs: int, turns: int) -> None:
    """Time *runs* in turns, each once warm, and print a line for each; ratios are the first one's over it."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(range(WORKERS))
    for _ in range(turns):
        for name, run in runs.items():
            times[name].append(seconds(run, jobs))
    first = statistics.median(next(iter(times.values())))
    print(f"\n{title}\n{'':26}{'s':>8}{'ms a job':>10}{'x':>7}")
    for name, each in times.items():
        median = statistics.median(each)
        print(f"{name:26}{median:8.2f}{median / jobs * 1e3:10.1f}{first / median:7.2f}")


def seconds(run: Run, jobs: int) -> float:
    began = time.perf_counter()
    results = run(range(jobs))
    took = time.perf_counter() - began
    assert [result.strip() for result in results] == [str(item) for item in range(jobs)]
    return took


if __name__ == "__main__":
    main()
