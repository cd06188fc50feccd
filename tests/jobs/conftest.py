"""Where the sandboxes of these tests are, and that none is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .remains import workspaces_in

if os.name != "posix":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def tidy(tmp_path: Path) -> Iterator[Path]:
    """The directory in which this test's sandboxes have their workspaces; a test that leaves one there fails."""
    with workspaces_in(tmp_path / "tmp") as place:
        yield place
    assert list(place.glob("sandbox-kit-*")) == []
