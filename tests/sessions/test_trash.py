"""Whatever shape a tree has, it is removed in linear time, and nothing beside it."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.errors import SandboxConflictError
from sandbox_kit.host.trash import Trash
from sandbox_kit.sessions.filesystems import mounts_beneath
from sandbox_kit.sessions.layout import Layout

from .managing import in_child, managed, states

DEPTH = 5_000


@pytest.fixture
def trash(tmp_path: Path) -> Path:
    made = tmp_path / "trash"
    made.mkdir()
    return made


def make_deep(top: Path) -> None:
    """Make a chain of directories, deeper than any path may be long."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def make_closed(top: Path) -> None:
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "f").touch()
    for path, mode in ((top / "a" / "b", 0o500), (top / "a", 0)):
        path.chmod(mode)


def make_links(top: Path) -> None:
    top.mkdir()
    (top / "file").symlink_to(top.parent / "outside" / "kept")
    (top / "directory").symlink_to(top.parent / "outside")
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "fifo")


SHAPES: dict[str, Callable[[Path], None]] = {
    "deep": make_deep,
    "closed": make_closed,
    "links": make_links,
    "file": Path.touch,
    "a link": lambda top: top.symlink_to(top.parent / "outside"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tree_of_any_shape_is_removed_and_what_it_links_to_is_not(tmp_path: Path, trash: Path, shape: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    SHAPES[shape](tmp_path / "top")
    Trash(trash).throw(tmp_path / "top")
    assert not os.path.lexists(tmp_path / "top")
    assert list(trash.iterdir()) == []
    assert (tmp_path / "outside" / "kept").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user: the test above is then that user's")
def test_an_ordinary_user_removes_what_it_has_closed_to_itself() -> None:
    with tempfile.TemporaryDirectory(prefix="nobody-", dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o777)

        def act() -> bool:
            os.setresuid(65534, 65534, 65534)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/self is this user's again
            make_closed(directory / "top")
            (directory / "trash").mkdir()
            Trash(directory / "trash").throw(directory / "top")
            return os.listdir(directory) == ["trash"] and os.listdir(directory / "trash") == []

        assert in_child(act) == 0


def test_what_is_not_there_is_fine(tmp_path: Path, trash: Path) -> None:
    Trash(trash).throw(tmp_path / "missing")
    Trash(trash).empty()
    Trash(tmp_path / "missing").empty()
    assert list(trash.iterdir()) == []


def test_several_may_empty_it_at_once(trash: Path) -> None:
    for number in range(200):
        (trash / f"{number}" / "a" / "b").mkdir(parents=True)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            Trash(trash).empty()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    Trash(trash).empty()
    assert errors == []
    assert list(trash.iterdir()) == []


def test_what_cannot_be_removed_is_logged_and_keeps_nothing_else(
    trash: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        (trash / name).touch()
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int) -> None:
        if name == "b":
            raise OSError("busy")
        unlink(name, dir_fd=dir_fd)

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "sandbox_kit"):
        patch.setattr(os, "unlink", refuse)
        Trash(trash).empty()
    assert [path.name for path in trash.iterdir()] == ["b"]
    assert "busy" in caplog.text


@pytest.mark.parametrize(("error", "told"), [(OSError("busy"), True), (FileNotFoundError("gone"), False)])
def test_one_entry_that_cannot_be_removed_keeps_nothing_beside_it(
    trash: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: OSError,
    told: bool,
) -> None:
    for number in range(8):
        (trash / "a" / f"d{number}" / "e").mkdir(parents=True)
        (trash / "a" / f"f{number}").touch()
    rename, unlink = os.rename, os.unlink

    def refuse_rename(name: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if name == "d4":
            raise error
        rename(name, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def refuse_unlink(name: str, *, dir_fd: int) -> None:
        if name == "f4":
            raise error
        unlink(name, dir_fd=dir_fd)

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "sandbox_kit"):
        patch.setattr(os, "rename", refuse_rename)
        patch.setattr(os, "unlink", refuse_unlink)
        Trash(trash).empty()
    assert [path.name for path in trash.iterdir()] == ["a"]
    assert sorted(path.name for path in (trash / "a").iterdir()) == ["d4", "f4"]
    assert (f"{trash}/a/d4: busy" in caplog.text) is told
    Trash(trash).empty()
    assert list(trash.iterdir()) == []


def test_mounts_in_a_directory_or_on_it_are_found(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    lines = [f"2{n} 1 0:2{n} / {tmp_path}{name} rw - ext4 x rw" for n, name in enumerate(("/a", "/a/b c", "/ab"))]
    mounts.write_text("\n".join(lines).replace(" c", "\\040c") + "\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    assert mounts_beneath(tmp_path / "a", mounts=str(mounts)) == [f"{tmp_path}/a", f"{tmp_path}/a/b c"]
    assert mounts_beneath(tmp_path / "ab", mounts=str(mounts)) == [f"{tmp_path}/ab"]
    assert mounts_beneath(tmp_path / "link", mounts=str(mounts)) == []
    assert mounts_beneath(tmp_path / "a", mounts=str(tmp_path / "missing")) == []


def test_a_session_with_something_mounted_in_it_is_not_purged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    with managed(root, workspace_ttl=1e-6) as manager:
        for id in ("live", "hibernated"):
            manager.open(id).write("f", id)
        manager.close("hibernated")
        with monkeypatch.context() as patch:
            patch.setattr("sandbox_kit.sessions.layout.mounts_beneath", lambda path: [f"{path}/workspace/data"])
            for id in ("live", "hibernated"):
                with pytest.raises(SandboxConflictError, match=f"{id} cannot be purged: .*data is mounted"):
                    manager.close(id, purge=True)
                with pytest.raises(SandboxConflictError, match="mounted"):
                    Layout(root).remove(id)
            assert manager.reap().purged == ()
            assert states(manager) == {"live": "live", "hibernated": "hibernated"}
        assert manager.reap().purged == ("hibernated",)
        assert manager.open("live").read("f") == "live"


@pytest.mark.skipif(sys.platform != "linux", reason="mounts of its own are a matter of Linux")
def test_what_is_mounted_is_never_emptied(tmp_path: Path, trash: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (trash / "a" / "workspace" / "data").mkdir(parents=True)
    (trash / "a" / "workspace" / "f").touch()
    code = "import pathlib, sys, sandbox_kit.host.trash as it; it.Trash(pathlib.Path(sys.argv[1])).empty()"
    script = 'mount --bind "$1" "$2" || exit 77; "$3" -c "$4" "$5" || exit 5'
    words = [str(tmp_path / "outside"), str(trash / "a" / "workspace" / "data"), sys.executable, code, str(trash)]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *words], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode in (1, 77, 127):
        pytest.skip(f"no mounts of its own: {done.stderr}")
    assert (done.returncode, "busy" in done.stderr) == (0, True)
    assert (tmp_path / "outside" / "kept").exists()
    Trash(trash).empty()
    assert list(trash.iterdir()) == []
