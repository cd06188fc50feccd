"""Where sandboxes leave things, what a killed worker leaves, and what becomes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.local.processes import living

HANGS_AFTER = 60.0
NEXT_PROCESS = "from sandbox_kit import LocalSandbox; LocalSandbox().start().stop(purge=True)"


@contextmanager
def workspaces_in(place: Path) -> Iterator[Path]:
    """Have the temporary workspaces of this process, and of those that it starts, in *place*."""
    place.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(place))
        patch.setattr(tempfile, "tempdir", str(place))
        yield place


def gone(mark: str) -> bool:
    """Whether no process has *mark* in its command line, by now or some seconds later."""
    until = time.monotonic() + HANGS_AFTER
    while living(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def next_process() -> None:
    """Have another process use a sandbox: it removes what those that have ended left."""
    subprocess.run([sys.executable, "-c", NEXT_PROCESS], timeout=HANGS_AFTER, check=True, env=dict(os.environ))
