"""The time that sessions are dated by: the system's, which may be set forth and back.

Only what other processes have to know is dated by it. How long something takes, or is idle, in this
process is measured by the monotonic clock, which nobody sets.
"""

from __future__ import annotations

import time
from typing import Final

__all__ = ["FILE_LAG", "now"]

FILE_LAG: Final = 0.01
"""How far the times of files may lag the system's clock: a tick of the kernel, at most, in seconds."""


def now() -> float:
    """Return the time, in seconds since the epoch."""
    return time.time()
