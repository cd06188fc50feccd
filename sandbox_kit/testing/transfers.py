"""upload, download and export: files and trees to and from the host."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    ArchiveError,
    InvalidArgumentError,
    NotRegularFileError,
    PathExistsError,
    PathIsDirectoryError,
    PathNotFoundError,
    UnsupportedError,
)
from sandbox_kit.primitives import allow
from sandbox_kit.testing.base import Conformance, fill, paths, snapshot

__all__ = ["ExportConformance", "TransferConformance"]

CONTENT: dict[str, bytes] = {"empty": b"", "bytes": bytes(range(256)) * 100, "d/text": b"a\r\nb", "d/e/-x y": b"\0"}


def plant(root: Path) -> Path:
    """Make a tree on the host with each of CONTENT, an empty directory and an executable."""
    for name, data in CONTENT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "hollow").mkdir()
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    return root


def gathered(root: Path) -> dict[str, tuple[bool, bytes | None]]:
    """Return what is beneath *root*: whether its owner may execute it, and its bytes."""
    return {
        found.relative_to(root).as_posix(): (
            found.stat().st_mode & 0o100 != 0,
            None if found.is_dir() else found.read_bytes(),
        )
        for found in root.rglob("*")
    }


class TransferConformance(Conformance):
    """What is copied is copied byte for byte, or not at all."""

    def test_a_file_goes_there_and_back(self, backend: Backend, host: Path) -> None:
        (host / "in").write_bytes(CONTENT["bytes"])
        (host / "in").chmod(0o755)
        backend.upload(host / "in", "a/b")
        assert backend.read_bytes("a/b") == CONTENT["bytes"]
        assert backend.stat("a/b").mode == 0o755
        assert backend.download("a/b", str(host / "out")) == 0
        assert (host / "out").read_bytes() == CONTENT["bytes"]
        assert (host / "out").stat().st_mode & 0o777 == 0o755

    def test_a_tree_goes_there_and_back(self, backend: Backend, host: Path) -> None:
        source = plant(host / "in")
        backend.upload(source, "up/tree")
        assert backend.ls("up/tree/hollow") == []
        assert backend.download("up/tree", host / "out") == 0
        assert gathered(host / "out") == gathered(source)

    def test_a_tree_keeps_its_modes_there_and_back(self, backend: Backend, host: Path) -> None:
        modes = {"closed/deep": 0o700, "closed": 0o555, "open/f": 0o640, "open": 0o775, "": 0o750}
        plant(host / "in" / "closed/deep")
        plant(host / "in" / "open")
        (host / "in/open/f").write_text("x")
        for name, mode in modes.items():
            (host / "in" / name).chmod(mode)
        backend.upload(host / "in", "made/tree")
        assert {name: backend.stat(f"made/tree/{name}").mode & 0o777 for name in modes} == modes
        backend.download("made/tree", host / "out")
        assert {name: (host / "out" / name).stat().st_mode & 0o777 for name in modes} == modes
        assert gathered(host / "out") == gathered(host / "in")
        with tarfile.open(fileobj=io.BytesIO(backend.export("made/tree").read())) as archive:
            assert {name: archive.getmember(name).mode for name in modes if name} == {
                name: modes[name] for name in modes if name
            }
        for closed in (host / "in/closed", host / "out/closed"):
            closed.chmod(0o755)

    def test_a_directory_of_the_host_has_the_mode_that_it_was_shown_with(self, backend: Backend, host: Path) -> None:
        fill(backend, {"d/e/f": "x"})
        backend.download("d", host / "out")
        shown = [backend.stat(path).mode & 0o777 for path in ("d", "d/e")]
        assert [path.stat().st_mode & 0o777 for path in (host / "out", host / "out/e")] == shown

    def test_the_work_directory_is_downloaded_whole(self, backend: Backend, host: Path) -> None:
        fill(backend, {"d/f": "x", "-g": "y"})
        for path, name in ((".", "dot"), ("", "blank"), (backend.work_dir, "absolute")):
            backend.download(path, host / name)
            assert gathered(host / name) == {"d": (True, None), "d/f": (False, b"x"), "-g": (False, b"y")}

    def test_a_file_replaces_a_file(self, backend: Backend, host: Path) -> None:
        (host / "f").write_bytes(b"new")
        backend.write("f", "old and longer")
        backend.upload(host / "f", "f")
        assert backend.read("f") == "new"
        backend.write("f", "newer")
        backend.download("f", host / "f")
        assert (host / "f").read_bytes() == b"newer"

    def test_a_tree_replaces_nothing(self, backend: Backend, host: Path) -> None:
        source = plant(host / "in")
        fill(backend, {"f": "kept", "d/f": "kept"})
        before = snapshot(backend)
        for path in ("f", "d", "."):
            with pytest.raises(PathExistsError):
                backend.upload(source, path)
        assert snapshot(backend) == before
        for occupied in (source, source / "run.sh"):
            with pytest.raises(PathExistsError):
                backend.download("d", occupied)
        assert gathered(source)["run.sh"] == (True, b"#!/bin/sh\n")

    def test_a_file_never_replaces_a_directory(self, backend: Backend, host: Path) -> None:
        (host / "f").write_bytes(b"x")
        fill(backend, {"f": "x", "d/f": "kept"})
        with pytest.raises(PathIsDirectoryError):
            backend.upload(host / "f", "d")
        with pytest.raises(PathExistsError):
            backend.download("f", host)

    def test_copying_what_is_missing_raises(self, backend: Backend, host: Path) -> None:
        backend.write("f", "x")
        with pytest.raises(PathNotFoundError):
            backend.upload(host / "missing", "x")
        with pytest.raises(PathNotFoundError):
            backend.download("missing", host / "x")
        with pytest.raises(PathNotFoundError):
            backend.download("f", host / "missing" / "x")
        with pytest.raises(PathNotFoundError):
            backend.export("missing")
        assert list(host.iterdir()) == []
        assert paths(backend.ls()) == ["f"]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the host has no FIFOs")
    def test_a_special_file_is_refused_and_nothing_is_copied(self, backend: Backend, host: Path) -> None:
        source = plant(host / "in")
        os.mkfifo(source / "d" / "pipe")
        with pytest.raises(ArchiveError):
            backend.upload(source, "tree")
        with pytest.raises(NotRegularFileError):
            backend.upload(source / "d" / "pipe", "pipe")
        assert snapshot(backend) == {}

    @pytest.mark.parametrize("target", ["/etc/passwd", "..", "../outside", "d/../../outside", "d/up/../outside"])
    def test_a_link_that_leads_outside_is_refused(self, backend: Backend, host: Path, target: str) -> None:
        source = plant(host / "in")
        (source / "d" / "up").symlink_to("..")
        (source / "link").symlink_to(target)
        with pytest.raises(ArchiveError):
            backend.upload(source, "tree")
        assert snapshot(backend) == {}

    def test_links_inside_a_tree_stay_links(self, backend: Backend, host: Path) -> None:
        source = plant(host / "in")
        (source / "link").symlink_to("d/text")
        (source / "d" / "dangling").symlink_to("../nowhere")
        if not backend.capabilities.symlinks:
            with pytest.raises(UnsupportedError):
                backend.upload(source, "tree")
            assert snapshot(backend) == {}
            return
        backend.upload(source, "tree")
        assert backend.read_bytes("tree/link") == b"a\r\nb"
        backend.download("tree", host / "out")
        assert (host / "out" / "link").readlink() == Path("d/text")
        assert (host / "out" / "d" / "dangling").readlink() == Path("../nowhere")

    def test_links_out_of_a_tree_are_refused_on_the_way_back(self, backend: Backend, host: Path) -> None:
        if not backend.capabilities.symlinks:
            with pytest.raises(UnsupportedError):
                backend._symlink("x", "link", operations=("write",), authorize=allow)
            return
        fill(backend, {"tree/f": "x", "outside": "x"})
        backend._symlink("../outside", "tree/link", operations=("write",), authorize=allow)
        with pytest.raises(ArchiveError):
            backend.download("tree", host / "out")
        with pytest.raises(ArchiveError):
            backend.export("tree")
        assert list(host.iterdir()) == []


class ExportConformance(Conformance):
    """An archive is a stream that any tar reads."""

    def test_a_tree_is_exported_with_names_relative_to_it(self, backend: Backend, host: Path) -> None:
        backend.upload(plant(host / "in"), "up/tree")
        with backend.export("up/tree") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            members = {member.name: (member.mode & 0o111 != 0, self.content(archive, member)) for member in archive}
            assert stream.denied == 0
        assert members == {
            "bytes": (False, CONTENT["bytes"]),
            "d": (True, None),
            "d/e": (True, None),
            "d/e/-x y": (False, b"\0"),
            "d/text": (False, b"a\r\nb"),
            "empty": (False, b""),
            "hollow": (True, None),
            "run.sh": (True, b"#!/bin/sh\n"),
        }

    def content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
        stream = archive.extractfile(member) if member.isreg() else None
        return None if stream is None else stream.read()

    def test_a_zip_holds_what_a_tar_does(self, backend: Backend, host: Path) -> None:
        backend.upload(plant(host / "in"), "up/tree")
        with zipfile.ZipFile(io.BytesIO(backend.export("up/tree", format="zip").read())) as archive:
            assert archive.testzip() is None
            files = {info.filename: archive.read(info) for info in archive.infolist() if not info.is_dir()}
            assert {info.filename for info in archive.infolist() if info.is_dir()} == {"d/", "d/e/", "hollow/"}
            assert archive.getinfo("run.sh").external_attr >> 16 & 0o111
        assert files == {**CONTENT, "run.sh": b"#!/bin/sh\n"}

    def test_a_file_is_exported_by_its_name(self, backend: Backend) -> None:
        backend.write("d/f.txt", "x")
        with tarfile.open(fileobj=io.BytesIO(backend.export("d/f.txt").read())) as archive:
            assert archive.getnames() == ["f.txt"]

    def test_awkward_names_are_exported(self, backend: Backend) -> None:
        names = ["x" * 200, "-rf", "a\nb", "日本", *(["caf\udce9"] if self.undecodable_names else [])]
        fill(backend, dict.fromkeys(names, "x"))
        with tarfile.open(fileobj=io.BytesIO(backend.export().read()), errors="surrogateescape") as archive:
            assert sorted(archive.getnames()) == sorted(names)

    def test_an_export_is_read_in_pieces_and_may_be_dropped(self, backend: Backend) -> None:
        backend.write("f", bytes(self.max_read_bytes * 2))
        stream = backend.export()
        assert len(stream.read(100)) == 100
        stream.close()
        assert stream.closed

    @pytest.mark.parametrize("arguments", [{"format": "rar"}, {"format": None}, {"denied": "ask"}, {"denied": None}])
    def test_a_bad_argument_of_a_copy_is_refused(self, backend: Backend, host: Path, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError):
            backend.export(**arguments)
        if "denied" in arguments:
            with pytest.raises(InvalidArgumentError):
                backend.download(".", host / "x", **arguments)
