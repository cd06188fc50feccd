"""The removal of what a command left to stop others: directories closed to their owner, and deep ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit import Backend, LocalBackend, PermissionRule, PermissionRuleset, guarding
from sandbox_kit.backends.local.closed import Opened
from sandbox_kit.errors import PathIsDirectoryError, PermissionDeniedError
from sandbox_kit.host.system import Descriptor
from sandbox_kit.host.trail import descend

from .confinement import Workspace

AsNobody = Callable[[Callable[[Workspace], object]], None]
LEVELS = 700
NAME = "directory"


def make_deep(root: Path, levels: int = LEVELS) -> None:
    """Directories in each other, whose whole name no system call takes."""
    at = Descriptor.open(str(root), os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(levels):
        os.mkdir(NAME, dir_fd=at.fd)
        at = Descriptor.open(NAME, os.O_RDONLY | os.O_DIRECTORY, at.fd)
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at.fd))


def close_all_of(root: str, *modes: int) -> None:
    """A tree under *root*/top whose directories have *modes*, the outermost first."""
    names = ["/".join(["top", *(f"d{depth}" for depth in range(1, level + 1))]) for level in range(len(modes))]
    for name in names:
        os.mkdir(f"{root}/{name}")
        Path(f"{root}/{name}/file").touch()
    for name, mode in reversed([*zip(names, modes, strict=True)]):
        os.chmod(f"{root}/{name}", mode)


def modes_of(root: str) -> list[int]:
    """The modes of root/top, root/top/d1, ... as far as this user can look."""
    found, name = [], f"{root}/top"
    while os.path.isdir(name):
        found.append(stat.S_IMODE(os.stat(name).st_mode))
        name += f"/d{len(found)}"
    return found


def refusing(backend: LocalBackend, pattern: str) -> Backend:
    return guarding(backend, PermissionRuleset(rules=(PermissionRule(pattern, "deny"),)))


@pytest.mark.parametrize("modes", [(0,), (0, 0, 0), (0o444, 0o755), (0o555, 0o111, 0o300), (0o755, 0o400)])
def test_directories_that_are_closed_to_their_owner_are_removed(modes: tuple[int, ...], as_nobody: AsNobody) -> None:
    def check(workspace: Workspace) -> None:
        close_all_of(workspace.root, *modes)
        LocalBackend(workspace.root).remove("top", recursive=True)
        assert os.listdir(workspace.root) == []

    as_nobody(check)


def test_nothing_is_opened_for_a_removal_that_is_refused(as_nobody: AsNobody) -> None:
    def check(workspace: Workspace) -> None:
        close_all_of(workspace.root, 0o700, 0o500, 0, 0)
        backend = LocalBackend(workspace.root)
        before = os.stat(f"{workspace.root}/top/d1/d2").st_ctime_ns
        for pattern, touched in (("top", False), ("**/d2", False), ("**/d3", True), ("top/d1/d2/d3/file", True)):
            with pytest.raises(PermissionDeniedError):
                refusing(backend, pattern).remove("top", recursive=True)
            assert modes_of(workspace.root) == [0o700, 0o500, 0]
            assert (os.stat(f"{workspace.root}/top/d1/d2").st_ctime_ns != before) is touched
        os.chmod(f"{workspace.root}/top/d1/d2", 0o700)
        assert modes_of(workspace.root) == [0o700, 0o500, 0o700, 0]

    as_nobody(check)


def test_nothing_is_opened_without_recursive(as_nobody: AsNobody) -> None:
    def check(workspace: Workspace) -> None:
        close_all_of(workspace.root, 0)
        with pytest.raises(PathIsDirectoryError):
            LocalBackend(workspace.root).remove("top")
        assert modes_of(workspace.root) == [0]

    as_nobody(check)


@pytest.mark.skipif("os.geteuid() != 0", reason="needs root, which enters what it does not own")
def test_a_directory_of_somebody_else_keeps_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top").mkdir(0)
    opened = Opened(Descriptor.open(str(tmp_path), os.O_RDONLY | os.O_DIRECTORY), "top")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    opened.enter("")
    assert stat.S_IMODE((tmp_path / "top").stat().st_mode) == 0


def test_what_a_link_leads_to_is_left_alone(as_nobody: AsNobody) -> None:
    def check(workspace: Workspace) -> None:
        kept = Path(f"{workspace.root}/kept")
        kept.mkdir(0o500)
        close_all_of(workspace.root, 0o700)
        Path(f"{workspace.root}/top/link").symlink_to(kept)
        os.chmod(f"{workspace.root}/top", 0)
        LocalBackend(workspace.root).remove("top", recursive=True)
        assert os.listdir(workspace.root) == ["kept"]
        assert stat.S_IMODE(kept.stat().st_mode) == 0o500

    as_nobody(check)


def test_a_command_that_closed_a_directory_is_got_over(as_nobody: AsNobody) -> None:
    def check(workspace: Workspace) -> None:
        masks = workspace.denials(r".*/\.env")
        workspace.put("top/.env")
        assert workspace.run("chmod 0 top", masks) == "rc=0"
        assert not workspace.run("ls top || chmod 755 top", masks).endswith("rc=0")
        LocalBackend(workspace.root).remove("top", recursive=True)
        assert workspace.run("mkdir top", masks) == "rc=0"

    as_nobody(check)


def test_a_tree_of_any_depth_is_removed(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    make_deep(tmp_path / "top")
    LocalBackend(tmp_path).remove("top", recursive=True)
    assert not list(tmp_path.iterdir())


def test_a_deep_tree_with_something_that_rules_keep_is_left_whole(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    make_deep(tmp_path / "top")
    with pytest.raises(PermissionDeniedError):
        refusing(LocalBackend(tmp_path), "**/file").remove("top", recursive=True)
    top = Descriptor.open(str(tmp_path / "top"), os.O_RDONLY | os.O_DIRECTORY)
    assert os.listdir(descend(top, "/".join([NAME] * LEVELS)).fd) == ["file"]


@pytest.mark.needs("bwrap")
def test_what_stops_masked_commands_is_named_and_removed(workspace: Workspace) -> None:
    masks = workspace.denials(r".*/\.env")
    os.mkdir(f"{workspace.root}/top")
    make_deep(Path(workspace.root, "top"), 300)
    with pytest.raises(NotImplementedError, match=r"top/directory/.* too deep"):
        workspace.run("true", masks)
    LocalBackend(workspace.root).remove("top", recursive=True)
    assert workspace.run("true", masks) == "rc=0"
