"""Files and trees between a backend and the host, beside what the conformance suite covers."""

from __future__ import annotations

import errno
import io
import os
import pickle
import random
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.backends.state import StateBackend
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    ArchiveError,
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathExistsError,
    PathNotDirectoryError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxConflictError,
    UnsupportedError,
)
from sandbox_kit.paths import normalise
from sandbox_kit.primitives import Authorize, Entry, Operations
from sandbox_kit.streams import CHUNK
from sandbox_kit.testing.host import ordinary_user
from sandbox_kit.types import FileInfo, Skipped

FILES: dict[str, str | bytes] = {"t/a": "1", "t/d/secret": "2", "t/d/e/b": "3", "t/z": b"\0\xff"}


class Filtered(StateBackend):
    """A backend whose walk changes what it meets.

    Args:
        replaced: by path what the walk yields instead of an entry.
    """

    def __init__(self, replaced: Mapping[str, Entry]) -> None:
        super().__init__(FILES, work_dir="/w")
        self._replaced = replaced

    def _scandir(self, path: str, *, operations: Operations, authorize: Authorize, depth: int | None = 1) -> Any:
        entries = super()._scandir(path, operations=operations, authorize=authorize, depth=depth)
        return (self._replaced.get(entry.path, entry) if isinstance(entry, FileInfo) else entry for entry in entries)


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return opened.getnames()


class TestWhatARuleHides:
    def test_it_refuses_the_tree(self, tmp_path: Path) -> None:
        backend = Filtered({"t/d/secret": None})
        for call in (lambda: backend.download("t", tmp_path / "x"), lambda: backend.export("t")):
            with pytest.raises(PermissionDeniedError, match="skip") as caught:
                call()
            for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
                assert (error.errno, error.filename, error.strerror) == (errno.EACCES, "t", str(error))
        assert list(tmp_path.iterdir()) == []

    def test_it_is_left_out_and_counted_on_request(self, tmp_path: Path) -> None:
        backend = Filtered({"t/d/secret": None})
        assert backend.download("t", tmp_path / "x", denied="skip") == 1
        assert sorted(path.name for path in (tmp_path / "x").rglob("*")) == ["a", "b", "d", "e", "z"]
        with backend.export("t", denied="skip") as stream:
            assert stream.denied == 1
            assert names(stream.read()) == ["a", "d", "z", "d/e", "d/e/b"]

    def test_hidden_directories_on_the_way_are_made(self, tmp_path: Path) -> None:
        backend = Filtered({"t/d": None, "t/d/e": None})
        assert backend.download("t", tmp_path / "x", denied="skip") == 2
        assert (tmp_path / "x/d/e/b").read_text() == "3"
        assert names(backend.export("t", denied="skip").read()) == ["a", "z", "d", "d/secret", "d/e", "d/e/b"]


