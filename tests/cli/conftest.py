"""The directory that the command line is tried on."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with a credential and a link to it."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("import os\n# TODO: more\nprint(os.name)\n")
    (root / "notes.txt").write_text("buy milk\nTODO: bake bread\n")
    (root / ".env").write_text("TOKEN=t0p\n")
    (root / "link").symlink_to(".env")
    return root
