"""Entries that become of another kind right after they were looked at: looked at anew, or a conflict."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.errors import SandboxConflictError
from sandbox_kit.host import pin

Make = Callable[[Path], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "x").mkdir(parents=True)
    (made / "target").write_text("target")
    (made / "other").mkdir()
    (made / "other/f").write_text("other")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("outside")
    return made


@pytest.fixture
def backend(root: Path) -> LocalBackend:
    return LocalBackend(root)


def file(path: Path) -> None:
    path.write_text("file")


def directory(path: Path) -> None:
    path.mkdir()
    file(path / "f")


def empty(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.symlink_to("target")


def link_to_directory(path: Path) -> None:
    path.symlink_to("other")


def link_outside(path: Path) -> None:
    path.symlink_to("../outside")


def nothing(path: Path) -> None:
    assert not os.path.lexists(path)


def put(place: Path, make: Make) -> None:
    """Make something in *place*, and set aside what is there."""
    if os.path.lexists(place):
        place.rename(place.parent / "x" / f"aside{len(list((place.parent / 'x').iterdir()))}")
    make(place)


def after_each_look(monkeypatch: pytest.MonkeyPatch, place: Path, before: Make, after: Make, times: int) -> None:
    """Have *place* become what *after* makes whenever it was looked at as what *before* made, so many times."""
    real, left = pin.lookup, [times]
    put(place, before)

    def look(fd: int, name: str) -> os.stat_result | None:
        if name != place.name or not left[0]:
            return real(fd, name)
        if left[0] < times:
            put(place, before)
        left[0] -= 1
        info = real(fd, name)
        put(place, after)
        return info

    monkeypatch.setattr(pin, "lookup", look)


@pytest.mark.parametrize(
    ("before", "after", "path", "text"),
    [
        (link, file, "n", "file"),
        (link, file, "x/../n", "file"),
        (link_to_directory, directory, "n/f", "file"),
        (directory, link_to_directory, "x/../n/f", "other"),
        (link_outside, directory, "x/../n/f", "file"),
    ],
)
@pytest.mark.parametrize("times", [1, 2, 40])
def test_on_the_way_they_are_looked_at_anew(
    backend: LocalBackend,
    root: Path,
    before: Make,
    after: Make,
    path: str,
    text: str,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after_each_look(monkeypatch, root / "n", before, after, times)
    assert backend.read(path) == text


@pytest.mark.parametrize(("before", "after"), [(link, file), (directory, link_to_directory)])
def test_without_an_end_it_is_a_conflict(
    backend: LocalBackend, root: Path, before: Make, after: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_each_look(monkeypatch, root / "n", before, after, 1000)
    with pytest.raises(SandboxConflictError, match="over and over"):
        backend.read("x/../n/f")


def remove_tree(backend: LocalBackend) -> None:
    backend.remove("n", recursive=True)


@pytest.mark.parametrize(
    ("call", "before", "after"),
    [
        (lambda backend: backend.read("x/../n"), file, link),
        (lambda backend: backend.read("x/../n"), file, link_outside),
        (lambda backend: backend.ls("n"), directory, file),
        (lambda backend: backend.ls("n"), directory, link_to_directory),
        (lambda backend: backend.glob("*", "n"), directory, link_outside),
        (lambda backend: list(backend.grep("x", "n")), directory, link_outside),
        (lambda backend: backend.export("n").read(), directory, link_outside),
        (lambda backend: backend.remove("n"), file, directory),
        (lambda backend: backend.remove("n"), empty, file),
        (lambda backend: backend.remove("n"), empty, link_outside),
        (remove_tree, directory, file),
        (remove_tree, directory, link_outside),
        (lambda backend: backend.move("n", "m"), directory, link_outside),
        (lambda backend: backend.mkdir("n/d"), nothing, link_outside),
        (lambda backend: backend.mkdir("n/d"), nothing, file),
        (lambda backend: backend.write("n/d", "x"), nothing, link_outside),
    ],
)
def test_where_a_call_acts_it_is_a_conflict(
    backend: LocalBackend,
    root: Path,
    call: Callable[[LocalBackend], object],
    before: Make,
    after: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after_each_look(monkeypatch, root / "n", before, after, 1)
    with pytest.raises(SandboxConflictError, match="n"):
        call(backend)
    monkeypatch.undo()
    assert os.path.lexists(root / "n")
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["f"]
    assert (root / "other/f").read_text() == "other"


def test_without_rules_a_tree_s_links_are_read_once_each(
    backend: LocalBackend, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (root / f"x/l{number}").symlink_to(f"l{number + 1}")
    read: list[str] = []
    real = os.readlink

    def noted(path: str, *, dir_fd: int | None = None) -> str:
        read.append(path)
        return real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "readlink", noted)
    backend.export("x").read()
    assert sorted(read) == sorted(f"l{number}" for number in range(30))
