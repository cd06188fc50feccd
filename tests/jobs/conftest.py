"""Where the sandboxes of these tests are, and that none is left."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

if os.name != "posix":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which this test's sandboxes have their workspaces, in this process and new ones."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def tidy(own_tmp: Path) -> Iterator[Path]:
    """The same; a test that leaves a workspace there fails."""
    yield own_tmp
    assert list(own_tmp.glob("sandbox-kit-*")) == []
