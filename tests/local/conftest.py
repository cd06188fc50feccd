"""Fixtures of the tests of confinement."""

from __future__ import annotations

from pathlib import Path

import pytest

from .confinement import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace, with a scratch directory beside it."""
    root, scratch = tmp_path / "work", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir(mode=0o700)
    return Workspace(str(root), str(scratch))
