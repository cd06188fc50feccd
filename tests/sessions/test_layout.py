"""What a workspace is made as: closed, or open to those who get at it by a mount alone, and never changed later."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sandbox_kit.sessions.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("for_others", "expected"), [(False, 0o700), (True, 0o777)])
def test_a_new_workspace_is_behind_a_directory_that_nobody_else_enters(
    layout: Layout, for_others: bool, expected: int
) -> None:
    before = os.umask(0o077)
    try:
        workspace = layout.make("a", for_others=for_others)
    finally:
        os.umask(before)
    assert (mode(workspace), mode(workspace.parent)) == (expected, 0o700)
    assert os.listdir(workspace.parent) == ["workspace"]


def test_a_workspace_that_was_there_stays_as_it_is(layout: Layout) -> None:
    (layout.root / "a").mkdir(mode=0o700)
    layout.workspace("a").mkdir(mode=0o750)
    assert mode(layout.make("a", for_others=True)) == 0o750


def test_a_workspace_is_not_opened_where_others_may_enter_its_parent(layout: Layout) -> None:
    (layout.root / "a").mkdir()
    (layout.root / "a").chmod(0o755)
    assert mode(layout.make("a", for_others=True)) == 0o700


def test_a_workspace_whose_making_was_cut_short_is_made_whole(layout: Layout) -> None:
    (layout.root / "a").mkdir(mode=0o700)
    (layout.root / "a" / ".workspace").mkdir(mode=0o700)
    assert mode(layout.make("a", for_others=True)) == 0o777
