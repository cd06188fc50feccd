"""RemoteWorkspaceArchive on the real service: the files that sessions left, with nothing running."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit import RemoteWorkspaceArchive
from sandbox_kit.archives import Archive
from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathEscapeError,
    PathIsDirectoryError,
    PathNotDirectoryError,
    PathNotFoundError,
    ReadLimitError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.testing.base import paths

from .service import Service

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
FILES = {"a.txt": b"one\r\ntwo\nthree", "chart.png": PNG, ".hidden": b"", "sub/deep/x": b"\0\xff", "sub/y": b"y"}


@pytest.fixture
def archive(service: Service) -> Archive:
    return RemoteWorkspaceArchive(service.url, token=service.token, max_read_bytes="1m")


@pytest.fixture
def workspace(service: Service) -> Path:
    """Where the service has the files of the session ``left``."""
    directory = service.workspaces / "left" / "workspace"
    if not directory.exists():
        for name, content in FILES.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)
        (directory / "sub/up").symlink_to("..")
        (directory / "out").symlink_to("/etc")
        (directory / "big").write_bytes(b"x" * (2**20 + 1))
    return directory


def test_directories_are_listed_and_walked(archive: Archive, workspace: Path) -> None:
    assert paths(archive.ls("left")) == [".hidden", "a.txt", "big", "chart.png", "sub"]
    assert paths(archive.ls("left", "sub")) == ["sub/deep", "sub/up", "sub/y"]
    assert paths(archive.ls("left", "./sub//y")) == ["sub/y"]
    assert paths(archive.walk("left", "sub")) == ["sub/deep", "sub/deep/x", "sub/up", "sub/y"]
    assert paths(archive.walk("left", "sub/y")) == ["sub/y"]


def test_files_come_byte_for_byte(archive: Archive, workspace: Path) -> None:
    assert {name: archive.read_bytes("left", name) for name in FILES} == FILES
    assert archive.read("left", "a.txt", offset=1, limit=1) == "two\n"
    with archive.open_read("left", "chart.png") as stream:
        assert stream.read(4) == PNG[:4]


def test_an_entry_is_described_as_far_as_the_service_tells(archive: Archive, workspace: Path) -> None:
    info = archive.stat("left", "sub/y")
    assert (info.name, info.path, info.is_dir, info.size, info.mode, info.mtime) == ("y", "sub/y", False, 1, 0, 0.0)
    assert archive.stat("left", "sub").is_dir
    assert archive.stat("left", ".").is_dir


ERRORS: list[tuple[str, str, type[Exception]]] = [
    ("left", "missing", PathNotFoundError),
    ("left", "missing/x", PathNotFoundError),
    ("no-such", "a.txt", PathNotFoundError),
    ("left", "a.txt/x", PathNotDirectoryError),
    ("left", "sub", PathIsDirectoryError),
    ("left", "big", ReadLimitError),
    ("left", "/etc/passwd", PathEscapeError),
    ("left", "../x", PathEscapeError),
    ("left", "out/passwd", PathEscapeError),
    ("../left", "a.txt", InvalidArgumentError),
    ("left", "a\0b", InvalidArgumentError),
]


@pytest.mark.parametrize(("session_id", "path", "kind"), ERRORS)
def test_what_cannot_be_read_is_an_error_of_its_kind(
    archive: Archive, workspace: Path, session_id: str, path: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        archive.read_bytes(session_id, path)


def test_a_link_that_leads_outside_is_refused_by_name(archive: Archive, workspace: Path) -> None:
    for look in (archive.stat, archive.ls, archive.walk):
        with pytest.raises(PathEscapeError):
            look("left", "out")


def test_a_fifo_is_refused_at_once(archive: Archive, workspace: Path) -> None:
    os.mkfifo(workspace / "sub/deep/fifo")
    try:
        with pytest.raises(NotRegularFileError):
            archive.read_bytes("left", "sub/deep/fifo")
    finally:
        (workspace / "sub/deep/fifo").unlink()


def test_a_file_over_the_services_own_ceiling_is_a_read_limit(service: Service, workspace: Path) -> None:
    (workspace / "huge").write_bytes(b"\0" * (2**23 + 1))
    try:
        with pytest.raises(ReadLimitError, match="8388608"):
            RemoteWorkspaceArchive(service.url, token=service.token).read_bytes("left", "huge")
    finally:
        (workspace / "huge").unlink()


UNSUPPORTED: dict[str, Callable[[Archive], object]] = {
    "sessions": lambda archive: archive.sessions(),
    "export": lambda archive: archive.export("left"),
    "changes": lambda archive: archive.changes("left", 0),
}


@pytest.mark.parametrize("use", UNSUPPORTED)
def test_what_the_service_does_not_offer_is_said(archive: Archive, workspace: Path, use: str) -> None:
    with pytest.raises(UnsupportedError, match=use):
        UNSUPPORTED[use](archive)


def test_it_travels_without_showing_its_token(service: Service, archive: Archive, workspace: Path) -> None:
    assert service.token not in repr(archive) + repr(vars(archive))
    assert pickle.loads(pickle.dumps(archive)).read_bytes("left", "sub/y") == b"y"


def test_a_wrong_token_is_refused(service: Service, workspace: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="token"):
        RemoteWorkspaceArchive(service.url, token="wrong").ls("left")
