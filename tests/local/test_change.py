"""Changes to files of the host: what takes a file's place, what stays in place, what an error leaves behind."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalBackend, removal
from sandbox_kit.errors import PathAccessError, PathError, PathIsDirectoryError, SandboxConflictError
from sandbox_kit.guard import GuardedBackend
from sandbox_kit.host import unfinished
from sandbox_kit.primitives import allow
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.testing.host import NOBODY, ordinary_user

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


class Source(io.RawIOBase):
    """Content during whose reading something happens.

    Args:
        happens: called once, before the last piece is given.
    """

    def __init__(self, happens: Callable[[], object]) -> None:
        self._pieces = iter((b"new ", b"content", b""))
        self._happens = happens

    def read(self, size: int = -1) -> bytes:
        piece = next(self._pieces)
        if piece == b"content":
            self._happens()
        return piece


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.fixture
def backend(root: Path) -> LocalBackend:
    return LocalBackend(root)


@pytest.fixture
def host_file(tmp_path: Path) -> Path:
    path = tmp_path / "host-file"
    path.write_text("untouched")
    path.chmod(0o640)
    return path


def write(backend: LocalBackend, path: str, content: Source) -> None:
    backend.write(path, content)  # type: ignore[arg-type]


def temporary(directory: Path, but: str = "") -> Path:
    (found,) = (path for path in directory.glob(".*.tmp") if path.name != but)
    return found


def refuse_nameless(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the file system be one that has no files without a name."""
    opened = os.open

    def refuse(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if path == "." and flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, os.strerror(number))
        return opened(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", refuse)


def planted(host_file: Path, directory: Path) -> Callable[[], None]:
    """What a command does that sees the temporary file: a link to a file of the host takes its place."""

    def plant() -> None:
        path = temporary(directory)
        path.unlink()
        path.symlink_to(host_file)

    return plant


class TestWhatIsBeingWritten:
    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files without a name")
    @pytest.mark.parametrize("existing", [True, False], ids=["replacing", "new"])
    def test_has_no_name_before_it_is_complete(self, backend: LocalBackend, root: Path, existing: bool) -> None:
        if existing:
            (root / "f").write_text("old")
        seen: list[list[str]] = []
        write(backend, "f", Source(lambda: seen.append([path.name for path in root.iterdir()])))
        assert seen == [["f"] if existing else []]
        assert [(path.name, path.read_text()) for path in root.iterdir()] == [("f", "new content")]

    def test_takes_the_place_of_what_was_made_meanwhile(self, backend: LocalBackend, root: Path) -> None:
        write(backend, "f", Source(lambda: (root / "f").write_text("other")))
        assert [(path.name, path.read_text()) for path in root.iterdir()] == [("f", "new content")]

    @pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR])
    def test_has_a_name_of_its_own_where_it_needs_one(
        self, backend: LocalBackend, root: Path, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refuse_nameless(monkeypatch, number)
        write(backend, "f", Source(lambda: temporary(root)))
        assert [(path.name, path.read_text()) for path in root.iterdir()] == [("f", "new content")]

    @pytest.mark.parametrize("existing", [True, False])
    def test_with_a_name_of_its_own_it_replaces_nothing_that_was_not_expected(
        self, backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch, existing: bool
    ) -> None:
        refuse_nameless(monkeypatch, errno.EOPNOTSUPP)
        if existing:
            backend.write("f", "old")
        (expect,) = backend._resolve(("f",), operations=("write",), authorize=allow)
        (root / "other").write_text("other")
        writing = backend._open_write("f", operations=("write",), authorize=allow, expect=expect)
        with pytest.raises(SandboxConflictError), writing:
            (root / "other").rename(root / "f")
        assert [(path.name, path.read_text()) for path in root.iterdir()] == [("f", "other")]

    def test_no_walk_shows_its_name(self, backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        refuse_nameless(monkeypatch, errno.EOPNOTSUPP)
        (root / "d").mkdir()
        (root / "d/.other.tmp").write_text("new one\n")
        with backend._open_write("d/f", operations=("write",), authorize=allow) as out:
            out.write(b"new one\n" * 100_000)
            assert temporary(root / "d", but=".other.tmp").read_bytes().startswith(b"new one\n")
            assert [info.path for info in backend.ls("d")] == ["d/.other.tmp"]
            assert [info.path for info in backend.glob("**/*")] == ["d", "d/.other.tmp"]
            for path in (".", "d"):
                assert {match.path for match in backend.grep("new", path, hidden=True)} == {"d/.other.tmp"}
            with backend.export() as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
                assert archive.getnames() == ["d", "d/.other.tmp"]
            with pytest.raises(PathIsDirectoryError):
                backend.remove("d")
        assert [info.path for info in backend.ls("d")] == ["d/.other.tmp", "d/f"]

    def test_a_name_that_is_left_goes_with_its_directory(self, backend: LocalBackend, root: Path) -> None:
        (root / "d").mkdir()
        (root / "d" / unfinished.new_name()).write_text("left by a killed process")
        assert backend.ls("d") == []
        backend.remove("d", recursive=True)
        assert not (root / "d").exists()


class TestATemporaryFileThatIsReplaced:
    """The name of what is being written, where it needs one, is anyone's who can write to the directory."""

    @pytest.fixture(autouse=True)
    def named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refuse_nameless(monkeypatch, errno.EOPNOTSUPP)

    @pytest.mark.parametrize("existing", [True, False], ids=["replacing", "new"])
    def test_what_took_its_name_is_neither_changed_nor_installed(
        self, backend: LocalBackend, root: Path, host_file: Path, existing: bool
    ) -> None:
        if existing:
            (root / "f").write_text("old")
            (root / "f").chmod(0o777)
        with pytest.raises(SandboxConflictError, match="replaced"):
            write(backend, "f", Source(planted(host_file, root)))
        assert stat.S_IMODE(host_file.stat().st_mode) == 0o640
        assert host_file.read_text() == "untouched"
        assert (root / "f").exists() is existing
        assert not (root / "f").is_symlink()
        assert temporary(root).is_symlink()

    def test_with_a_mode_of_its_own(self, backend: LocalBackend, root: Path, host_file: Path) -> None:
        writing = backend._open_write("f", operations=("write",), authorize=allow, mode=0o777)
        writing.__enter__().write(b"x")
        planted(host_file, root)()
        with pytest.raises(SandboxConflictError):
            writing.__exit__(None, None, None)
        assert stat.S_IMODE(host_file.stat().st_mode) == 0o640

    def test_after_an_error_what_took_its_name_stays(self, backend: LocalBackend, root: Path, host_file: Path) -> None:
        def fail() -> None:
            planted(host_file, root)()
            raise ValueError("no more")

        with pytest.raises(ValueError, match="no more"):
            write(backend, "f", Source(fail))
        assert temporary(root).is_symlink()

    def test_gone_it_is_an_error(self, backend: LocalBackend, root: Path) -> None:
        with pytest.raises(SandboxConflictError):
            write(backend, "f", Source(lambda: temporary(root).unlink()))
        assert list(root.iterdir()) == []

    def test_while_it_is_copied_in_place_the_bytes_are_its_own(
        self, backend: LocalBackend, root: Path, host_file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / "f").write_text("old and longer than the new")

        def busy(*names: object, **directories: object) -> None:
            planted(host_file, root)()
            raise OSError(errno.EBUSY, "busy")

        monkeypatch.setattr(os, "rename", busy)
        backend.write("f", "new")
        assert (root / "f").read_text() == "new"
        assert temporary(root).is_symlink()


class TestInPlace:
    """Where a new file cannot take the place, the bytes of the one that is there change."""

    @pytest.mark.parametrize("number", [errno.EBUSY, errno.EROFS, errno.EXDEV, errno.EPERM])
    def test_a_name_that_cannot_be_given_again(
        self, backend: LocalBackend, root: Path, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*names: object, **directories: object) -> None:
            raise OSError(number, os.strerror(number))

        (root / "f").write_text("old and longer")
        (root / "f").chmod(0o751)
        before = (root / "f").stat()
        monkeypatch.setattr(os, "rename", refuse)
        backend.write("f", "new")
        after = (root / "f").stat()
        assert (root / "f").read_text() == "new"
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
        assert [path.name for path in root.iterdir()] == ["f"]
        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(PathError):
            backend.write("g", "new")
        assert [path.name for path in root.iterdir()] == ["f"]

    def test_a_file_with_two_names_keeps_both(self, backend: LocalBackend, root: Path) -> None:
        (root / "one").write_text("old and longer")
        os.link(root / "one", root / "two")
        before = (root / "one").stat()
        backend.write("one", "new")
        backend.edit("two", "new", "newer")
        assert (root / "one").read_text() == (root / "two").read_text() == "newer"
        assert ((root / "one").stat().st_ino, (root / "one").stat().st_nlink) == (before.st_ino, 2)

    def test_a_mode_that_is_asked_for_is_given_to_both_names(
        self, backend: LocalBackend, root: Path, host_file: Path
    ) -> None:
        (root / "one").write_text("old and longer")
        os.link(root / "one", root / "two")
        backend.upload(host_file, "one")
        assert (root / "two").read_text() == "untouched"
        assert stat.S_IMODE((root / "two").stat().st_mode) == 0o640

    def test_replaced_while_the_content_was_read_nothing_is_written(self, backend: LocalBackend, root: Path) -> None:
        (root / "one").write_text("old")
        os.link(root / "one", root / "two")

        def replace() -> None:
            (root / "other").write_text("another")
            (root / "other").rename(root / "one")

        with pytest.raises(SandboxConflictError, match="replaced"):
            write(backend, "one", Source(replace))
        assert ((root / "one").read_text(), (root / "two").read_text()) == ("another", "old")

    def test_a_link_in_its_place_is_not_followed(self, backend: LocalBackend, root: Path, host_file: Path) -> None:
        (root / "one").write_text("old")
        os.link(root / "one", root / "two")

        def replace() -> None:
            (root / "one").unlink()
            (root / "one").symlink_to(host_file)

        with pytest.raises(SandboxConflictError):
            write(backend, "one", Source(replace))
        assert host_file.read_text() == "untouched"

    @root_only
    def test_another_s_file_stays_another_s(self, backend: LocalBackend, root: Path) -> None:
        (root / "f").write_text("old")
        os.chown(root / "f", NOBODY, NOBODY)
        backend.write("f", "new")
        info = (root / "f").stat()
        assert ((root / "f").read_text(), info.st_uid, info.st_gid) == ("new", NOBODY, NOBODY)

    @root_only
    def test_a_user_who_cannot_give_files_away_writes_another_s_in_place(
        self, backend: LocalBackend, root: Path
    ) -> None:
        (root / "f").write_text("old and longer")
        (root / "f").chmod(0o666)
        root.chmod(0o777)
        inode = (root / "f").stat().st_ino
        assert backend.exists("f")
        with ordinary_user():
            backend.write("f", "new")
        info = (root / "f").stat()
        assert ((root / "f").read_text(), info.st_uid, info.st_ino) == ("new", 0, inode)
        assert [path.name for path in root.iterdir()] == ["f"]

    @root_only
    def test_in_a_directory_that_takes_no_new_file(self, backend: LocalBackend, root: Path) -> None:
        (root / "f").write_text("old and longer")
        (root / "f").chmod(0o666)
        assert backend.exists("f")
        with ordinary_user():
            backend.write("f", "new")
            with pytest.raises(PathAccessError):
                backend.write("g", "new")
        assert (root / "f").read_text() == "new"


class TestAfterAnError:
    def fail(self) -> None:
        raise ValueError("no more")

    def test_the_parents_that_the_call_made_are_gone(self, backend: LocalBackend, root: Path) -> None:
        (root / "kept").mkdir()
        for path in ("a/b/c/f", "kept/b/f", "f"):
            with pytest.raises(ValueError, match="no more"):
                write(backend, path, Source(self.fail))
        assert [str(path.relative_to(root)) for path in root.rglob("*")] == ["kept"]

    def test_a_parent_that_another_uses_by_then_stays(self, backend: LocalBackend, root: Path) -> None:
        def use() -> None:
            (root / "a/other").write_text("x")
            self.fail()

        with pytest.raises(ValueError, match="no more"):
            write(backend, "a/b/f", Source(use))
        assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["a", "a/other"]

    @pytest.mark.parametrize("call", ["write", "mkdir"])
    def test_a_name_that_is_too_long_leaves_no_parents(self, backend: LocalBackend, root: Path, call: str) -> None:
        path = "a/b/" + "x" * 256
        with pytest.raises(PathError):
            backend.write(path, "x") if call == "write" else backend.mkdir(path)
        assert list(root.iterdir()) == []


class TestRemove:
    def test_what_came_after_the_question_stays(self, backend: LocalBackend, root: Path) -> None:
        backend.write("d/e/f", "x")

        def answer(operation: str, names: tuple[str, ...], *, identity: object = None, **more: Any) -> bool:
            if identity is not None and names == (str(root / "d"),):
                (root / "d/e/late").write_text("late")
            return True

        with pytest.raises(PathIsDirectoryError):
            backend._remove("d", operations=("write",), authorize=answer, recursive=True)
        assert (root / "d/e/late").read_text() == "late"

    @pytest.mark.parametrize("number", [errno.ENOTEMPTY, errno.EEXIST])
    def test_both_ways_to_say_that_a_directory_is_not_empty_are_known(
        self, backend: LocalBackend, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(name: str, **directory: object) -> None:
            raise OSError(number, os.strerror(number))

        backend.mkdir("d")
        monkeypatch.setattr(os, "rmdir", refuse)
        with pytest.raises(PathIsDirectoryError, match="not empty"):
            backend.remove("d")

    def test_what_went_after_the_question_is_fine(self, backend: LocalBackend, root: Path) -> None:
        backend.write("d/e/f", "x")
        backend.write("d/g", "x")

        def answer(operation: str, names: tuple[str, ...], *, identity: object = None, **more: Any) -> bool:
            if identity is not None and names == (str(root / "d"),):
                (root / "d/e/f").unlink()
                (root / "d/e").rmdir()
            return True

        backend._remove("d", operations=("write",), authorize=answer, recursive=True)
        assert list(root.iterdir()) == []

    def test_what_came_instead_after_an_approval_stays(
        self, backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("d/e/f", "d/e/g", "other"):
            backend.write(name, name)
        approve = GuardedBackend(
            backend, PermissionRuleset("allow", rules=[PermissionRule("./d/**", "ask")]), ask=lambda *question: True
        )
        remove = removal.remove

        def remove_late(*arguments: Any, **options: Any) -> None:
            (root / "other").rename(root / "d/e/g")
            remove(*arguments, **options)

        monkeypatch.setattr(removal, "remove", remove_late)
        with pytest.raises(SandboxConflictError, match="d/e/g"):
            approve.remove("d", recursive=True)
        assert {path.name: path.read_text() for path in (root / "d/e").iterdir()} == {"f": "d/e/f", "g": "other"}


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


class TestModesOfDirectories:
    def test_a_closed_tree_is_filled_before_it_is_closed(self) -> None:
        with ordinary_user(), tempfile.TemporaryDirectory() as directory:
            source, root = Path(directory, "in"), Path(directory, "root")
            for path in (source / "d/e", root):
                path.mkdir(parents=True)
            (source / "d/e/f").write_text("x")
            for path in (source / "d/e", source / "d", source):
                path.chmod(0o555)
            LocalBackend(root).upload(source, "up")
            copies = [root / "up", root / "up/d", root / "up/d/e"]
            assert [stat.S_IMODE(path.stat().st_mode) for path in copies] == [0o555] * 3
            assert (root / "up/d/e/f").read_text() == "x"
            for path in (source, source / "d", source / "d/e", *copies):
                path.chmod(0o755)

    def test_a_new_one_is_never_more_open_than_asked_for(
        self, backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[int] = []
        change_mode = os.fchmod

        def watched(fd: int, mode: int) -> None:
            made.append(stat.S_IMODE(os.fstat(fd).st_mode))
            change_mode(fd, mode)

        monkeypatch.setattr(os, "fchmod", watched)
        backend._mkdir("a/b", operations=("write",), authorize=allow, mode=0o700)
        assert made == [0o700]

    def test_the_bit_that_hands_on_the_group_stays(self, backend: LocalBackend, root: Path) -> None:
        (root / "d").mkdir()
        (root / "d").chmod(0o2755)
        for path in ("d", "d/e"):
            backend._mkdir(path, operations=("write",), authorize=allow, mode=0o770)
            assert stat.S_IMODE((root / path).stat().st_mode) == 0o2770

    def test_one_that_belongs_to_another_is_an_access_error(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o755)
        (tmp_path / "d").mkdir(mode=0o755)
        backend = LocalBackend(tmp_path)
        with ordinary_user(), pytest.raises(PathAccessError):
            backend._mkdir("d", operations=("write",), authorize=allow, mode=0o777)
        assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o755
