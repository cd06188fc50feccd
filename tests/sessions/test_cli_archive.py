"""``archive``: what is printed and written, and which exit code tells what."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from sandbox_kit.cli import main
from tests.cli.programs import at_terminal

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))

Printed = pytest.CaptureFixture[bytes]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    workspace = made / "one" / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "chart.png").write_bytes(PNG)
    (workspace / "sub" / "notes.txt").write_text("a\n")
    (workspace / ".env").write_text("TOKEN=t0p\n")
    (made / "two" / "workspace").mkdir(parents=True)
    return made


def run(root: Path, command: str, *arguments: str) -> int:
    return main(["archive", command, "--root", str(root), *arguments])


def lines(printed: Printed) -> list[bytes]:
    return printed.readouterr().out.splitlines()


def test_ls_lists_sessions(root: Path, capfdbinary: Printed) -> None:
    assert run(root, "ls") == 0
    assert lines(capfdbinary) == [b"one", b"two"]
    assert run(root, "ls", "--json") == 0
    assert json.loads(capfdbinary.readouterr().out) == {"sessions": ["one", "two"]}


def test_ls_lists_the_files_of_one_under_the_rules(root: Path, capfdbinary: Printed) -> None:
    assert run(root, "ls", "one") == 0
    assert lines(capfdbinary) == [b"chart.png", b"sub/"]
    assert run(root, "ls", "--rules", "none", "--recursive", "one") == 0
    assert lines(capfdbinary) == [b".env", b"chart.png", b"sub/", b"sub/notes.txt"]
    assert run(root, "ls", "--json", "one", "sub") == 0
    document = json.loads(capfdbinary.readouterr().out)
    assert [entry["path"] for entry in document["entries"]] == ["sub/notes.txt"]


@pytest.mark.parametrize(
    ("since", "expected"),
    [("0", [b"chart.png", b"sub/", b"sub/notes.txt"]), ("2026-01-01T00:00", None), ("9999-01-01T00:00Z", [])],
)
def test_ls_since_lists_what_changed(
    root: Path, since: str, expected: list[bytes] | None, capfdbinary: Printed
) -> None:
    assert run(root, "ls", "--since", since, "one") == 0
    assert expected is None or lines(capfdbinary) == expected


def test_ls_since_a_moment_ago(root: Path, capfdbinary: Printed) -> None:
    time.sleep(0.1)
    since = time.time()
    (root / "one/workspace/sub/notes.txt").write_text("b\n")
    assert run(root, "ls", "--since", repr(since), "one") == 0
    assert lines(capfdbinary) == [b"sub/notes.txt"]


def test_get_prints_a_file_as_it_is(root: Path, capfdbinary: Printed) -> None:
    assert run(root, "get", "one", "chart.png") == 0
    assert capfdbinary.readouterr().out == PNG


def test_get_json_is_text(root: Path, capfdbinary: Printed) -> None:
    assert run(root, "get", "--json", "one", "sub/notes.txt") == 0
    assert json.loads(capfdbinary.readouterr().out) == {"path": "sub/notes.txt", "content": "a\n"}


def test_get_writes_a_file(root: Path, tmp_path: Path, capfdbinary: Printed) -> None:
    copy = tmp_path / "copy.png"
    copy.write_text("old")
    assert run(root, "get", "--json", "-o", str(copy), "one", "chart.png") == 0
    assert copy.read_bytes() == PNG
    told = {"output": str(copy), "path": "chart.png", "bytes": len(PNG)}
    assert json.loads(capfdbinary.readouterr().out) == told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.png", "root"]


def test_export_streams_a_tar(root: Path, capfdbinary: Printed) -> None:
    assert run(root, "export", "one", "sub") == 0
    with tarfile.open(fileobj=io.BytesIO(capfdbinary.readouterr().out)) as opened:
        assert opened.getnames() == ["notes.txt"]


def test_export_writes_a_zip_and_tells_what_it_left_out(root: Path, tmp_path: Path, capfdbinary: Printed) -> None:
    os.symlink("/etc/shadow", root / "one/workspace/way")
    output = str(tmp_path / "out.zip")
    assert run(root, "export", "--format", "zip", "--skip", "--json", "-o", output, "one") == 0
    printed = capfdbinary.readouterr()
    assert json.loads(printed.out)["left_out"] == 2
    assert printed.err == b"sandbox-kit: 2 entries were left out\n"
    with zipfile.ZipFile(output) as opened:
        assert opened.namelist() == ["chart.png", "sub/", "sub/notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["export", "one"], 126),
        (["get", "one", ".env"], 126),
        (["get", "one", "../../two"], 126),
        (["get", "one", "/etc/passwd"], 126),
        (["get", "one", "missing"], 125),
        (["get", "one", "sub"], 125),
        (["get", "three", "x"], 125),
        (["ls", "../x"], 2),
        (["ls", "--since", "yesterday", "one"], 2),
        (["ls", "--since", "nan", "one"], 2),
        (["export", "--json", "two"], 2),
        (["export", "--format", "rar", "two"], 2),
    ],
)
def test_a_failure_is_one_line_and_its_exit_code(
    root: Path, arguments: list[str], code: int, capfdbinary: Printed
) -> None:
    assert run(root, *arguments) == code
    printed = capfdbinary.readouterr()
    assert printed.out == b""
    assert printed.err.startswith(b"sandbox-kit: ")
    assert printed.err.count(b"\n") == 1
    assert str(root).encode() not in printed.err


def test_a_failed_export_leaves_no_file_behind(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "two/workspace/pipe")
    (tmp_path / "out.tar").write_text("old")
    assert run(root, "export", "-o", str(tmp_path / "out.tar"), "two") == 125
    assert (tmp_path / "out.tar").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.tar", "root"]


def test_a_link_is_written_through(root: Path, tmp_path: Path) -> None:
    (tmp_path / "real.png").write_text("old")
    (tmp_path / "link.png").symlink_to("real.png")
    assert run(root, "get", "-o", str(tmp_path / "link.png"), "one", "chart.png") == 0
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "real.png").read_bytes() == PNG


@pytest.mark.parametrize("through_a_link", [False, True])
def test_what_is_no_file_is_written_to_and_never_replaced(
    root: Path, tmp_path: Path, through_a_link: bool, capfdbinary: Printed
) -> None:
    fifo = output = tmp_path / "fifo"
    os.mkfifo(fifo)
    if through_a_link:
        output = tmp_path / "link"
        output.symlink_to("fifo")
    with open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        assert run(root, "get", "--json", "-o", str(output), "one", "chart.png") == 0
        assert reader.read() == PNG
    assert json.loads(capfdbinary.readouterr().out)["bytes"] == len(PNG)
    assert fifo.is_fifo()
    assert output.is_symlink() is through_a_link


def test_a_directory_is_no_output(root: Path, tmp_path: Path, capfdbinary: Printed) -> None:
    for output in (tmp_path, tmp_path / "missing" / "x"):
        assert run(root, "get", "-o", str(output), "one", "chart.png") == 125
        assert b".sandbox-kit-" not in capfdbinary.readouterr().err


def test_an_archive_is_not_written_to_a_terminal(root: Path) -> None:
    ended = at_terminal("archive", "export", "--root", str(root), "two")
    assert (ended.code, b"--output" in ended.screen) == (2, True)
