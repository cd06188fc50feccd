"""What opening a session costs, and what a storm of killed processes leaves behind.

``python -m benchmarks.bench_sessions`` times opens, alone and with 10,000 sessions in the ledger. With
``--storm SECONDS`` it kills processes at random for that long instead, and fails if a ceiling was ever
exceeded, a slot or a file lost, or a live workspace touched.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy
from sandbox_kit.sessions.schema import Ceilings

STORM = Path(__file__).parents[1] / "tests" / "sessions" / "storm.py"
CALLS = 300
MANY = 10_000
WORKERS = 6
MOST = 3


def median_ms(call: Callable[[], object], calls: int = CALLS) -> tuple[float, float]:
    """Return the median and the 99th percentile of one call, in ms."""
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def fill(manager: SessionManager, count: int) -> None:
    """Put *count* hibernated sessions into the ledger."""
    ledger, owner = manager._service.ledger, manager._service.table.owner
    for number in range(count):
        ledger.claim(f"s{number}", owner, tenant=f"t{number % 50}", runtime=None, ceilings=Ceilings(), now=number)
        ledger.release(f"s{number}", owner)


def measure(root: str) -> None:
    policy = SandboxPolicy.from_dict(
        {"max_sessions": 100, "max_open_sessions": 10**6, "max_sessions_per_tenant": 10**6}
    )
    with SessionManager(policy, workspace_root=root, reap_every=None) as manager:
        report(manager, "few sessions")
        fill(manager, MANY)
        report(manager, f"{MANY} sessions")
        begun = time.perf_counter()
        count = len(manager.sessions())
        print(f"{'sessions() of ' + str(count):40} {(time.perf_counter() - begun) * 1e3:8.2f} ms")
        begun = time.perf_counter()
        manager.reap()
        print(f"{'reap()':40} {(time.perf_counter() - begun) * 1e3:8.2f} ms")


def report(manager: SessionManager, what: str) -> None:
    manager.open("live")
    numbers = iter(range(10**6))

    def anew() -> None:
        id = f"{what.split()[0]}-{next(numbers)}"
        manager.open(id, tenant="t1")
        manager.close(id)

    def woken() -> None:
        manager.open("woken")
        manager.close("woken")

    for name, call in (("a live session", lambda: manager.open("live")), ("woken", woken), ("new", anew)):
        median, worst = median_ms(call)
        print(f"{f'open, {what}: {name}':40} {median:8.3f} ms   p99 {worst:8.3f} ms")


def storm(root: str, seconds: float) -> int:
    """Kill processes at random for *seconds*; return how many ended as they should not have."""
    inner = Path(root) / "root"
    workers = [start(inner, number) for number in range(WORKERS)]
    number, bad = WORKERS, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(random.random() * 0.4)
        victim = workers.pop(random.randrange(len(workers)))
        victim.send_signal(signal.SIGKILL)
        bad += victim.wait() != -signal.SIGKILL
        workers.append(start(inner, number))
        number += 1
    (Path(root) / "stop").touch()
    bad += sum(worker.wait() != 0 for worker in workers)
    told = [line.split() for acks in (Path(root) / "acks").iterdir() for line in acks.read_text().splitlines()]
    lost = [file for id, file in told if id[:4] != "own-" and not (inner / id / "workspace" / file).exists()]
    with SessionManager(SandboxPolicy(), workspace_root=inner, reap_every=None) as manager:
        manager.reap()
        stuck = [info.id for info in manager.sessions() if info.state != "hibernated"]
    print(
        f"{number - WORKERS} kills, {len(told)} opens: {bad} bad ends, {len(lost)} files lost, {len(stuck)} slots lost"
    )
    return bad + len(lost) + len(stuck)


def start(root: Path, number: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([sys.executable, str(STORM), str(root), f"w{number}", "0", str(MOST)], env=env)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storm", type=float, metavar="SECONDS", help="kill processes for that long")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        if args.storm:
            return min(storm(root, args.storm), 1)
        measure(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
