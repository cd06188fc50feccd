"""Processes that open, use and close sessions at random, each checking what it sees; some are killed.

``python storm.py ROOT NAME COUNT MAX_SESSIONS``: COUNT opens, or with 0 as many as there is time for until
ROOT/../stop exists. It ends with 0 if all was right. What it wrote is told, a line each, in ROOT/../acks/NAME.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from pathlib import Path

from sandbox_kit.errors import SessionLimitError
from sandbox_kit.sessions.manager import SessionManager
from sandbox_kit.sessions.policy import SandboxPolicy

IDS = [f"shared-{number}" for number in range(6)]
PATIENCE = 120.0
EXITING = 4
"""The kernel's flag of a process that ends: its locks may be gone already."""


class Worker:
    """One process of the storm."""

    def __init__(self, root: Path, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self.up = root.parent / "up"
        self.acks = root.parent / "acks" / name
        self.stop = root.parent / "stop"
        for directory in (self.up, self.acks.parent):
            directory.mkdir(exist_ok=True)
        self.numbers = itertools.count()
        policy = SandboxPolicy.from_dict({"max_sessions": most})
        self.manager = SessionManager(policy, workspace_root=root, reap_every=0.2)

    def run(self, count: int) -> None:
        number = 0
        while number < count if count else not self.stop.exists():
            self.once(number, random.choice([*IDS, f"own-{self.name}"]))
            number += 1

    def once(self, number: int, id: str) -> None:
        """Open a session, as soon as there is a slot, and close it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.use(number, id)
                return
            except SessionLimitError:
                assert time.monotonic() < deadline, "no slot came free"
                time.sleep(random.random() * 0.01)

    def use(self, number: int, id: str) -> None:
        with self.manager.open(id) as box:
            marker = self.up / f"{id}={os.getpid()}={self.name}={next(self.numbers)}"
            marker.touch()
            held = {path.name.split("=")[0] for path in list(self.up.iterdir()) if stands(path)}
            assert len(held) <= self.most, f"{sorted(held)} are up at once"
            file = f"{self.name}-{number}"
            box.write(file, id)
            with self.acks.open("a") as acks:
                acks.write(f"{id} {file}\n")
            time.sleep(random.random() * 0.005)
            assert box.read(file) == id, "the workspace of a live session was touched"
            marker.unlink()
        self.manager.close(id)
        if id.startswith("own-") and number % 3 == 0:
            self.manager.close(id, purge=True)
            assert not self.manager.open(id).exists(file), "a purged file is there"
            self.manager.close(id)


def stands(marker: Path) -> bool:
    """Whether *marker* is still there, and its process not at its end: both were so when it was listed, then."""
    try:
        status = Path("/proc", marker.name.split("=")[1], "stat").read_text("latin-1").rpartition(")")[2].split()
    except OSError:
        return False
    return status[0] not in "ZX" and not int(status[6]) & EXITING and marker.exists()


def main() -> None:
    root, name, count, most = sys.argv[1:]
    worker = Worker(Path(root), name, int(most))
    with worker.manager:
        worker.run(int(count))


if __name__ == "__main__":
    main()