class TestWhatNoCopyHolds:
    """A link that leads outside, a FIFO, and a file that nobody may open by now."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> LocalBackend:
        root = tmp_path / "root"
        (root / "t" / "d").mkdir(parents=True)
        (root / "secret").write_text("TOPSECRET")
        (root / "t" / "f").write_text("x")
        (root / "t" / "d" / "way").symlink_to("../../secret")
        (root / "t" / "through").symlink_to("d/way")
        (root / "t" / "kept").symlink_to("f")
        os.mkfifo(root / "t" / "pipe")
        return LocalBackend(root)

    def test_it_refuses_the_tree(self, backend: LocalBackend, tmp_path: Path) -> None:
        for call in (lambda: backend.download("t", tmp_path / "x"), lambda: backend.export("t")):
            with pytest.raises(ArchiveError, match="outside"):
                call()

    def test_it_is_left_out_and_counted_on_request(self, backend: LocalBackend, tmp_path: Path) -> None:
        assert backend.download("t", tmp_path / "x", denied="skip") == 3
        assert sorted(path.name for path in (tmp_path / "x").rglob("*")) == ["d", "f", "kept"]
        for format in ("tar", "zip"):
            with backend.export("t", format=format, denied="skip") as stream:
                data = stream.read()
                assert stream.denied == 3
            assert b"TOPSECRET" not in data
            assert names(data) == ["d", "f", "kept"] if format == "tar" else data.startswith(b"PK")

    def test_a_file_that_went_meanwhile_is_left_out(self) -> None:
        backend = StateBackend(FILES)
        stream = backend.export("t", denied="skip")
        backend.remove("t/d/secret")
        assert names(stream.read()) == ["a", "d", "z", "d/e", "d/e/b"]
        assert stream.denied == 1

    def test_a_file_that_was_named_is_never_left_out(self, backend: LocalBackend, tmp_path: Path) -> None:
        with pytest.raises(ArchiveError, match="special"):
            backend.export("t/pipe", denied="skip").read()
        with pytest.raises(NotRegularFileError):
            backend.download("t/pipe", tmp_path / "x", denied="skip")


class TestWhatCannotBeLookedAt:
    def test_it_refuses_the_tree(self, tmp_path: Path) -> None:
        backend = Filtered({"t/d": Skipped("t/d", "closed")})
        for call in (lambda: backend.download("t", tmp_path / "x"), lambda: backend.export("t")):
            with pytest.raises(PathAccessError, match="closed"):
                call()
        assert list(tmp_path.iterdir()) == []

    def test_it_is_left_out_and_counted_on_request(self, tmp_path: Path) -> None:
        backend = Filtered({"t/z": Skipped("t/z", "closed")})
        assert backend.download("t", tmp_path / "x", denied="skip") == 1
        assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["a", "d"]
        assert backend.export("t", denied="skip").denied == 1


class TestHostErrors:
    @pytest.mark.parametrize("local", ["a\0b", b"a", None, 1])
    def test_what_is_no_host_path_is_refused(self, tmp_path: Path, local: Any) -> None:
        backend = StateBackend(FILES)
        with pytest.raises(InvalidArgumentError, match="local"):
            backend.upload(local, "x")
        with pytest.raises(InvalidArgumentError, match="local"):
            backend.download("t", local)

    def test_they_are_path_errors(self, tmp_path: Path) -> None:
        backend = StateBackend(FILES)
        (tmp_path / "f").write_text("x")
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(PathNotDirectoryError):
            backend.upload(tmp_path / "f" / "x", "x")
        with pytest.raises(PathError):
            backend.upload(tmp_path / "loop", "x")
        with pytest.raises(PathError):
            backend.upload(tmp_path / ("x" * 300), "x")
        with pytest.raises(PathNotFoundError):
            backend.download("t/a", tmp_path / "f" / "x")

    def test_a_directory_that_is_closed_is_an_access_error(self, tmp_path: Path) -> None:
        (tmp_path / "closed").mkdir(mode=0)
        with ordinary_user():
            for path in ("t", "t/a"):
                with pytest.raises(PathAccessError):
                    StateBackend(FILES).download(path, tmp_path / "closed" / "x")
            with pytest.raises(PathAccessError):
                StateBackend().upload(tmp_path / "closed" / "x", "x")

    def test_a_host_that_refuses_is_an_access_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = StateBackend(FILES)
        (tmp_path / "f").write_text("x")

        def refuse(*arguments: object, **options: object) -> None:
            raise PermissionError(13, "Permission denied", "f")

        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(PathAccessError):
            backend.upload(tmp_path / "f", "x")
        with pytest.raises(PathAccessError):
            backend.download("t/a", tmp_path / "copy")
        assert not backend.exists("x")
        assert [path.name for path in tmp_path.iterdir()] == ["f"]


class TestUpload:
    def test_a_tree_that_fails_midway_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = StateBackend()
        for name in ("a", "b", "c"):
            (tmp_path / name).write_text(name)
        opened = Path.open

        def fail_at_b(path: Path, *arguments: Any, **options: Any) -> Any:
            if path.name == "b":
                raise OSError(5, "the disk broke", str(path))
            return opened(path, *arguments, **options)

        monkeypatch.setattr(Path, "open", fail_at_b)
        with pytest.raises(PathError, match="the disk broke"):
            backend.upload(tmp_path, "up/tree")
        assert not backend.exists("up/tree")

    @pytest.mark.parametrize("failing", ["a", "b"])
    def test_what_another_made_meanwhile_stays(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        backend = StateBackend()
        for name in ("a", "b", "c"):
            (tmp_path / "t" / name).mkdir(parents=True)
            (tmp_path / "t" / name / "f").write_text(name)
        make = backend._mkdir

        def make_late(path: str, **options: Any) -> None:
            make(path, **options)
            if path == f"up/{failing}":
                backend.write(f"{path}/f", "another's")
                backend.write("up/c/f", "another's")

        monkeypatch.setattr(backend, "_mkdir", make_late)
        with pytest.raises((PathExistsError, SandboxConflictError)):
            backend.upload(tmp_path / "t", "up")
        assert sorted(match.path for match in backend.grep("another")) == sorted({f"up/{failing}/f", "up/c/f"})
        assert not backend.exists("up/a" if failing == "b" else "up/b")

    def test_beneath_a_file_there_is_no_room_for_a_tree(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text("x")
        backend = StateBackend({"f": "kept"})
        with pytest.raises(PathNotDirectoryError):
            backend.upload(tmp_path, "f/tree")
        assert backend.read("f") == "kept"

    @pytest.mark.parametrize("failing", ["t", "t/d", "t/d/e"])
    def test_a_directory_that_cannot_have_its_mode_fails_the_upload(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
    ) -> None:
        (tmp_path / "t/d/e").mkdir(parents=True)
        for closed in ("t/d/e", "t/d", "t"):
            (tmp_path / closed).chmod(0o555)
        backend = StateBackend()
        make = backend._mkdir

        def make_open_only(path: str, **options: Any) -> None:
            if path == failing and options["mode"] == 0o555:
                raise PathAccessError(path)
            make(path, **options)

        monkeypatch.setattr(backend, "_mkdir", make_open_only)
        with pytest.raises(PathAccessError):
            backend.upload(tmp_path / "t", "t")
        assert not backend.exists("t")
        for closed in ("t", "t/d"):
            (tmp_path / closed).chmod(0o755)

    def test_links_need_a_file_system_that_has_them(self, tmp_path: Path) -> None:
        backend = StateBackend()
        (tmp_path / "link").symlink_to("target")
        with pytest.raises(UnsupportedError, match="links"):
            backend.upload(tmp_path, "x")
        assert backend.ls() == []


class TestDownload:
    def test_the_modes_of_directories_are_kept(self, tmp_path: Path) -> None:
        backend = StateBackend.from_dict(
            {
                "format": "sandbox_kit.state/1",
                "entries": [{"path": "/t/closed", "mode": 0o500}, {"path": "/t/closed/f", "content": "x"}],
            }
        )
        backend.download("t", tmp_path / "x")
        assert (tmp_path / "x/closed").stat().st_mode & 0o777 == 0o500
        assert (tmp_path / "x/closed/f").read_text() == "x"
        (tmp_path / "x/closed").chmod(0o700)

    @pytest.mark.parametrize("mode", [0o700, 0o500, 0o750, 0o755])
    def test_the_tree_itself_has_its_mode(self, mode: int) -> None:
        backend = StateBackend.from_dict(
            {
                "format": "sandbox_kit.state/1",
                "entries": [{"path": "/t", "mode": mode}, {"path": "/t/f", "content": "x"}],
            }
        )
        with ordinary_user(), tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, "x")
            backend.download("t", copy)
            assert copy.stat().st_mode & 0o777 == mode
            assert (copy / "f").read_text() == "x"
            copy.chmod(0o700)

    def test_a_tree_in_the_making_is_closed_to_others(self, tmp_path: Path) -> None:
        modes: list[int] = []

        class Watched(StateBackend):
            def _open_read(self, path: str, **options: Any) -> Any:
                modes.extend(found.stat().st_mode & 0o077 for found in tmp_path.rglob("copy"))
                return super()._open_read(path, **options)

        Watched(FILES).download("t", tmp_path / "x")
        assert set(modes) == {0}

    def test_a_link_on_the_host_is_replaced_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "victim").write_text("kept")
        (tmp_path / "link").symlink_to("victim")
        StateBackend(FILES).download("t/a", tmp_path / "link")
        assert (tmp_path / "victim").read_text() == "kept"
        assert (tmp_path / "link").read_text() == "1"

    def test_a_link_to_nothing_on_the_host_is_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("missing")
        StateBackend(FILES).download("t/a", tmp_path / "link")
        assert [path.name for path in tmp_path.iterdir() if path.is_file() and not path.is_symlink()] == ["link"]

    @pytest.mark.parametrize("path", ["t/a", "t"])
    @pytest.mark.parametrize("kind", ["fifo", "directory", "link to a fifo", "link to a device", "link to a directory"])
    def test_what_is_no_file_on_the_host_stays(self, tmp_path: Path, kind: str, path: str) -> None:
        place = tmp_path / "place"
        target = tmp_path / "target" if kind.startswith("link") else place
        if kind.endswith("fifo"):
            os.mkfifo(target)
        elif kind.endswith("directory"):
            target.mkdir()
        else:
            target = Path("/dev/null")
        if target != place:
            place.symlink_to(target)
        before = place.lstat()
        with pytest.raises(PathExistsError):
            StateBackend(FILES).download(path, place)
        assert os.path.samestat(place.lstat(), before)

    @pytest.mark.skipif("not os.path.exists('/dev/null')", reason="needs a device")
    def test_a_device_of_the_host_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*names: object) -> None:
            raise AssertionError(names)

        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(PathExistsError):
            StateBackend(FILES).download("t/a", "/dev/null")

    def test_a_real_name_is_asked_for_beneath_the_work_directory(self, tmp_path: Path) -> None:
        asked: list[str] = []

        class Watched(LocalBackend):
            def _stat(self, path: str, **options: Any) -> FileInfo:
                asked.append(path)
                return super()._stat(path, **options)

        backend = Watched(tmp_path / "root")
        (tmp_path / "root/d").mkdir(parents=True)
        (tmp_path / "root/d/f").write_text("x")
        (tmp_path / "root/link").symlink_to("d/f")
        backend.download("link", tmp_path / "copy")
        backend.download(f"{backend.work_dir}/link", tmp_path / "copy")
        backend.download("d", tmp_path / "tree")
        backend.export("link").read()
        assert asked == ["d/f", "d/f", "d", "d/f"]

    def test_a_member_that_is_no_regular_file_refuses_the_tree(self, tmp_path: Path) -> None:
        class Special(StateBackend):
            def _open_read(self, path: str, **options: Any) -> Any:
                raise NotRegularFileError(path)

        backend = Special(FILES)
        with pytest.raises(ArchiveError, match="special file"):
            backend.download("t", tmp_path / "x")
        with pytest.raises(ArchiveError, match="special file"):
            backend.export("t").read()
        with pytest.raises(NotRegularFileError):
            backend.download("t/a", tmp_path / "x")
        assert list(tmp_path.iterdir()) == []


class TestExport:
    def test_the_archive_is_what_tarfile_makes(self) -> None:
        backend = StateBackend(FILES)
        with tarfile.open(fileobj=io.BytesIO(backend.export("t").read())) as archive:
            found = {
                member.name: (member.isdir(), member.size, member.mode, round(member.mtime, 3)) for member in archive
            }
        assert found == {
            entry.path.removeprefix("t/"): (entry.is_dir, entry.size, entry.mode, round(entry.mtime, 3))
            for entry in backend.glob("**", "t")
        }

    @pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 10240, CHUNK + 1])
    def test_the_length_is_whole_records(self, size: int) -> None:
        backend = StateBackend({"f": random.Random(size).randbytes(size)})
        data = backend.export().read()
        assert len(data) % tarfile.RECORDSIZE == 0
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            member = archive.extractfile("f")
            assert member is not None
            assert member.read() == backend.read_bytes("f")

    def test_nothing_at_all_is_an_archive_too(self) -> None:
        assert names(StateBackend().export().read()) == []

    def test_a_file_that_shrinks_is_told(self) -> None:
        backend = StateBackend({"f": "long enough"})
        stream = backend.export()
        backend.write("f", "short")
        with pytest.raises(ArchiveError, match="shorter"):
            stream.read()

    def test_a_file_that_grows_is_cut_where_it_was(self) -> None:
        backend = StateBackend({"f": "short"})
        stream = backend.export()
        backend.write("f", "longer than it was")
        with tarfile.open(fileobj=io.BytesIO(stream.read())) as archive:
            assert archive.getmember("f").size == 5

    def test_reading_in_any_pieces_gives_the_same(self) -> None:
        backend = StateBackend(FILES)
        whole = backend.export().read()
        for size in (1, 7, 512, 100_000):
            with backend.export() as stream:
                pieces = []
                while piece := stream.read(size):
                    pieces.append(piece)
            assert b"".join(pieces) == whole


def leads_outside(name: str, links: Mapping[str, str], root: Path) -> bool:
    """Make the links in a directory and ask the file system where *name* leads; a loop leads nowhere."""
    for link, target in links.items():
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(target)
    try:
        os.stat(root / name)
    except OSError as error:
        if error.errno == 40:
            return True
    real = os.path.realpath(root / name)
    return normalise(real) != str(root) and not real.startswith(f"{root}/")


targets = st.lists(st.sampled_from(["..", ".", "d", "e", "l0", "l1", "l2"]), min_size=1, max_size=4).map("/".join)
places = st.sampled_from(["l0", "d/l1", "d/e/l2"])


class TestLinksThatLeadOutside:
    @given(st.dictionaries(places, targets, min_size=1, max_size=3))
    def test_every_link_that_the_file_system_takes_outside_is_refused(
        self, tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]
    ) -> None:
        root = Path(os.path.realpath(tmp_path_factory.mktemp("tree")))
        (root / "d/e").mkdir(parents=True)
        outside = [leads_outside(name, links if number == 0 else {}, root) for number, name in enumerate(links)]
        backend: Backend = StateBackend()
        expected = ArchiveError if any(outside) else (ArchiveError, UnsupportedError)
        with pytest.raises(expected):
            backend.upload(root, "x")
        assert backend.ls() == []
