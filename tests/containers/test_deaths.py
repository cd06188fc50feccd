"""What was killed has ended when the call returns that killed it, not only when the kernel next lets it run."""

from __future__ import annotations

import pytest

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import CommandTimeoutError

from .channels import GUARD

SPINNING = "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & (while :; do :; done) & done; wait"
ROUNDS = 3
SIGKILL = 1 << 8


def _is_dying(told: str) -> bool:
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in told.splitlines())}
    ended = fields["State"][0] in "ZX" and fields["Threads"] == ["1"]
    return not ended and bool(int(fields["ShdPnd"][0], 16) & SIGKILL)


def dying(box: DockerSandbox) -> list[str]:
    """What the kernel tells of each process that was killed and has not ended."""
    told = box.execute("cd /proc; for p in [0-9]*; do cat $p/status && echo; done 2>/dev/null", timeout=GUARD).stdout
    whole = [each for each in told.split("\n\n") if "ShdPnd" in each]
    assert whole
    return [each for each in whole if _is_dying(each)]


@pytest.mark.parametrize("stdin", [None, "text"], ids=["no input", "input"])
def test_after_a_time_limit_nothing_is_about_to_end(box: DockerSandbox, stdin: str | None) -> None:
    for _ in range(ROUNDS):
        with pytest.raises(CommandTimeoutError):
            box.execute(SPINNING, stdin=stdin, timeout=0.5)
        assert dying(box) == []
