"""A container's table of mounts, compared with what it was made to mask."""

from __future__ import annotations

import pytest

from sandbox_kit.backends.docker.plan import Outside, Plan
from sandbox_kit.backends.docker.proof import prove, prove_sources
from sandbox_kit.backends.shell.loop import Take
from sandbox_kit.errors import PolicyError, UnsupportedError

BASE = [
    "1 0 0:50 / / rw - overlay overlay rw",
    "2 1 0:50 /.sandbox-kit /.sandbox-kit ro - overlay overlay ro",
    "3 1 8:1 /v/_data /workspace rw - ext4 /dev/sda rw",
]
MASK = "4 3 0:9 /null /workspace/.env rw - tmpfs tmpfs rw"
PIN = "5 3 8:1 /v/_data/a /workspace/a rw - ext4 /dev/sda rw"
PLAN = Plan(hidden=("/workspace/.env",), again={"/workspace/a": False})


class Shell:
    """Answers for a shell in a container with a table of mounts."""

    def __init__(self, *lines: str, there: tuple[str, ...] = (), code: int = 0) -> None:
        self.table = "".join(f"{line}\n" for line in (*BASE, *lines))
        self.there = "".join(f"{name}\0" for name in there)
        self.code = code

    def run(self, script: str, take: Take, deadline: float | None = None) -> int:
        if "mountinfo" in script:
            take("stdout", self.table.encode())
        elif "-e" in script:
            take("stdout", self.there.encode())
        else:
            return self.code
        return 0


def proven(shell: Shell, plan: Plan = PLAN) -> list[str]:
    return prove(shell, plan, "/workspace", 0.0)  # type: ignore[arg-type]


def test_what_is_mounted_as_planned_is_proven() -> None:
    assert proven(Shell(MASK, PIN)) == []


ODD = {
    "a mask is missing": (PIN,),
    "a mask lies elsewhere": (MASK.replace("/workspace/.env", "/workspace/b"), PIN),
    "something more is mounted": (MASK, PIN, MASK.replace(".env", "more")),
    "a directory comes from elsewhere": (MASK, PIN.replace("/v/_data/a", "/etc")),
    "a directory comes from another file system": (MASK, PIN.replace("8:1", "8:2")),
    "one of two mounts comes from elsewhere": (MASK, PIN, PIN.replace("/v/_data/a", "/v/_data/b")),
}


@pytest.mark.parametrize("lines", ODD.values(), ids=ODD.keys())
def test_what_is_mounted_otherwise_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(PolicyError):
        proven(Shell(*lines))


def test_names_with_blanks_and_backslashes_are_the_ones_that_were_meant() -> None:
    plan = Plan(hidden=("/workspace/a b\\040",))
    assert proven(Shell(MASK.replace(".env", r"a\040b\134040")), plan) == []


def test_an_engine_that_makes_nothing_read_only_is_told() -> None:
    shell = Shell(MASK, PIN)
    shell.table = shell.table.replace("/.sandbox-kit", "/elsewhere")
    with pytest.raises(UnsupportedError, match="does not hide"):
        proven(shell)


def test_what_is_there_outside_and_not_masked_is_refused() -> None:
    plan = Plan(outside=Outside(hidden=("/etc/shadow",)))
    masked = "6 1 0:9 /null /etc/shadow rw - tmpfs tmpfs rw"
    assert proven(Shell(masked, there=("/etc/shadow",)), plan) == ["/etc/shadow"]
    with pytest.raises(PolicyError, match="/etc/shadow"):
        proven(Shell(there=("/etc/shadow",)), plan)


def test_a_shell_that_does_not_start_is_told() -> None:
    with pytest.raises(UnsupportedError, match="shell"):
        proven(Shell(MASK, PIN, code=127))


def test_whoever_joins_takes_masks_under_new_names_and_parts_of_the_workspace() -> None:
    moved = Shell(MASK.replace("/workspace/", "/workspace/renamed/"), PIN)
    prove_sources(moved, "/workspace", 0.0)  # type: ignore[arg-type]


def test_whoever_joins_refuses_what_is_not_of_the_workspace() -> None:
    with pytest.raises(PolicyError, match="/workspace/a"):
        prove_sources(Shell(MASK, PIN.replace("/v/_data/a", "/etc")), "/workspace", 0.0)  # type: ignore[arg-type]
