"""Workspaces that lie in each other: their commands wait for each other where one of both is under masks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest

from sandbox_kit.backends.local.nesting import lineage_of, take_lineage
from sandbox_kit.errors import SandboxTimeoutError

from .confinement import SECRET, Denials, Workspace, started
from .descriptors import settled

pytestmark = pytest.mark.needs("bwrap")

MASKS = Denials(deny=(r".*/\.env",))
LIVE = "echo up; sleep 60"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def upper(workspace: Workspace) -> Workspace:
    workspace.put("between/sub/.env")
    workspace.put("sibling/.env")
    return workspace


def beneath(workspace: Workspace, name: str = "between/sub") -> Workspace:
    return Workspace(f"{workspace.root}/{name}", workspace.scratch)


def is_held_up(workspace: Workspace, masks: Denials | None) -> bool:
    try:
        return workspace.run("true", masks, timeout=0.05) != "rc=0"
    except SandboxTimeoutError:
        return True


@pytest.mark.parametrize(("first", "second"), [*product((MASKS, None), repeat=2)])
@pytest.mark.parametrize("order", ["above first", "beneath first"])
def test_one_of_two_waits_if_one_is_under_masks(
    order: str, first: Denials | None, second: Denials | None, upper: Workspace, stack: ExitStack
) -> None:
    outer, inner = (upper, beneath(upper)) if order == "above first" else (beneath(upper), upper)
    started(stack, outer.prepare(first), LIVE)
    assert is_held_up(inner, second) is (first is not None or second is not None)


def test_the_end_of_the_one_lets_the_other_begin(upper: Workspace, stack: ExitStack) -> None:
    prepared = upper.prepare(MASKS)
    process = started(stack, prepared, LIVE)
    assert is_held_up(beneath(upper), MASKS)
    process.kill()
    prepared.close()
    assert SECRET not in beneath(upper).run("cat .env; mv .env x; cat x", MASKS, timeout=5)
    assert SECRET not in upper.run("cat between/sub/.env", MASKS, timeout=5)


def test_siblings_do_not_wait_for_each_other(upper: Workspace, stack: ExitStack) -> None:
    started(stack, beneath(upper).prepare(MASKS), LIVE)
    assert not is_held_up(beneath(upper, "sibling"), MASKS)
    assert not is_held_up(beneath(upper, "sibling"), None)


def test_those_of_one_workspace_still_join(upper: Workspace, stack: ExitStack) -> None:
    started(stack, beneath(upper).prepare(MASKS), LIVE)
    assert not is_held_up(beneath(upper), MASKS)


def test_another_process_holds_one_up_as_well(upper: Workspace) -> None:
    program = (
        "import os, sys\n"
        "from sandbox_kit.backends.local import confine\n"
        "fd = os.open(sys.argv[1], os.O_PATH)\n"
        "where = {'work_dir': sys.argv[1], 'cwd': sys.argv[1], 'scratch': sys.argv[2]}\n"
        "held = confine.prepare(root_fd=fd, masks=(), env={}, **where)\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", program, upper.root, upper.scratch]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"up\n"
        assert is_held_up(beneath(upper), MASKS)
        assert not is_held_up(beneath(upper), None)
        other.kill()
    assert not is_held_up(beneath(upper), MASKS)


def test_nothing_is_left_open(upper: Workspace, stack: ExitStack) -> None:
    upper.run("true", MASKS)
    before = settled()
    with ExitStack() as inner:
        started(inner, upper.prepare(MASKS), LIVE)
        assert is_held_up(beneath(upper), MASKS)
    assert settled() <= before


def test_a_lineage_goes_up_to_the_top(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    fd = os.open(tmp_path / "a/b", os.O_PATH)
    names = [tmp_path / "a/b", *(tmp_path / "a/b").parents]
    assert lineage_of(fd) == [(os.stat(name).st_dev, os.stat(name).st_ino) for name in names]
    os.close(fd)


def test_marks_end_with_their_descriptor(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "marks", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert take_lineage(first, [(1, 2), (1, 1)], masked=True)
    assert not take_lineage(second, [(1, 1)], masked=False)
    os.close(first)
    assert take_lineage(second, [(1, 1)], masked=False)
    os.close(second)
