"""How long a search may take over one stream."""

from __future__ import annotations

import time

from sandbox_kit.errors import SandboxTimeoutError

__all__ = ["Clock"]


class Clock:
    """Counts down the time of one search; what its caller takes between two hits does not count.

    Args:
        limit: in seconds.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._deadline = time.monotonic() + limit
        self._paused = 0.0

    def restart(self) -> None:
        """Begin anew, for another stream."""
        self._deadline = time.monotonic() + self._limit

    def pause(self) -> None:
        """Stop counting, until :meth:`resume`."""
        self._paused = time.monotonic()

    def resume(self) -> None:
        """Count on."""
        self._deadline += time.monotonic() - self._paused

    def check(self) -> None:
        """Return while there is time left.

        Raises:
            SandboxTimeoutError: there is none.
        """
        if time.monotonic() > self._deadline:
            raise SandboxTimeoutError(f"the search of one file took over {self._limit} s", self._limit)
