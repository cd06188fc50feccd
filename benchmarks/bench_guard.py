"""What the guard adds to a file operation, beside the guarded read of pydantic-ai-backend.

``python -m benchmarks.bench_guard``. A figure is the median of several interleaved rounds.
"""

from __future__ import annotations

import importlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.guard import guarding
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset

ROUNDS = 15
CALLS = 500
PATTERNS = ("**/.env", "**/*.pem", "**/*.key", "/etc/**", "**/.ssh/**", "**/id_rsa*", "private/**")

Call = Callable[[], object]


def interleaved(calls: dict[str, Call]) -> dict[str, float]:
    """Return the median time of one call in us; the calls take turns, so that noise meets all."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begun = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - begun) / CALLS * 1e6)
    return {name: statistics.median(taken) for name, taken in times.items()}


def upstream(root: Path) -> Call | None:
    """Return the guarded read of pydantic-ai-backend, or None where it is not installed."""
    try:
        backends = importlib.import_module("pydantic_ai_backends")
        permissions = importlib.import_module("pydantic_ai_backends.permissions")
    except ImportError:
        return None
    rules = [permissions.PermissionRule(pattern=pattern, action="deny") for pattern in PATTERNS]
    ruleset = permissions.PermissionRuleset(
        default="allow", read=permissions.OperationPermissions(default="allow", rules=rules)
    )
    backend = backends.LocalBackend(root_dir=str(root), permissions=ruleset)
    return lambda: backend.read_bytes("deep/er/file")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        bare = LocalBackend(directory)
        bare.write("deep/er/file", b"x" * 4096)
        ruleset = PermissionRuleset("allow", rules=[PermissionRule(pattern, "deny") for pattern in PATTERNS])
        few, secrets = guarding(bare, ruleset), guarding(bare, SECRETS)
        calls: dict[str, Call] = {
            "open().read()": lambda: Path(directory, "deep/er/file").read_bytes(),
            "LocalBackend": lambda: bare.read_bytes("deep/er/file"),
            "guarded, 7 rules": lambda: few.read_bytes("deep/er/file"),
            "guarded, secrets preset": lambda: secrets.read_bytes("deep/er/file"),
            "stat": lambda: bare.stat("deep/er/file"),
            "stat, guarded": lambda: few.stat("deep/er/file"),
        }
        peer = upstream(Path(directory))
        if peer is not None:
            calls["pydantic-ai-backend, guarded"] = peer
        medians = interleaved(calls)
    print(f"{'read_bytes of 4 KiB':32} {'us':>8} {'x LocalBackend':>15}")
    for name, median in medians.items():
        print(f"{name:32} {median:8.1f} {median / medians['LocalBackend']:15.2f}")
    if peer is None:
        print("pydantic-ai-backend: not installed")


if __name__ == "__main__":
    main()
