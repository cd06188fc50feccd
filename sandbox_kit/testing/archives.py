"""The contract of an archive, for whoever writes one."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import time
import zipfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.archives import Archive
from sandbox_kit.errors import (
    ArchiveError,
    InvalidArgumentError,
    NotRegularFileError,
    PathEscapeError,
    PathNotFoundError,
    SandboxError,
    UnsupportedError,
)
from sandbox_kit.testing.archived import EVERY_USE, FILES, PNG, READS, SECRET, USES, ArchiveReading
from sandbox_kit.testing.base import paths

__all__ = ["ArchiveConformance"]


class ArchiveConformance(ArchiveReading):
    """The whole contract of :class:`~sandbox_kit.archives.Archive`."""

    def test_a_tar_holds_the_tree(self, archive: Archive) -> None:
        with archive.export("one") as stream, tarfile.open(fileobj=stream, mode="r|") as opened:
            found = {member.name: _content(opened, member) for member in opened}
            assert stream.denied == 0
        assert found == {**FILES, "sub": None, "sub/deep": None}

    def test_a_zip_holds_the_tree(self, archive: Archive) -> None:
        with archive.export("one", format="zip") as stream:
            opened = zipfile.ZipFile(io.BytesIO(stream.read()))
        assert opened.testzip() is None
        files = {info.filename: opened.read(info) for info in opened.infolist() if not info.is_dir()}
        assert files == FILES
        assert {info.filename for info in opened.infolist() if info.is_dir()} == {"sub/", "sub/deep/"}
        assert opened.getinfo("sub/y").external_attr >> 16 == stat.S_IFREG | 0o640

    def test_a_subtree_and_a_file_are_exported_by_names_relative_to_them(self, archive: Archive) -> None:
        for path, names in (("sub", ["deep", "deep/x", "y"]), ("sub/y", ["y"])):
            with tarfile.open(fileobj=io.BytesIO(archive.export("one", path).read())) as opened:
                assert sorted(opened.getnames()) == names

    @pytest.mark.parametrize("arguments", [{"format": "rar"}, {"format": None}, {"denied": "ask"}])
    def test_a_bad_argument_of_an_export_is_refused(self, archive: Archive, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError):
            archive.export("one", **arguments)

    def test_changes_that_cannot_be_told_are_refused(self, archive: Archive) -> None:
        if self.tells_changes:
            assert list(archive.changes("one", time.time() + 60)) == []
        else:
            with pytest.raises(UnsupportedError, match="changes"):
                archive.changes("one", 0)

    def test_changes_are_those_since_a_time(self, archive: Archive, workspace: Path) -> None:
        self._need_changes()
        time.sleep(0.1)
        since = time.time()
        (workspace / "sub" / "new").write_bytes(b"n")
        (workspace / "a.txt").write_bytes(b"other")
        expected = ["a.txt", "sub", "sub/new"]
        assert sorted(paths(archive.changes("one", since))) == expected
        assert sorted(paths(archive.changes("one", datetime.fromtimestamp(since, UTC)))) == expected
        there = timezone(timedelta(hours=5))
        assert sorted(paths(archive.changes("one", since=datetime.fromtimestamp(since, there)))) == expected
        assert paths(archive.changes("one", since, "sub")) == ["sub/new"]
        assert paths(archive.changes("one", time.time() + 60)) == []
        assert sorted(paths(archive.changes("one", 0))) == sorted(paths(archive.walk("one")))

    def _need_changes(self) -> None:
        if not self.tells_changes:
            pytest.skip("what holds the files does not tell when they changed")

    def test_a_time_that_was_set_back_hides_nothing(self, archive: Archive, workspace: Path) -> None:
        self._need_changes()
        time.sleep(0.1)
        since = time.time()
        (workspace / "new").write_bytes(b"x")
        for name in ("new", "a.txt"):
            os.utime(workspace / name, (1, 1))
        assert archive.stat("one", "new").mtime == 1
        assert paths(archive.changes("one", since)) == ["a.txt", "new"]

    @pytest.mark.parametrize(
        "since", [datetime(2026, 1, 1), float("nan"), float("inf"), 10**400, "2026-01-01", None, True], ids=str
    )
    def test_a_time_that_says_nothing_is_refused(self, archive: Archive, since: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="since"):
            archive.changes("one", since)

    @pytest.mark.parametrize("target", ["/etc/shadow", "../../two/workspace/x", "{outside}", "{outside}/secret.txt"])
    def test_a_planted_link_leads_nowhere(self, archive: Archive, workspace: Path, outside: Path, target: str) -> None:
        other = self.workspace_of(archive, "two")
        other.mkdir(parents=True)
        (other / "x").write_text(SECRET)
        (workspace / "sub" / "way").symlink_to(target.format(outside=outside))
        (workspace / "further").symlink_to("sub/way")
        for way in ("sub/way", "further", "sub/way/secret.txt"):
            for use in USES.values():
                with pytest.raises(PathEscapeError) as caught:
                    use(archive, "one", way)
                assert str(outside) not in str(caught.value)
                assert str(workspace) not in str(caught.value)
        assert paths(archive.ls("one", "sub")) == ["sub/deep", "sub/y"]
        for found in (archive.walk("one"), *([archive.changes("one", 0)] if self.tells_changes else [])):
            assert not {"sub/way", "further"} & set(paths(found))
        with pytest.raises(ArchiveError):
            archive.export("one").read()

    def test_a_dangling_link_and_a_loop_are_listed_as_links(self, archive: Archive, workspace: Path) -> None:
        (workspace / "report.md").symlink_to("missing.txt")
        (workspace / "loop").symlink_to("loop")
        links = [info.path for info in archive.ls("one") if info.is_symlink]
        assert links == ["loop", "report.md"]
        assert archive.ls("one").skipped == ()
        assert archive.stat("one", "report.md").is_symlink
        for use in READS:
            with pytest.raises(PathNotFoundError):
                USES[use](archive, "one", "report.md")
            with pytest.raises(NotRegularFileError):
                USES[use](archive, "one", "loop")

    def test_a_link_that_stays_inside_is_read_and_exported_as_a_link(self, archive: Archive, workspace: Path) -> None:
        (workspace / "sub" / "latest").symlink_to("../chart.png")
        (workspace / "way").symlink_to("sub")
        assert archive.read_bytes("one", "way/latest") == PNG
        assert paths(archive.ls("one", "way")) == ["way/deep", "way/latest", "way/y"]
        with tarfile.open(fileobj=io.BytesIO(archive.export("one").read())) as opened:
            assert opened.getmember("sub/latest").linkname == "../chart.png"
        with zipfile.ZipFile(io.BytesIO(archive.export("one", format="zip").read())) as zipped:
            assert stat.S_ISLNK(zipped.getinfo("way").external_attr >> 16)
            assert zipped.read("way") == b"sub"

    @pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK], ids=["fifo", "socket"])
    def test_a_special_file_is_refused_at_once(self, archive: Archive, workspace: Path, kind: int) -> None:
        os.mknod(workspace / "special", kind | 0o600)
        begun = time.monotonic()
        for use in READS:
            with pytest.raises(NotRegularFileError):
                USES[use](archive, "one", "special")
        is_told = kind != stat.S_IFSOCK or self.lists_sockets
        for path in (".", "special") if is_told else ("special",):
            with pytest.raises(ArchiveError) as caught:
                archive.export("one", path).read()
            assert str(workspace) not in str(caught.value)
        assert ("special" in paths(archive.ls("one"))) == is_told
        assert time.monotonic() - begun < self.hang_guard

    def test_a_name_that_is_no_utf8_is_like_any_other(self, archive: Archive, workspace: Path) -> None:
        name = os.fsdecode(b"caf\xe9")
        (workspace / name).write_bytes(b"x")
        assert name in paths(archive.ls("one"))
        assert archive.read_bytes("one", name) == b"x"
        with tarfile.open(fileobj=io.BytesIO(archive.export("one").read()), errors="surrogateescape") as opened:
            assert name in opened.getnames()
        with zipfile.ZipFile(io.BytesIO(archive.export("one", format="zip").read())) as zipped:
            assert b"caf\xe9" in [info.filename.encode("cp437") for info in zipped.infolist()]

    @EVERY_USE
    @pytest.mark.parametrize(
        ("session_id", "path"), [("one", "nope"), ("one", "loop/x"), ("one", "../x"), ("missing", "x"), ("one", "/x")]
    )
    def test_no_error_names_the_host(
        self, archive: Archive, workspace: Path, use: str, session_id: str, path: str
    ) -> None:
        (workspace / "loop").symlink_to("loop")
        with pytest.raises(SandboxError) as caught:
            USES[use](archive, session_id, path)
        assert str(workspace.parent.parent) not in str(caught.value)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
    stream = archive.extractfile(member) if member.isreg() else None
    return None if stream is None else stream.read()
