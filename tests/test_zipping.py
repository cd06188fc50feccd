"""The zip stream: whatever it holds, readers find the same in it."""

from __future__ import annotations

import gc
import io
import os
import stat
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_kit.backends.local import LocalBackend
from sandbox_kit.errors import ArchiveError
from sandbox_kit.zipping import ZipStream

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
NOON = 1_700_000_000.0


def zipped(files: dict[str, bytes], pieces: int = 7, mtime: float = NOON) -> bytes:
    """A zip of *files*, each given in as many *pieces*."""
    archive = ZipStream()
    chunks = [
        chunk
        for name, content in files.items()
        for chunk in archive.file(name, 0o640, mtime, len(content), split(content, pieces))
    ]
    return b"".join([*chunks, archive.end()])


def split(content: bytes, pieces: int) -> Iterator[bytes]:
    size = len(content) // pieces + 1
    return (content[at : at + size] for at in range(0, len(content), size))


def opened(data: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(data))


@given(st.dictionaries(NAMES, st.binary(max_size=200), max_size=5), st.integers(1, 9))
def test_what_goes_in_comes_out(files: dict[str, bytes], pieces: int) -> None:
    archive = opened(zipped(files, pieces))
    assert archive.testzip() is None
    assert {info.orig_filename: archive.read(info) for info in archive.infolist()} == files


def test_nothing_at_all_is_a_zip_too() -> None:
    assert opened(zipped({})).namelist() == []


def test_kinds_and_modes_are_told() -> None:
    archive = ZipStream()
    data = [archive.directory("d", 0o750, NOON), archive.link("d/l", "../caf\udce9", NOON)]
    data += [*archive.file("d/f", 0o755, NOON, 1, [b"x"]), archive.end()]
    found = opened(b"".join(data))
    assert [(info.filename, oct(info.external_attr >> 16)) for info in found.infolist()] == [
        ("d/", oct(stat.S_IFDIR | 0o750)),
        ("d/l", oct(stat.S_IFLNK | 0o777)),
        ("d/f", oct(stat.S_IFREG | 0o755)),
    ]
    assert found.getinfo("d/").is_dir()
    assert found.read("d/l") == b"../caf\xe9"


@pytest.mark.parametrize(
    ("name", "raw", "flag"),
    [("plain", b"plain", 0), ("caf\xe9", "caf\xe9".encode(), 0x800), ("caf\udce9", b"caf\xe9", 0)],
    ids=["ascii", "utf-8", "other"],
)
def test_names_are_the_bytes_that_they_were(name: str, raw: bytes, flag: int) -> None:
    data = zipped({name: b"x"})
    (info,) = opened(data).infolist()
    assert info.flag_bits & 0x800 == flag
    assert data.count(raw) == 2


def test_a_name_too_long_for_a_zip_is_refused() -> None:
    with pytest.raises(ArchiveError, match="70000 bytes"):
        zipped({"x" * 70_000: b""})


@pytest.mark.parametrize(
    ("mtime", "year"),
    [(NOON, 2023), (0.0, 1980), (-1e12, 1980), (1e12, 2107), (4_354_819_200.0, 2107), (2.0**31, 2038)],
)
def test_times_that_a_zip_cannot_tell_are_the_nearest_that_it_can(mtime: float, year: int) -> None:
    (info,) = opened(zipped({"f": b"x"}, mtime=mtime)).infolist()
    assert info.date_time[0] == year


def test_a_time_is_local_and_exact_beside_it() -> None:
    (info,) = opened(zipped({"f": b"x"}, mtime=NOON + 0.5)).infolist()
    local = time.localtime(NOON)
    assert info.date_time == (*local[:5], local[5] // 2 * 2)
    assert info.extra == b"UT\x05\x00\x01" + int(NOON).to_bytes(4, "little")


def test_many_members_need_the_wide_directory() -> None:
    names = [f"{number}" for number in range(70_000)]
    archive = ZipStream()
    data = b"".join([*(archive.directory(name, 0o755, NOON) for name in names), archive.end()])
    assert opened(data).namelist() == [f"{name}/" for name in names]


def test_large_sizes_and_offsets_take_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits lie at a few bytes here: what readers then find is what they find at 4 GiB."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1)
    files = {"a": b"first" * 9, "b": b"second"}
    archive = opened(zipped(files))
    assert {name: archive.read(name) for name in archive.namelist()} == files
    assert {info.extract_version for info in archive.infolist()} == {45}


@pytest.mark.parametrize("closed", [False, True])
def test_one_that_is_left_halfway_says_nothing(closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    archive = ZipStream()
    pieces = archive.file("f", 0o644, NOON, 2, [b"x", b"y"])
    next(pieces)
    if closed:
        pieces.close()
    cycle: list[object] = [archive, pieces]
    cycle.append(cycle)  # its parts are dropped in any order
    del archive, pieces, cycle
    gc.collect()
    assert said == []


@pytest.mark.needs("unzip")
def test_unzip_makes_the_same_tree(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    (source / "d" / "caf\xe9").write_bytes(os.urandom(3000))
    (source / os.fsdecode(b"caf\xe9")).write_bytes(b"latin")
    (source / "run").write_text("x")
    (source / "run").chmod(0o750)
    (source / "way").symlink_to("d")
    (source / "old").touch()
    os.utime(source / "old", (1, 1_000_000_000))
    (tmp_path / "tree.zip").write_bytes(LocalBackend(source).export(format="zip").read())
    subprocess.run(["unzip", "-q", "tree.zip", "-d", "copy"], cwd=tmp_path, check=True, timeout=30)
    assert described(tmp_path / "copy") == described(source)
    assert (tmp_path / "copy" / "old").stat().st_mtime == 1_000_000_000


def described(top: Path) -> dict[bytes, object]:
    found: dict[bytes, object] = {}
    for path in top.rglob("*"):
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[os.fsencode(path.relative_to(top))] = (content, path.lstat().st_mode)
    return found


def test_memory_does_not_grow_with_the_content() -> None:
    chunk = os.urandom(2**18)
    archive = ZipStream()
    tracemalloc.start()
    try:
        total = sum(map(len, archive.file("f", 0o644, NOON, 64 * 2**18, (chunk for _ in range(64)))))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total > 64 * 2**18
    assert peak < 2**21
