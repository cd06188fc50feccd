"""What to do about what an engine refuses, by what it says."""

from __future__ import annotations

import re

__all__ = ["explained"]

_GO_ON = "stop() and start() the sandbox to go on with the same files"
_MEANINGS = (
    (re.compile(r"network (\S+) not found", re.ASCII), "there is no network {0!r}: see 'docker network ls'"),
    (re.compile(r"no such container", re.IGNORECASE), f"the container is gone: {_GO_ON}"),
    (re.compile(r"container \S+ is not running", re.IGNORECASE), f"the container has ended: {_GO_ON}"),
    (re.compile(r"container (\S+) is paused", re.IGNORECASE), "the container is paused: 'docker unpause {0}' it"),
    (
        re.compile(r"no space left on device", re.IGNORECASE),
        "the engine's disk is full: see 'docker system df'",
    ),
)


def explained(refusal: str) -> str:
    """What the engine says, after what that means where it is known."""
    for pattern, meaning in _MEANINGS:
        found = pattern.search(refusal)
        if found is not None:
            return f"{meaning.format(*found.groups())} (the Docker engine refused: {refusal})"
    return f"the Docker engine refused: {refusal}"
