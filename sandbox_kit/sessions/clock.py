"""The time that sessions are dated by: the system's, which may be set forth and back.

Only what other processes have to know is dated by it. How long something takes, or is idle, in this
process is measured by the monotonic clock, which nobody sets.
"""

from __future__ import annotations

import time

__all__ = ["now"]


def now() -> float:
    """Return the time, in seconds since the epoch."""
    return time.time()
