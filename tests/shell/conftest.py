"""ShellFiles of each kind, over an empty directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.shell.backends import KINDS, LocalShellFiles


@pytest.fixture(params=KINDS)
def files(request: pytest.FixtureRequest, tmp_path: Path, needs: Callable[..., None]) -> Iterator[LocalShellFiles]:
    needs("busybox" if request.param == "ash" else request.param)
    (tmp_path / "root").mkdir()
    made = LocalShellFiles(tmp_path / "root", request.param)
    yield made
    made.close()


@pytest.fixture
def root(files: LocalShellFiles) -> Path:
    return Path(files.work_dir)
