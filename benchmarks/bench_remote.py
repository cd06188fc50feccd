"""A sandbox service by ``RemoteSandbox``, beside the service's own calls and no library between.

``python -m benchmarks.bench_remote URL`` with the token in ``SANDBOXD_TOKEN``. Without a URL there is nothing to
measure. A figure is the median of several rounds in turns.
"""

from __future__ import annotations

import base64
import statistics
import sys
import time
from collections.abc import Callable, Mapping

from sandbox_kit.backends.remote import RemoteSandbox
from sandbox_kit.backends.remote.service import Service

ROUNDS = 15
SMALL, LARGE = b"x" * 4096, b"x" * 2**22

Call = Callable[[], object]


def interleaved(calls: tuple[Call, Call]) -> list[float]:
    """Return the median time of each in ms; they take turns, so that noise meets both."""
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            begun = time.perf_counter()
            call()
            taken.append((time.perf_counter() - begun) * 1e3)
    return [statistics.median(taken) for taken in times]


def rows(box: RemoteSandbox, post: Callable[[str, Mapping[str, object]], object]) -> dict[str, tuple[Call, Call]]:
    """Return, by name, a call of the sandbox and the service's own that comes next to it."""
    files = {name: base64.b64encode(data).decode() for name, data in (("small", SMALL), ("large", LARGE))}
    return {
        "execute true": (lambda: box.execute("true"), lambda: post("exec", {"command": "true"})),
        "write 4 KiB": (
            lambda: box.write("small", SMALL),
            lambda: post("write", {"path": "other", "content_b64": files["small"]}),
        ),
        "read 4 KiB": (lambda: box.read_bytes("small"), lambda: post("read_bytes", {"path": "small"})),
        "write 4 MiB": (
            lambda: box.write("large", LARGE),
            lambda: post("write", {"path": "other", "content_b64": files["large"]}),
        ),
        "read 4 MiB": (lambda: box.read_bytes("large"), lambda: post("read_bytes", {"path": "large"})),
        "ls": (lambda: box.ls(), lambda: post("ls", {"path": "/workspace"})),
    }


def main(arguments: list[str]) -> None:
    if not arguments:
        print("no service is given: python -m benchmarks.bench_remote URL")
        return
    (url,) = arguments
    service = Service(url, "$SANDBOXD_TOKEN", answer_timeout=60)
    with RemoteSandbox(url) as box:

        def post(call: str, body: Mapping[str, object]) -> object:
            return service.call("POST", f"/sessions/{box.id}/{call}", body)

        print(f"{'call':14} {'sandbox, ms':>12} {'service, ms':>12} {'ratio':>7}")
        for name, calls in rows(box, post).items():
            ours, theirs = interleaved(calls)
            print(f"{name:14} {ours:12.1f} {theirs:12.1f} {ours / theirs:7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
