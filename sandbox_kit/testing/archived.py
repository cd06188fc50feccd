"""An archive under test, with what it holds; its lists and its reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sandbox_kit.archives import Archive
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathEscapeError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    ReadLimitError,
)
from sandbox_kit.testing.base import Collected, paths

__all__ = ["EVERY_USE", "FILES", "PNG", "READS", "SECRET", "USES", "ArchiveReading"]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
FILES = {"a.txt": b"one\r\ntwo\nthree", "chart.png": PNG, ".hidden": b"", "sub/deep/x": b"\0\xff", "sub/y": b"y"}
BAD_IDS = [
    "",
    ".",
    "..",
    "../x",
    "/abs",
    "a/../b",
    "..%2Fx",
    "a\0b",
    "a\nb",
    "x" * 65,
    "CON",
    "nul.txt",
    "a.",
    "-a",
    ".a",
]
SECRET = "TOPSECRET"


def _drained(stream: BinaryIO) -> bytes:
    with stream:
        return stream.read()


USES: dict[str, Callable[[Archive, str, str], object]] = {
    "ls": lambda archive, session, path: archive.ls(session, path),
    "walk": lambda archive, session, path: list(archive.walk(session, path)),
    "stat": lambda archive, session, path: archive.stat(session, path),
    "read": lambda archive, session, path: archive.read(session, path),
    "read_bytes": lambda archive, session, path: archive.read_bytes(session, path),
    "open_read": lambda archive, session, path: _drained(archive.open_read(session, path)),
    "export": lambda archive, session, path: _drained(archive.export(session, path)),
    "changes": lambda archive, session, path: list(archive.changes(session, 0, path)),
}
READS = ("read", "read_bytes", "open_read")
EVERY_USE = pytest.mark.parametrize("use", USES)
EVERY_READ = pytest.mark.parametrize("use", READS)


class ArchiveReading(Collected, ABC):
    """Sessions, lists and reads, and the fixtures that every test of an archive uses.

    Attributes:
        max_read_bytes: build the archive with it.
        hang_guard: no single step of a test may take longer, in seconds.
        tells_changes: whether what holds the files tells when they changed; else ``changes`` is UnsupportedError.
        lists_sockets: whether it tells of sockets.
    """

    max_read_bytes: int = 2**20
    hang_guard: float = 20.0
    tells_changes: bool = True
    lists_sockets: bool = True

    @abstractmethod
    def make_archive(self, tmp_path: Path) -> Archive:
        """Return an archive that holds no session; *tmp_path* is a free directory of the host."""

    @abstractmethod
    def workspace_of(self, archive: Archive, session_id: str) -> Path:
        """Return where the host has the files of a session; nothing need be there yet."""

    @pytest.fixture
    def archive(self, tmp_path: Path) -> Archive:
        """The archive under test, with the files of session ``one``."""
        made = self.make_archive(tmp_path)
        workspace = self.workspace_of(made, "one")
        for name, content in FILES.items():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_bytes(content)
        (workspace / "sub/y").chmod(0o640)
        return made

    @pytest.fixture
    def workspace(self, archive: Archive) -> Path:
        """Where the files of session ``one`` are."""
        return self.workspace_of(archive, "one")

    @pytest.fixture
    def outside(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A directory of the host that no session has, with a secret in it."""
        made = tmp_path_factory.mktemp("outside")
        (made / "secret.txt").write_text(SECRET)
        return made

    def test_sessions_are_those_with_files_sorted(self, archive: Archive) -> None:
        for name in ("two", "Three"):
            self.workspace_of(archive, name).mkdir(parents=True)
        assert archive.sessions() == ["Three", "one", "two"]

    @pytest.mark.parametrize("session_id", BAD_IDS, ids=ascii)
    def test_a_bad_id_is_refused(self, archive: Archive, session_id: str) -> None:
        for use in USES.values():
            with pytest.raises(InvalidArgumentError):
                use(archive, session_id, "a.txt")

    @EVERY_USE
    def test_a_session_without_files_is_not_found(self, archive: Archive, use: str) -> None:
        with pytest.raises(PathNotFoundError, match="missing"):
            USES[use](archive, "missing", "a.txt")

    @EVERY_USE
    def test_a_missing_file_is_not_found(self, archive: Archive, use: str) -> None:
        for path in ("nope", "sub/nope", "nope/x"):
            with pytest.raises(PathNotFoundError, match="nope"):
                USES[use](archive, "one", path)
        with pytest.raises(PathNotDirectoryError):
            USES[use](archive, "one", "a.txt/x")

    @pytest.mark.parametrize("path", ["../x", "sub/../../x", "/etc/passwd", "/", "a/../../../etc/passwd"])
    def test_a_path_that_leads_outside_is_an_escape(self, archive: Archive, path: str) -> None:
        for use in USES.values():
            with pytest.raises(PathEscapeError):
                use(archive, "one", path)

    @EVERY_USE
    def test_a_path_that_no_call_could_use_is_refused(self, archive: Archive, use: str) -> None:
        for path in ("a\0b", "\ud800", b"a.txt", None):
            with pytest.raises(InvalidArgumentError):
                USES[use](archive, "one", path)  # type: ignore[arg-type]

    def test_ls_lists_one_directory_sorted(self, archive: Archive) -> None:
        assert paths(archive.ls("one")) == [".hidden", "a.txt", "chart.png", "sub"]
        assert paths(archive.ls("one", "sub")) == ["sub/deep", "sub/y"]
        assert paths(archive.ls("one", "a.txt")) == ["a.txt"]
        assert archive.ls("one").skipped == ()

    def test_walk_finds_everything_once_parents_first(self, archive: Archive) -> None:
        expected = [".hidden", "a.txt", "chart.png", "sub", "sub/deep", "sub/y", "sub/deep/x"]
        found = paths(archive.walk("one"))
        assert sorted(found) == sorted(expected)
        assert found.index("sub") < found.index("sub/deep") < found.index("sub/deep/x")
        assert found == paths(archive.walk("one"))
        assert sorted(paths(archive.walk("one", "sub"))) == ["sub/deep", "sub/deep/x", "sub/y"]
        assert paths(archive.walk("one", "a.txt")) == ["a.txt"]

    def test_a_walk_may_be_dropped(self, archive: Archive) -> None:
        with archive.walk("one") as entries:
            assert next(entries).path
        assert list(entries) == []
        entries.close()

    def test_stat_describes_an_entry(self, archive: Archive, workspace: Path) -> None:
        info, real = archive.stat("one", "sub/y"), (workspace / "sub/y").stat()
        assert (info.name, info.path, info.is_dir, info.size, info.mode) == ("y", "sub/y", False, 1, 0o640)
        assert info.mtime == pytest.approx(real.st_mtime, abs=1e-3)
        assert (archive.stat("one", ".").path, archive.stat("one", "").is_dir) == (".", True)

    def test_bytes_come_back_as_they_are(self, archive: Archive) -> None:
        assert archive.read_bytes("one", "chart.png")[:4] == b"\x89PNG"
        for name, content in FILES.items():
            assert archive.read_bytes("one", name) == content
            with archive.open_read("one", name) as stream:
                assert stream.read() == content

    def test_read_gives_text_and_lines(self, archive: Archive) -> None:
        assert archive.read("one", "a.txt") == "one\r\ntwo\nthree"
        assert archive.read("one", "a.txt", offset=1, limit=1) == "two\n"
        assert archive.read("one", "a.txt", offset=9) == ""
        assert archive.read("one", "sub/deep/x") == "\0\ufffd"

    @pytest.mark.parametrize("lines", [{"offset": -1}, {"limit": -1}, {"offset": 1.5}, {"limit": True}])
    def test_lines_that_cannot_be_are_refused(self, archive: Archive, lines: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError):
            archive.read("one", "a.txt", **lines)

    @EVERY_READ
    def test_a_directory_is_not_read(self, archive: Archive, use: str) -> None:
        with pytest.raises(PathIsDirectoryError):
            USES[use](archive, "one", "sub")

    def test_a_file_over_the_limit_is_refused_whole_and_streams(self, archive: Archive, workspace: Path) -> None:
        content = b"x" * (self.max_read_bytes + 1)
        (workspace / "large").write_bytes(content)
        for use in ("read", "read_bytes"):
            with pytest.raises(ReadLimitError):
                USES[use](archive, "one", "large")
        with archive.open_read("one", "large") as stream:
            assert stream.read() == content
