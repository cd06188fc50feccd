"""What somebody else plants in a workspace behind a shell: nothing hangs, nothing follows the wrong link."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
)
from sandbox_kit.primitives import allow
from sandbox_kit.testing import HostFilesConformance
from tests.shell.backends import LocalShellFiles

NOBODY = 65534
NAMES = ["-", "--", "-n", "!", "(", "a\nb", "a\n", "\n", "'", '"', "$PWD", "`id`", "\\", "*", "a//b".replace("/", "\\")]
NAMES += [
    "\udcff",
    "\udc81\udc88",
    "e!",
    "b",
    "t",
    "s1 2 81a4 1 1 1",
    "x" * 255,
    " ",
    "=",
    "~",
    "find: .: Permission denied",
]


class PlantedConformance(HostFilesConformance):
    """The suite's planted files; a sandbox has no root that links could leave."""

    kind = "dash"
    test_no_call_reaches_through_a_link_that_leads_outside = None  # type: ignore[assignment]
    test_a_write_through_a_dangling_link_makes_nothing_outside = None  # type: ignore[assignment]
    test_listings_stay_inside = None  # type: ignore[assignment]
    test_two_dots_never_leave_the_root = None  # type: ignore[assignment]
    test_a_name_outside_is_an_escape = None  # type: ignore[assignment]
    test_a_root_that_vanished_is_told_by_every_method = None  # type: ignore[assignment]
    test_a_walk_tells_what_is_closed_to_it = None  # type: ignore[assignment]

    def make_backend(self, tmp_path: Path) -> LocalShellFiles:
        root = tmp_path / "root"
        root.mkdir()
        return LocalShellFiles(root, self.kind, max_read_bytes=self.max_read_bytes)

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[Backend]:
        made = self.make_backend(tmp_path)
        yield made
        made.close()

    def host_path(self, backend: Backend, path: str) -> Path:
        return Path(backend.work_dir, path)


@pytest.mark.needs("dash", "gnu-grep")
class TestPlantedDash(PlantedConformance):
    pass


@pytest.mark.needs("busybox")
class TestPlantedBusybox(PlantedConformance):
    kind = "ash"


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_means_nothing(files: LocalShellFiles, root: Path, name: str) -> None:
    (root / name).mkdir()
    for inner in (name, "f"):
        files.write(f"{name}/{inner}", "needle\n")
    (root / name / "link").symlink_to(name)
    assert sorted(os.listdir(root / name)) == sorted([name, "f", "link"])
    assert [entry.name for entry in files.ls(name)] == sorted([name, "f", "link"])
    assert files._readlink(f"{name}/link", operations=("read",), authorize=allow) == name
    assert files.read(f"{name}/link") == files.read(f"./{name}/{name}") == "needle\n"
    assert {match.path for match in files.grep("needle", name, hidden=True)} == {f"{name}/{name}", f"{name}/f"}
    files.edit(f"{name}/link", "needle", "thread")
    assert (root / name / name).read_text() == "thread\n"
    assert (root / name / "link").is_symlink()
    files.move(f"{name}/{name}", f"{name}/{name[:254]}-")
    files.remove(name, recursive=True)
    assert os.listdir(root) == []


def test_an_inner_name_that_stat_could_print_is_a_name(files: LocalShellFiles, root: Path) -> None:
    (root / "a").mkdir()
    for name in ("a\n", "x1 2 81a4 1 1 1", "1 2 81a4 1 1 1", "\n."):
        (root / "a" / name).write_text("x")
    assert {entry.name for entry in files.ls("a")} == set(os.listdir(root / "a"))


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR])
def test_a_special_file_is_named_and_moved_and_removed(files: LocalShellFiles, root: Path, kind: int) -> None:
    os.mknod(root / "special", kind | 0o600, os.makedev(1, 3))
    assert files.stat("special").mode == 0o600
    for call in (
        files.read,
        files.read_bytes,
        lambda path: files.write(path, "x"),
        lambda path: files.edit(path, "a", "b"),
    ):
        with pytest.raises(NotRegularFileError):
            call("special")
    files.move("special", "moved")
    files.remove("moved")
    assert os.listdir(root) == []


