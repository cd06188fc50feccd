"""Directories entered one after the other: each is the one that its path names, and few are held."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.errors import PermissionDeniedError
from sandbox_kit.host import trail
from sandbox_kit.host.system import Descriptor
from sandbox_kit.host.trail import HELD, Trail, descend
from sandbox_kit.primitives import allow

from .descriptors import opened_beneath

LEVELS = 3000
SECONDS = 20
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
NAME = "directory"

names = st.lists(st.sampled_from(["a", "b"]), max_size=4).map("/".join)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every directory that four names of two can make, and a deep one."""
    made = tmp_path_factory.mktemp("tree")
    for number in range(16):
        (made / "/".join("ab"[number >> bit & 1] for bit in range(4))).mkdir(parents=True)
    (made / "/".join(["d"] * 3 * HELD)).mkdir(parents=True)
    return made


def opened(path: Path) -> Descriptor:
    return Descriptor.open(str(path), DIRECTORY)


@given(st.lists(names, max_size=12))
def test_in_any_order_each_is_the_one_that_is_named(tree: Path, paths: list[str]) -> None:
    way = Trail(opened(tree))
    for path in paths:
        assert os.path.samestat(os.fstat(way.enter(path).fd), os.stat(tree / path))


@pytest.mark.parametrize("depths", [range(3 * HELD), range(3 * HELD, 0, -1), [90, 3, 80, 0, 70, 96, 1]])
def test_few_are_held_however_deep(tree: Path, depths: range | list[int]) -> None:
    way = Trail(opened(tree))
    for depth in depths:
        path = "/".join(["d"] * depth)
        assert os.path.samestat(os.fstat(way.enter(path).fd), os.stat(tree / path))
        assert len(opened_beneath(str(tree))) <= HELD + 1


def test_one_that_is_missing_says_so_each_time(tree: Path) -> None:
    way = Trail(opened(tree))
    for path in ("a/x", "a/x/y", "aa", "a/b"):
        if path == "a/b":
            assert os.path.samestat(os.fstat(way.enter(path).fd), os.stat(tree / path))
            continue
        with pytest.raises(FileNotFoundError):
            way.enter(path)


@pytest.mark.parametrize("held", [True, False])
def test_no_link_is_entered(tmp_path: Path, held: bool) -> None:
    (tmp_path / "top/a/b").mkdir(parents=True)
    (tmp_path / "outside/c").mkdir(parents=True)
    (tmp_path / "top/a/link").symlink_to(tmp_path / "outside")
    way = Trail(opened(tmp_path / "top"))
    if held:
        way.enter("a/b")
    for path in ("a/link", "a/link/c"):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            way.enter(path)


@pytest.mark.parametrize("length", [1, 255])
def test_a_path_of_any_length_is_opened(tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["n" * length] * 40
    top = at = opened(tmp_path)
    for name in names:
        os.mkdir(name, dir_fd=at.fd)
        at = Descriptor.open(name, DIRECTORY, at.fd)
    quick = descend(top, "/".join(names))
    monkeypatch.setattr(trail, "open_beneath", without_openat2)
    slow = descend(top, "/".join(names))
    assert os.fstat(quick.fd) == os.fstat(slow.fd) == os.fstat(at.fd)


def without_openat2(*arguments: object) -> Descriptor:
    raise OSError(38, "there is no such call")


@pytest.fixture
def comb(tmp_path: Path) -> Iterator[Path]:
    """Directories in each other, beside each of which is one more; no system call takes their names whole."""
    at = opened(tmp_path)
    os.mkdir("top", dir_fd=at.fd)
    at = Descriptor.open("top", DIRECTORY, at.fd)
    for _ in range(LEVELS):
        os.mkdir("z", dir_fd=at.fd)
        os.mkdir(NAME, dir_fd=at.fd)
        at = Descriptor.open(NAME, DIRECTORY, at.fd)
    yield tmp_path
    LocalBackend(tmp_path).remove("top", recursive=True)


def test_a_walk_takes_time_linear_in_the_depth(comb: Path) -> None:
    before = monotonic()
    entries = LocalBackend(comb)._scandir("top", operations=("ls",), authorize=allow, depth=None)
    assert sum(entry is not None for entry in entries) == 2 * LEVELS
    assert monotonic() - before < SECONDS


def test_a_refused_removal_and_one_that_is_not_take_time_linear_in_the_depth(comb: Path) -> None:
    def refuse(operation: str, names: tuple[str, ...], **question: object) -> bool:
        if names[0].endswith(f"top/{NAME}/z"):
            raise PermissionDeniedError(operation, names[0])
        return True

    backend = LocalBackend(comb)
    before = monotonic()
    with pytest.raises(PermissionDeniedError):
        backend._remove("top", operations=("write",), authorize=refuse, recursive=True)
    backend.move("top", "moved")
    backend.remove("moved", recursive=True)
    assert monotonic() - before < SECONDS
    os.mkdir(comb / "top")


def test_parents_that_a_failed_write_made_are_gone_in_time_linear_in_their_number(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise ValueError("the content broke")

    before = monotonic()
    with pytest.raises(ValueError, match="broke"):
        LocalBackend(tmp_path).write("d/" * (LEVELS // 2) + "f", Broken())
    assert list(tmp_path.iterdir()) == []
    assert monotonic() - before < SECONDS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(made=st.sets(st.sampled_from(["a", "a/a", "a/b", "b", "b/a/b"])))
def test_a_failed_write_removes_only_what_it_made(tmp_path_factory: pytest.TempPathFactory, made: set[str]) -> None:
    root = tmp_path_factory.mktemp("root")
    for path in made:
        (root / path).mkdir(parents=True, exist_ok=True)
    before = sorted(root.rglob("*"))
    with pytest.raises(OSError, match="too long"):
        LocalBackend(root).write("b/a/b/a/" + "x" * 300, "x")
    assert sorted(root.rglob("*")) == before
