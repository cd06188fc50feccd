"""Fixtures of the tests of confinement."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .confinement import Workspace
from .ordinary import in_child_as_nobody


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace, with a scratch directory beside it."""
    root, scratch = tmp_path / "work", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir(mode=0o700)
    return Workspace(str(root), str(scratch))


@pytest.fixture
def as_nobody() -> Iterator[Callable[[Callable[[Workspace], object]], None]]:
    """Runs a check as a user without any privilege; skips where that user cannot confine commands."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user: these tests then are an ordinary user's as they stand")
    with tempfile.TemporaryDirectory(prefix="nobody-", dir="/tmp") as directory:
        os.chmod(directory, 0o777)

        def run(check: Callable[[Workspace], object]) -> None:
            assert in_child_as_nobody(check, Path(directory)) == ""

        yield run
