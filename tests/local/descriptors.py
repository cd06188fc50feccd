"""What this process holds open."""

from __future__ import annotations

import gc
import os
from contextlib import suppress


def opened_beneath(root: str) -> list[str]:
    """Return the real names that this process holds open in the directory *root*, sorted, one for each descriptor."""
    held = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            held.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(name for name in held if name == root or name.startswith(f"{root}/"))


def settled() -> set[str]:
    """Return the descriptors of this process, once what earlier tests dropped has let go of its own."""
    gc.collect()
    return set(os.listdir("/proc/self/fd"))
