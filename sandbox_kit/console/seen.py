"""What a model has seen: which content each file had when it was last read or written by a tool."""

from __future__ import annotations

import threading
from hashlib import blake2b

__all__ = ["Seen"]

_REMEMBERED = 10_000


class Seen:
    """Fingerprints of contents, by the real name of the file. Any number of threads may use it."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, bytes]:
        with self._lock:
            return dict(self._digests)

    def __setstate__(self, state: dict[str, bytes]) -> None:
        self._digests = dict(state)
        self._lock = threading.Lock()

    def note(self, path: str, content: bytes) -> None:
        """Take *content* for what the model knows *path* to hold; the oldest are forgotten past a great many."""
        with self._lock:
            self._digests.pop(path, None)
            self._digests[path] = _digest(content)
            if len(self._digests) > _REMEMBERED:
                del self._digests[next(iter(self._digests))]

    def knows(self, path: str) -> bool:
        """Whether the model has seen the content of *path*."""
        return path in self._digests

    def is_current(self, path: str, content: bytes) -> bool:
        """Whether *content* is what the model has last seen of *path*."""
        return self._digests.get(path) == _digest(content)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()