def test_two_dots_lead_where_the_file_system_has_them_lead(files: LocalShellFiles, root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/f").write_text("a's")
    (root / "f").write_text("root's")
    (root / "link").symlink_to("a/b")
    assert files.read("link/../f") == "a's"
    assert files.read(f"{root}/link/../../f") == "root's"
    files.write("link/../g", "x")
    assert (root / "a/g").read_text() == "x"
    assert files.stat("link/..").is_dir


def test_links_out_of_the_work_directory_are_the_sandboxs_own(
    files: LocalShellFiles, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (root / "way").symlink_to(tmp_path / "outside")
    files.write("way/f", "x")
    assert files.read(str(tmp_path / "outside/f")) == "x"
    assert [entry.path for entry in files.ls("way")] == ["way/f"]
    assert files.stat(str(tmp_path / "outside/f")).path == str(tmp_path / "outside/f")


def test_a_way_through_what_is_no_directory_is_told_by_its_kind(files: LocalShellFiles, root: Path) -> None:
    (root / "f").write_text("x")
    (root / "to-file").symlink_to("f")
    (root / "to-nothing").symlink_to("nothing")
    (root / "to-slash").symlink_to("f/")
    for path, error in (
        ("to-file/x", PathNotDirectoryError),
        ("to-nothing", PathNotFoundError),
        ("to-nothing/x", PathNotFoundError),
        ("to-nothing/../f", PathNotFoundError),
        ("f/../f", PathNotDirectoryError),
    ):
        with pytest.raises(error):
            files.read(path)
    assert files.read("to-slash") == "x"
    files.write("to-nothing", "made")
    assert (root / "nothing").read_text() == "made"


def test_a_long_chain_of_links_is_a_loop(files: LocalShellFiles, root: Path) -> None:
    (root / "l0").write_text("x")
    for number in range(1, 45):
        (root / f"l{number}").symlink_to(f"l{number - 1}")
    assert files.read("l40") == "x"
    with pytest.raises(NotRegularFileError):
        files.read("l41")


def test_every_name_of_a_file_keeps_seeing_what_is_written(files: LocalShellFiles, root: Path) -> None:
    (root / "one").write_bytes(b"x" * 300_000)
    os.link(root / "one", root / "two")
    for data in (b"short", b"", b"y" * 9_000_000, b"z" * 65536):
        files.write("one", data)
        assert (root / "two").read_bytes() == data
    assert (root / "one").stat().st_ino == (root / "two").stat().st_ino


def test_a_write_keeps_owner_and_group(files: LocalShellFiles, root: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes files of others")
    (root / "f").write_text("x")
    os.chown(root / "f", NOBODY, NOBODY)
    files.write("f", "y")
    assert ((root / "f").stat().st_uid, (root / "f").read_text()) == (NOBODY, "y")


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o444, 0o4755, 0o666, 0o000])
def test_a_write_keeps_every_bit_of_the_mode(files: LocalShellFiles, root: Path, mode: int) -> None:
    (root / "f").write_text("x")
    (root / "f").chmod(mode)
    files.write("f", "y")
    assert stat.S_IMODE((root / "f").stat().st_mode) == mode
    files.write("new", "x")
    assert stat.S_IMODE((root / "new").stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_no_tool_is_taken_from_where_commands_write(root: Path, files: LocalShellFiles) -> None:
    for tool in ("stat", "dd", "find", "mv", "grep", "readlink", "cat"):
        (root / tool).write_text(f"#!/bin/sh\n: >{root.parent}/ran\n")
        (root / tool).chmod(0o755)
    files._environment["PATH"] = f".:{root}:" + files._environment["PATH"]
    files.write("f", "needle\n" * 1000)
    assert files.read("f") == "needle\n" * 1000
    assert len(list(files.grep("needle"))) == 1000
    files.move("f", "g")
    assert not (root.parent / "ran").exists()


def test_a_deep_tree_is_listed_and_removed(files: LocalShellFiles, root: Path) -> None:
    at = os.open(root, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=at)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)
    with pytest.raises(PathError, match="too long"):
        files.read("/".join(["d" * 200] * 25))
    assert len(files.glob("**")) == 30
    files.remove("d" * 200, recursive=True)
    assert os.listdir(root) == []


class TestAsAnOrdinaryUser:
    """The shells run as somebody who does not own everything."""

    @pytest.fixture
    def root(self) -> Iterator[Path]:
        if os.geteuid():
            pytest.skip("only root can start shells of others")
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            root = Path(directory, "root")
            root.mkdir()
            os.chown(root, NOBODY, NOBODY)
            yield root

    @pytest.fixture
    def files(self, files: LocalShellFiles, root: Path) -> Iterator[LocalShellFiles]:
        made = LocalShellFiles(root, files.kind, user=NOBODY)
        yield made
        made.close()

    def test_what_is_closed_is_told(self, files: LocalShellFiles, root: Path) -> None:
        files.write("open/f", "needle\n")
        files.write("closed/f", "needle\n")
        files.write("shut", "needle\n")
        (root / "shut").chmod(0)
        for mode in (0o000, 0o100, 0o600):
            (root / "closed").chmod(mode)
            found = files.glob("**")
            assert {entry.path for entry in found} >= {"closed", "open", "open/f", "shut"}
            assert [skipped.path for skipped in found.skipped] == ["closed"]
            matches = files.grep("needle")
            assert [match.path for match in matches] == ["open/f"]
            assert {skipped.path for skipped in matches.skipped} in ({"closed", "shut"}, {"closed/f", "shut"})
            with pytest.raises(PathAccessError):
                files.read("shut")
            assert len(files.ls()) == 3
            if mode != 0o100:
                with pytest.raises(PathAccessError):
                    files.read("closed/f")
        with pytest.raises(PathAccessError):
            files.ls("closed")

    def test_a_closed_tree_of_ones_own_is_removed(self, files: LocalShellFiles, root: Path) -> None:
        files.write("d/e/f", "x")
        (root / "d/e").chmod(0)
        (root / "d").chmod(0o500)
        files.remove("d", recursive=True)
        assert os.listdir(root) == []

    def test_what_cannot_be_changed_is_told(self, files: LocalShellFiles, root: Path) -> None:
        files.write("theirs/f", "x")
        (root / "theirs").chmod(0o555)
        os.chown(root / "theirs", 0, 0)
        for call in (
            lambda: files.write("theirs/new", "x"),
            lambda: files.write("theirs/new/deep", "x"),
            lambda: files.mkdir("theirs/d"),
            lambda: files.remove("theirs/f"),
            lambda: files.move("theirs/f", "f"),
            lambda: files.move("theirs/f", "theirs/g"),
            lambda: files._symlink("x", "theirs/l", operations=("write",), authorize=allow),
        ):
            with pytest.raises(PathAccessError):
                call()
        assert os.listdir(root / "theirs") == ["f"]

    def test_a_file_in_a_closed_directory_is_written_in_place(self, files: LocalShellFiles, root: Path) -> None:
        files.write("theirs/f", "a long text")
        (root / "theirs").chmod(0o555)
        os.chown(root / "theirs", 0, 0)
        before = (root / "theirs/f").stat().st_ino
        files.write("theirs/f", "x")
        assert ((root / "theirs/f").read_text(), (root / "theirs/f").stat().st_ino) == ("x", before)
        os.chown(root / "theirs/f", 0, 0)
        with pytest.raises(PathAccessError):
            files.write("theirs/f", "y")
        assert (root / "theirs/f").read_text() == "x"

    def test_a_directory_stays_a_directory(self, files: LocalShellFiles) -> None:
        files.mkdir("d")
        with pytest.raises(PathIsDirectoryError):
            files.write("d", "x")
