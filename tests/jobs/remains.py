"""What a killed worker leaves, and what becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HANGS_AFTER = 30.0
NEXT_PROCESS = "from sandbox_kit import LocalSandbox; LocalSandbox().start().stop(purge=True)"


def gone(words: str) -> bool:
    """Whether no process has *words* in its command line, by now or some seconds later."""
    until = time.monotonic() + HANGS_AFTER
    while running(words):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def running(words: str) -> bool:
    return any(words in line for line in map(_command_line, Path("/proc").glob("[0-9]*")))


def _command_line(directory: Path) -> str:
    try:
        return (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
    except OSError:
        return ""


def next_process() -> None:
    """Have another process use a sandbox: it removes what those that have ended left."""
    subprocess.run([sys.executable, "-c", NEXT_PROCESS], timeout=HANGS_AFTER, check=True, env=dict(os.environ))
