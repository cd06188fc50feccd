"""The conformance suite of archives over WorkspaceArchive, bare and under rules that allow everything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox_kit.archives import Archive
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.sessions.archive import WorkspaceArchive
from sandbox_kit.testing import ArchiveConformance

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="local files need a POSIX system")


class TestWorkspaceArchive(ArchiveConformance):
    def make_archive(self, tmp_path: Path) -> Archive:
        return WorkspaceArchive(tmp_path, max_read_bytes=self.max_read_bytes)

    def workspace_of(self, archive: Archive, session_id: str) -> Path:
        assert isinstance(archive, WorkspaceArchive)
        return archive.root / session_id / "workspace"


class TestWorkspaceArchiveThroughALink(TestWorkspaceArchive):
    def make_archive(self, tmp_path: Path) -> Archive:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        return WorkspaceArchive(tmp_path / "link", max_read_bytes=self.max_read_bytes)


class TestGuardedWorkspaceArchive(TestWorkspaceArchive):
    """Rules that refuse nothing of the suite's, and are asked all the same."""

    def make_archive(self, tmp_path: Path) -> Archive:
        rules = PermissionRuleset(rules=[PermissionRule("no/such/**", "deny")])
        return WorkspaceArchive(tmp_path, max_read_bytes=self.max_read_bytes, ruleset=rules)


BROKEN = {
    "takes-any-id": "def ls(self, session_id, path='.'): return super().ls('one', path)",
    "follows-links": (
        "def open_read(self, session_id, path):\n        return open(self.root / session_id / 'workspace' / path, 'rb')"
    ),
    "lists-links-that-lead-outside": (
        "def ls(self, session_id, path='.'): return self._open(session_id, path)[2].ls(path)"
    ),
    "believes-the-time-of-the-content": (
        "def changes(self, session_id, since, path='.'):\n"
        "        entries = super().changes(session_id, since, path)\n"
        "        return Entries(e for e in entries if e.mtime >= since)"
    ),
}
SUITE = """
from sandbox_kit import Entries, WorkspaceArchive
from sandbox_kit.testing import ArchiveConformance

class Broken(WorkspaceArchive):
    {fault}

class TestBroken(ArchiveConformance):
    def make_archive(self, tmp_path):
        return Broken(tmp_path, max_read_bytes=self.max_read_bytes)

    def workspace_of(self, archive, session_id):
        return archive.root / session_id / "workspace"
"""


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_archive_is_found_out(pytester: pytest.Pytester, fault: str) -> None:
    pytester.makepyfile(test_broken=SUITE.format(fault=BROKEN[fault]))
    found = pytester.runpytest_inprocess("-q", "-x", "-p", "no:cacheprovider", "-p", "no:cov", "-p", "no:xdist")
    assert found.parseoutcomes().get("failed") == 1


def test_an_archive_suite_that_leaves_something_out_is_refused() -> None:
    with pytest.raises(TypeError, match="TestIt lacks make_archive and workspace_of:"):
        type("TestIt", (ArchiveConformance,), {})
