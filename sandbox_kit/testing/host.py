"""Files that the host plants: links, FIFOs, sparse files. For backends over a directory of the host."""

from __future__ import annotations

import os
import shutil
import stat
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    ArchiveError,
    NotRegularFileError,
    PathAccessError,
    PathEscapeError,
    ReadLimitError,
    SandboxUnavailableError,
)
from sandbox_kit.testing.base import Conformance, fill, paths

__all__ = ["HostFilesConformance", "ordinary_user"]

USES: dict[str, Callable[[Backend, str], object]] = {
    "read": lambda backend, path: backend.read(path),
    "read_bytes": lambda backend, path: backend.read_bytes(path),
    "open_read": lambda backend, path: backend.open_read(path),
    "write": lambda backend, path: backend.write(path, "changed"),
    "edit": lambda backend, path: backend.edit(path, "secret", "changed"),
    "grep": lambda backend, path: list(backend.grep("secret", path)),
}
ON_NOTHING: dict[str, Callable[[Backend, Path], object]] = {
    **{name: lambda backend, host, use=use: use(backend, "f") for name, use in USES.items()},  # type: ignore[misc]
    "new": lambda backend, host: backend.write("new/f", "x"),
    "ls": lambda backend, host: backend.ls(),
    "glob": lambda backend, host: backend.glob("**"),
    "stat": lambda backend, host: backend.stat("."),
    "exists": lambda backend, host: backend.exists("."),
    "missing": lambda backend, host: backend.exists("f"),
    "grep-all": lambda backend, host: list(backend.grep("x")),
    "mkdir": lambda backend, host: backend.mkdir("d"),
    "mkdir-root": lambda backend, host: backend.mkdir("."),
    "remove": lambda backend, host: backend.remove("f"),
    "move": lambda backend, host: backend.move("f", "g"),
    "upload": lambda backend, host: backend.upload(host / "secret.txt", "g"),
    "upload-tree": lambda backend, host: backend.upload(host, "g"),
    "download": lambda backend, host: backend.download(".", host / "out"),
    "export": lambda backend, host: backend.export(),
}
NOBODY = 65534
SPECIAL = {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK}
EVERY_USE = pytest.mark.parametrize("use", USES)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Be an ordinary user of the host within the block, whose files are not closed to root alone."""
    if os.geteuid() != 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def give_away(tree: Path) -> None:
    """Let what is beneath *tree* belong to the user of :func:`ordinary_user`."""
    if os.geteuid() == 0:
        for path in tree.rglob("*"):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


class HostFilesConformance(Conformance):
    """A third party's files in the workspace neither lead outside nor make a call hang."""

    @abstractmethod
    def host_path(self, backend: Backend, path: str) -> Path:
        """Return where the host finds *path*, which is relative to the work directory."""

    @pytest.fixture
    def outside(self, host: Path) -> Path:
        """A directory outside of the root, with a secret in it."""
        (host / "secret.txt").write_text("secret\n")
        return host

    @EVERY_USE
    @pytest.mark.parametrize("kind", SPECIAL)
    def test_a_special_file_is_refused_at_once(self, backend: Backend, use: str, kind: str) -> None:
        os.mknod(self.host_path(backend, "special"), SPECIAL[kind] | 0o600)
        begun = time.monotonic()
        with pytest.raises(NotRegularFileError):
            USES[use](backend, "special")
        assert time.monotonic() - begun < self.hang_guard

    def test_a_walk_passes_special_files_by(self, backend: Backend) -> None:
        backend.write("f", "needle\n")
        os.mkfifo(self.host_path(backend, "pipe"))
        assert paths(backend.ls()) == paths(backend.glob("**")) == ["f", "pipe"]
        assert [match.path for match in backend.grep("needle")] == ["f"]

    def test_a_tree_with_a_special_file_is_not_copied(self, backend: Backend, host: Path) -> None:
        os.mkfifo(self.host_path(backend, "pipe"))
        with pytest.raises(ArchiveError):
            backend.download(".", host / "out")
        with pytest.raises(ArchiveError):
            backend.export().read()
        assert list(host.iterdir()) == []

    @EVERY_USE
    def test_a_link_loop_is_no_file(self, backend: Backend, use: str) -> None:
        self.host_path(backend, "a").symlink_to("b")
        self.host_path(backend, "b").symlink_to("a")
        with pytest.raises(NotRegularFileError):
            USES[use](backend, "a")

    def test_a_walk_meets_every_entry_once(self, backend: Backend) -> None:
        backend.write("sub/f", "needle\n")
        self.host_path(backend, "sub/sub").symlink_to(".")
        self.host_path(backend, "a").symlink_to("a")
        assert paths(backend.glob("**")) == ["a", "sub", "sub/f", "sub/sub"]
        assert [match.path for match in backend.grep("needle")] == ["sub/f"]

    @EVERY_USE
    @pytest.mark.parametrize("shape", ["link", "directory"])
    def test_no_call_reaches_through_a_link_that_leads_outside(
        self, backend: Backend, outside: Path, use: str, shape: str
    ) -> None:
        target = outside if shape == "directory" else outside / "secret.txt"
        self.host_path(backend, "way").symlink_to(target)
        with pytest.raises(PathEscapeError):
            USES[use](backend, "way/secret.txt" if shape == "directory" else "way")
        assert (outside / "secret.txt").read_text() == "secret\n"

    def test_a_write_through_a_dangling_link_makes_nothing_outside(self, backend: Backend, outside: Path) -> None:
        self.host_path(backend, "draft").symlink_to(outside / "not-yet")
        with pytest.raises(PathEscapeError):
            backend.write("draft", "x")
        assert [path.name for path in outside.iterdir()] == ["secret.txt"]

    def test_listings_stay_inside(self, backend: Backend, outside: Path) -> None:
        self.host_path(backend, "way").symlink_to(outside)
        for call in (backend.ls, lambda path: backend.glob("*", path)):
            with pytest.raises(PathEscapeError):
                call("way")
        assert not any("secret" in path for path in paths(backend.glob("**")))
        assert list(backend.grep("secret")) == []

    @pytest.mark.parametrize("path", ["../secret.txt", "d/../../secret.txt", "way/../secret.txt"])
    def test_two_dots_never_leave_the_root(self, backend: Backend, outside: Path, path: str) -> None:
        backend.mkdir("d")
        self.host_path(backend, "way").symlink_to(outside / "deeper")
        (outside / "deeper").mkdir()
        for use in USES.values():
            with pytest.raises(PathEscapeError):
                use(backend, path)

    def test_a_name_outside_is_an_escape(self, backend: Backend, outside: Path) -> None:
        for path in (str(outside / "secret.txt"), str(outside), "/", "/etc/passwd"):
            with pytest.raises(PathEscapeError):
                backend.stat(path)

    def test_a_link_is_described_itself(self, backend: Backend) -> None:
        backend.write("real", "four")
        self.host_path(backend, "link").symlink_to("real")
        self.host_path(backend, "dangling").symlink_to("missing")
        assert [(entry.path, entry.is_symlink, entry.is_dir) for entry in backend.ls()] == [
            ("dangling", True, False),
            ("link", True, False),
            ("real", False, False),
        ]
        assert backend.exists("dangling")
        assert backend.read("link") == "four"

    def test_a_write_goes_to_what_a_link_names(self, backend: Backend) -> None:
        fill(backend, {"d/real": "old"})
        self.host_path(backend, "link").symlink_to("d/real")
        backend.write("link", "new")
        backend.edit("link", "new", "newer")
        assert self.host_path(backend, "link").is_symlink()
        assert backend.read("d/real") == "newer"

    def test_remove_and_move_act_on_the_link(self, backend: Backend) -> None:
        fill(backend, {"d/f": "kept"})
        for name in ("one", "two"):
            self.host_path(backend, name).symlink_to("d")
        backend.remove("one", recursive=True)
        backend.move("two", "moved")
        assert self.host_path(backend, "moved").is_symlink()
        assert paths(backend.glob("**")) == ["d", "d/f", "moved"]

    def test_every_name_of_a_file_sees_a_write(self, backend: Backend) -> None:
        backend.write("one", "old and longer")
        os.link(self.host_path(backend, "one"), self.host_path(backend, "two"))
        backend.write("one", "new")
        assert backend.read("two") == "new"

    def test_a_sparse_file_is_refused_before_it_is_read(self, backend: Backend) -> None:
        with self.host_path(backend, "sparse").open("wb") as planted:
            planted.truncate(2**31)
        for use in ("read", "read_bytes", "edit"):
            with pytest.raises(ReadLimitError):
                USES[use](backend, "sparse")

    def test_a_file_of_no_size_is_read_to_its_limit_only(self, backend: Backend) -> None:
        self.host_path(backend, "f").write_bytes(b"x" * (self.max_read_bytes + 1))
        with pytest.raises(ReadLimitError):
            backend.read("f")

    @pytest.mark.parametrize("mode", [0o000, 0o600, 0o100], ids=oct)
    def test_a_walk_tells_what_is_closed_to_it(self, backend: Backend, mode: int) -> None:
        """A directory that is closed, that has names but nothing behind them, and that has no names."""
        fill(backend, {"closed/f": "needle\n", "open/f": "needle\n"})
        closed = self.host_path(backend, "closed")
        blocked = "closed/f" if mode & 0o400 else "closed"
        give_away(self.host_path(backend, "."))
        closed.chmod(mode)
        try:
            with ordinary_user():
                found = backend.glob("**")
                matches = backend.grep("needle")
                assert paths(found) == ["closed", "open", "open/f"]
                assert [match.path for match in matches] == ["open/f"]
                assert [skipped.path for skipped in found.skipped] == [blocked]
                assert [skipped.path for skipped in matches.skipped] == [blocked]
                assert found.skipped[0].reason == PathAccessError("").reason
                if not mode & 0o100:
                    with pytest.raises(PathAccessError):
                        backend.read("closed/f")
        finally:
            closed.chmod(0o755)

    @pytest.mark.parametrize("call", ON_NOTHING)
    def test_a_root_that_vanished_is_told_by_every_method(self, backend: Backend, outside: Path, call: str) -> None:
        backend.write("f", "x")
        shutil.rmtree(self.host_path(backend, "."))
        with pytest.raises(SandboxUnavailableError):
            ON_NOTHING[call](backend, outside)
        assert [path.name for path in outside.iterdir()] == ["secret.txt"]
