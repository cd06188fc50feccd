"""Exports of an archive: what goes or changes meanwhile, and what a format cannot hold."""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit import zipping
from sandbox_kit.errors import ArchiveError, PathNotFoundError
from sandbox_kit.sessions import workspace as workspace_module
from sandbox_kit.sessions.archive import WorkspaceArchive

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="local files need a POSIX system")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "one" / "workspace" / "sub").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def workspace(root: Path) -> Path:
    made = root / "one" / "workspace"
    (made / "a.txt").write_text("a")
    (made / "sub" / "b.txt").write_text("b")
    return made


@pytest.mark.parametrize("path", ["sub/b.txt", "way"])
def test_a_named_file_that_changes_while_it_is_exported_is_told_by_its_name(
    root: Path, workspace: Path, path: str
) -> None:
    (workspace / "way").symlink_to("sub/b.txt")
    shorter, gone = (WorkspaceArchive(root).export("one", path) for _ in range(2))
    (workspace / "sub" / "b.txt").write_text("")
    with pytest.raises(ArchiveError, match=r"^sub/b\.txt: the file became shorter"):
        shorter.read()
    (workspace / "sub" / "b.txt").unlink()
    with pytest.raises(PathNotFoundError, match=r"^sub/b\.txt: no such file"):
        gone.read()


@pytest.mark.parametrize("path", ["sub/b.txt", "way"])
def test_a_named_file_that_goes_before_it_is_exported_is_told_by_its_name(
    root: Path, workspace: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "way").symlink_to("sub/b.txt")
    resolve = workspace_module.Workspace._resolve

    def resolve_and_remove(*arguments: Any, **options: Any) -> Any:
        found = resolve(*arguments, **options)
        (workspace / "sub" / "b.txt").unlink()
        return found

    monkeypatch.setattr(workspace_module.Workspace, "_resolve", resolve_and_remove)
    with pytest.raises(PathNotFoundError, match=r"^sub/b\.txt: no such file"):
        WorkspaceArchive(root).export("one", path)


@pytest.mark.parametrize("nanoseconds", [1, 10**18 + 1, -(10**18)])
def test_a_planted_time_is_a_number_that_every_tar_reads(root: Path, workspace: Path, nanoseconds: int) -> None:
    os.utime(workspace / "a.txt", ns=(nanoseconds, nanoseconds))
    tar = WorkspaceArchive(root).export("one", "a.txt").read()
    assert re.search(rb"mtime=-?[0-9]+\.[0-9]+\n", tar)
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        assert opened.getmember("a.txt").mtime == pytest.approx(nanoseconds / 10**9, abs=1e-6)


def test_a_name_too_long_for_a_zip_is_left_out_where_that_is_wanted(
    root: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipping, "_MOST_NAME", 3)
    archive = WorkspaceArchive(root)
    (workspace / "sub" / "b.txt").rename(workspace / "ab")
    (workspace / "abcd").symlink_to("ab")
    with pytest.raises(ArchiveError, match="too long for a zip file"):
        archive.export("one", format="zip").read()
    with archive.export("one", format="zip", denied="skip") as stream:
        assert zipfile.ZipFile(io.BytesIO(stream.read())).namelist() == ["ab"]
        assert stream.denied == 3
