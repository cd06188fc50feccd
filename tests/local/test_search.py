"""Grep over a directory of the host: by ripgrep, by GNU grep, by neither, and under a racing link."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, search
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.types import GrepMatch

BIG = 5 * 2**20


@pytest.fixture(params=["rg", "grep", "neither"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBackend]:
    programs = tmp_path / "bin"
    programs.mkdir()
    if request.param != "neither":
        found = shutil.which(request.param)
        if found is None:
            request.getfixturevalue("needs")(request.param)
        (programs / request.param).symlink_to(str(found))
    monkeypatch.setenv("PATH", str(programs))
    search._program.cache_clear()
    (tmp_path / "root").mkdir()
    yield LocalBackend(tmp_path / "root")
    search._program.cache_clear()


def found(backend: LocalBackend, pattern: str, path: str = ".", **options: object) -> list[tuple[str, int, str]]:
    matches = backend.grep(pattern, path, **options)  # type: ignore[arg-type]
    return sorted((match.path, match.line_number, match.line) for match in matches)


def test_the_chosen_program_is_the_one_on_path(backend: LocalBackend, request: pytest.FixtureRequest) -> None:
    name = Path(search._program()[0]).name if search._program() else "neither"  # type: ignore[index]
    assert name == request.node.callspec.params["backend"]


def test_lines_of_large_files_come_with_their_context(backend: LocalBackend) -> None:
    filler = "x" * 99 + "\n"
    count = BIG // len(filler)
    backend.write("big", filler * count + "before\r\nneedle one\r\nafter\n" + filler * count + "needle two")
    first, second = backend.grep("needle", context=1)
    assert (first.line_number, first.line) == (count + 2, "needle one")
    assert (first.before, first.after) == (("before",), ("after",))
    assert (second.line, second.before, second.after) == ("needle two", ("x" * 99,), ())


def test_a_line_longer_than_the_window_is_found(backend: LocalBackend) -> None:
    backend.write("long", b"a\n" + b"y" * (3 * 2**20) + b"needle" + b"z" * (3 * 2**20) + b"\nb\n")
    (match,) = backend.grep("needle", context=1)
    assert (match.line_number, match.before, match.after) == (2, ("a",), ("b",))
    assert set(match.line) == {"y"}


def test_a_binary_hit_in_a_large_file_is_marked(backend: LocalBackend) -> None:
    backend.write("big.bin", b"text\n" * (BIG // 5) + b"\0" * 100_000 + b"needle\n")
    (match,) = backend.grep("needle")
    assert (match.path, match.line, match.binary) == ("big.bin", "", True)


def test_names_that_could_be_mistaken_for_something_else(backend: LocalBackend) -> None:
    names = ["-rf", "a:12:b", "new\nline", "sub/-x", os.fsdecode(b"\xff.txt"), "tab\tname"]
    for name in names:
        backend.write(name, "needle\n")
    assert found(backend, "needle") == sorted((name, 1, "needle") for name in names)


def test_a_pattern_that_looks_like_an_option_is_a_pattern(backend: LocalBackend) -> None:
    backend.write(".env", "KEY=1\n")
    backend.write("ok", "-f.env\n--help\n-e\n")
    assert found(backend, "-f.env") == [("ok", 1, "-f.env")]
    assert found(backend, "--help", fixed=True) == [("ok", 2, "--help")]
    assert found(backend, "-e") == [("ok", 3, "-e")]


def test_the_start_may_be_a_link_or_a_dot_name(backend: LocalBackend) -> None:
    backend.write(".hidden/f", "needle\n")
    backend._symlink(".hidden", "link", operations=("write",), authorize=lambda *_, **__: True)
    assert found(backend, "needle") == []
    assert found(backend, "needle", ".hidden") == [(".hidden/f", 1, "needle")]
    assert found(backend, "needle", "link") == [("link/f", 1, "needle")]


def test_the_first_match_comes_before_the_last_file_is_read(backend: LocalBackend) -> None:
    for number in range(300):
        backend.write(f"d{number % 7}/{number}", "needle\n" * 5000)
    with backend.grep("needle") as matches:
        assert next(matches).line == "needle"
    assert list(matches) == []


def test_closing_ends_the_program_and_its_descriptors(backend: LocalBackend) -> None:
    backend.write("f", "needle\n" * 100_000)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with backend.grep("needle") as matches:
            next(matches)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_directory_swapped_for_a_link_lets_nothing_out(backend: LocalBackend, tmp_path: Path) -> None:
    """A link to a denied directory of the workspace, and one that leads outside, each swapped in and out."""
    root = tmp_path / "root"
    for directory in (root / "private", tmp_path / "outside"):
        directory.mkdir()
        for number in range(20):
            (directory / f"f{number}").write_text("needle TOPSECRET\n")
    for number in range(20):
        backend.write(f"swap/f{number}", "needle harmless\n")
    guarded = guarding(backend, PermissionRuleset("allow", rules=[PermissionRule("private/**", "deny")]))
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            for target in (root / "private", tmp_path / "outside"):
                os.rename(root / "swap", root / "aside")
                os.symlink(target, root / "swap")
                os.unlink(root / "swap")
                os.rename(root / "aside", root / "swap")

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        lines = {match.line for _ in range(60) for match in guarded.grep("needle")}
    finally:
        stop.set()
        thread.join()
    assert not any("TOPSECRET" in line for line in lines)


def test_a_file_replaced_while_it_is_searched_gives_only_what_it_holds(backend: LocalBackend, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("needle TOPSECRET\n" * 10)
    backend.write("f", "needle harmless\n")
    path = tmp_path / "root" / "f"
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            (tmp_path / "link").symlink_to(secret)
            os.replace(tmp_path / "link", path)
            (tmp_path / "plain").write_text("needle harmless\n")
            os.replace(tmp_path / "plain", path)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        seen: list[GrepMatch] = [match for _ in range(100) for match in backend.grep("needle", hidden=True)]
    finally:
        stop.set()
        thread.join()
    assert not any("TOPSECRET" in match.line for match in seen)


def test_a_tree_without_a_match_has_none(backend: LocalBackend) -> None:
    backend.write("f", "text\n")
    os.mkfifo(Path(backend.work_dir, "pipe"))
    matches = backend.grep("needle")
    assert list(matches) == []
    assert not matches.truncated
