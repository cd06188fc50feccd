"""Sandboxes whose channel is attacked, and the ways in which programs attack it."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox

GUARD = 60.0
"""Seconds within which a call that is to end must have ended."""

MakeBox = Callable[..., DockerSandbox]


@contextmanager
def boxes(engine: Engine, **fixed: object) -> Iterator[MakeBox]:
    """Yield what starts sandboxes on *engine*; they are removed in the end."""
    made: list[DockerSandbox] = []

    def make(image: str, **settings: object) -> DockerSandbox:
        box = DockerSandbox(image, **{**fixed, **settings})  # type: ignore[arg-type]
        made.append(box)
        return box.start()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine.host)
        try:
            yield make
        finally:
            for box in made:
                box.stop(purge=True)


def works(box: DockerSandbox, *, rounds: int = 1) -> None:
    """See that commands give what they give, and nothing of an earlier one."""
    for number in range(rounds):
        result = box.execute(f"echo out {number}; echo err {number} >&2; exit {number + 3}", timeout=GUARD)
        assert (result.stdout, result.stderr) == (f"out {number}\n", f"err {number}\n")
        assert result.exit_code == number + 3


def processes(engine: Engine, box: DockerSandbox) -> list[str]:
    """The command lines of all that runs in a sandbox but its own shells."""
    with closing(engine.client()) as client:
        told = client.top(box.name, ps_args="-eo pid,args")
    lines = [row[-1] for row in told["Processes"]]
    return [line for line in lines if not re.fullmatch(r"/\.sandbox-kit/(sh|ld) .*|sleep \d+", line, re.DOTALL)]


def nothing_left(engine: Engine, box: DockerSandbox) -> bool:
    """Whether nothing runs but the sandbox's own: what was killed may take a moment to be gone, what was not stays."""
    until = time.monotonic() + 5
    while processes(engine, box) and time.monotonic() < until:
        time.sleep(0.05)
    return not processes(engine, box)


def program(box: DockerSandbox, name: str, source: str) -> None:
    """Put a program into the work directory."""
    box.execute(["/bin/sh", "-c", 'cat >"$1"; chmod 755 "$1"', "sh", name], stdin=textwrap.dedent(source), check=True)
