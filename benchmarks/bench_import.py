"""What ``import sandbox_kit`` costs over bare Python, beside pydantic-ai-backend.

``python -m benchmarks.bench_import``. A figure is the least of several interleaved rounds, in ms.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time

ROUNDS = 15
STATEMENTS = {
    "bare Python": "pass",
    "import attrs": "import attrs",
    "import sandbox_kit": "import sandbox_kit",
    "LocalSandbox, guarding, SECRETS": "from sandbox_kit import LocalSandbox, guarding, SECRETS",
    "pydantic_ai_backends": "import pydantic_ai_backends",
}


def main() -> None:
    statements = dict(STATEMENTS)
    if importlib.util.find_spec("pydantic_ai_backends") is None:
        print("pydantic-ai-backend: not installed")
        del statements["pydantic_ai_backends"]
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(ROUNDS):
        for name, statement in statements.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", statement], check=True)
            times[name].append((time.perf_counter() - begun) * 1e3)
    bare = min(times["bare Python"])
    for name, taken in times.items():
        print(f"{name:34} {min(taken):7.1f}   {min(taken) - bare:7.1f} over bare Python")


if __name__ == "__main__":
    main()
