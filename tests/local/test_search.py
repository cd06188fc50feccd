"""Grep over a directory of the host: by ripgrep, by GNU grep, by neither, and under a racing link."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalBackend, search
from sandbox_kit.backends.local.proof import opened
from sandbox_kit.errors import RemoteProtocolError, SandboxTimeoutError
from sandbox_kit.guard import guarding
from sandbox_kit.host import pin
from sandbox_kit.host.system import Descriptor
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.search import scan
from sandbox_kit.testing.host import give_away, ordinary_user
from sandbox_kit.types import GrepMatch

from .descriptors import opened_beneath

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
    program = search._program(backend.work_dir)
    name = "neither" if program is None else program[1]
    assert name == request.node.callspec.params["backend"]


@pytest.mark.parametrize("way", ["absolute", "relative", "empty", "link", "climbing"])
def test_a_program_out_of_the_workspace_is_not_run(
    tmp_path: Path, way: str, needs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("gnu-grep")
    planted = tmp_path / "root/bin/grep"
    planted.parent.mkdir(parents=True)
    planted.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec {shutil.which("grep")} "$@"\n')
    planted.chmod(0o755)
    (tmp_path / "links").mkdir()
    (tmp_path / "links/grep").symlink_to(planted)
    places = {
        "absolute": str(planted.parent),
        "relative": "bin",
        "empty": "",
        "link": str(tmp_path / "links"),
        "climbing": f"{tmp_path}/links/../root/bin",
    }
    monkeypatch.chdir(planted.parent if way == "empty" else tmp_path / "root")
    monkeypatch.setenv("PATH", os.pathsep.join([places[way], os.defpath]))
    search._program.cache_clear()
    backend = LocalBackend(tmp_path / "root")
    backend.write("f", "needle\n")
    assert found(backend, "needle", glob="f") == [("f", 1, "needle")]
    monkeypatch.setenv("PATH", places[way])
    search._program.cache_clear()
    assert found(backend, "needle", glob="f") == [("f", 1, "needle")]
    search._program.cache_clear()
    assert not (tmp_path / "ran").exists()


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


def test_closing_ends_the_program_and_its_descriptors(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = search._start

    def noted(argv: Sequence[str], directory: int, pipe: int) -> subprocess.Popen[bytes]:
        started.append(start(argv, directory, pipe))
        return started[-1]

    monkeypatch.setattr(search, "_start", noted)
    backend.write("f", "needle\n" * 100_000)
    before = opened_beneath(backend.work_dir)
    for _ in range(3):
        with backend.grep("needle") as matches:
            next(matches)
    assert opened_beneath(backend.work_dir) == before == [backend.work_dir]
    assert len(started) == (3 if search._program("/nowhere") else 0)
    for process in started:
        assert process.returncode is not None
        assert process.stdout is not None
        assert process.stdout.closed


def test_a_link_in_the_place_of_a_file_that_was_found_is_left_out(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.write("d/real", "needle\n")
    (tmp_path / "link").symlink_to("d/real")
    (tmp_path / "way").symlink_to("d")
    root = backend._root
    tree = search.Tree(root, Descriptor(os.dup(root.fd)), root.name, root.name)
    assert opened(tree, "d/real") is not None
    assert [opened(tree, name) for name in ("link", "way/real", "d", "missing", "d/real/x")] == [None] * 5


class TestWithoutOpenat2:
    """Where the kernel has no openat2, or a filter refuses it, the hits are the same."""

    @pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
    def test_hits_are_borne_out_by_a_walk(
        self, backend: LocalBackend, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*arguments: object) -> int:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(pin, "open_beneath", refused)
        backend.write("d/e/f", "needle\n")
        os.symlink("e", os.path.join(backend.work_dir, "d/link"))
        assert found(backend, "needle") == [("d/e/f", 1, "needle")]
        assert found(backend, "needle", "d/link") == [("d/link/f", 1, "needle")]


def closed(backend: LocalBackend) -> None:
    """Add a file that an ordinary user cannot read."""
    backend.write("closed", "needle\n")
    Path(backend.work_dir, "closed").chmod(0)
    give_away(Path(backend.work_dir))


@pytest.mark.parametrize("kind", ["rg", "grep"])
def test_a_file_that_the_program_cannot_read_is_told(
    tmp_path: Path, kind: str, needs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(kind)
    monkeypatch.setattr(search, "_program", lambda root: (shutil.which(kind), kind))
    monkeypatch.setattr(search, "Scanner", None)
    (tmp_path / "root").mkdir()
    backend = LocalBackend(tmp_path / "root")
    for content in ("needle\n", "nothing\n"):
        backend.write("d/f", content)
        closed(backend)
        with ordinary_user():
            matches = backend.grep("needle")
            assert [match.path for match in matches] == (["d/f"] if content == "needle\n" else [])
            assert [skipped.path for skipped in matches.skipped] == ["closed"]


class TestAProgramThatFails:
    """What a program could not do is not taken for nothing found."""

    def backend(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> LocalBackend:
        """A backend that finds a program which passes the trial by grep and then does as *script* says."""
        programs = tmp_path / "bin"
        programs.mkdir()
        real = shutil.which("grep")
        (programs / "grep").write_text(f'#!/bin/sh\nif [ -e .f ]; then exec {real} "$@"; fi\n{script}\n')
        (programs / "grep").chmod(0o755)
        monkeypatch.setenv("PATH", str(programs))
        search._program.cache_clear()
        (tmp_path / "root").mkdir()
        backend = LocalBackend(tmp_path / "root")
        backend.write("d/f", "one\nneedle\n")
        backend.write("d/.hidden", "needle\n")
        return backend

    @pytest.fixture(autouse=True)
    def forget(self, needs: Callable[..., None]) -> Iterator[None]:
        needs("gnu-grep")
        yield
        search._program.cache_clear()

    @pytest.mark.parametrize("script", ["exit 2", "exit 127", "exit 101", '[ "$(ls -A)" ] && exit 2; exit 1'])
    def test_before_it_answered_the_files_are_searched_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
    ) -> None:
        backend = self.backend(tmp_path, monkeypatch, script)
        assert search._program("/nowhere") is not None
        assert found(backend, "needle") == [("d/f", 2, "needle")]
        assert found(backend, "needle", "d", hidden=True) == [("d/.hidden", 1, "needle"), ("d/f", 2, "needle")]
        assert found(backend, "needle", glob="*.py") == []
        guarded = guarding(backend, PermissionRuleset("allow", rules=[PermissionRule("d/f", "deny")]))
        assert list(guarded.grep("needle")) == []

    def test_amidst_its_answers_it_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = self.backend(tmp_path, monkeypatch, "printf './d/f\\0002:4:needle\\n'; exit 2")
        with backend.grep("needle") as matches, pytest.raises(RemoteProtocolError, match="exit code 2"):
            list(matches)

    def test_killed_it_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = self.backend(tmp_path, monkeypatch, "kill -9 $$")
        with pytest.raises(RemoteProtocolError, match="signal 9"):
            list(backend.grep("needle"))

    @pytest.mark.parametrize("script", ["exec sleep 60", "exec >&-; exec sleep 60"])
    def test_that_hangs_it_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        backend = self.backend(tmp_path, monkeypatch, script)
        monkeypatch.setattr(search, "_QUIET", 0.2)
        with pytest.raises(SandboxTimeoutError, match=r"0\.2 s"):
            list(backend.grep("needle"))

    def test_whose_name_went_the_files_are_searched_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = self.backend(tmp_path, monkeypatch, "exit 1")
        matches = backend.grep("needle")
        shutil.rmtree(tmp_path / "bin")
        assert [match.path for match in matches] == ["d/f"]

    def test_that_cannot_be_run_the_files_are_searched_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend = self.backend(tmp_path, monkeypatch, "exit 1")
        closed(backend)
        assert search._program("/nowhere") is not None
        (tmp_path / "bin/grep").chmod(0)
        with ordinary_user():
            matches = backend.grep("needle")
            assert [match.path for match in matches] == ["d/f"]
            assert [skipped.path for skipped in matches.skipped] == ["closed"]

    def test_a_file_searched_here_has_its_limits(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = self.backend(tmp_path, monkeypatch, "exit 2")
        monkeypatch.setattr(scan, "LONGEST_LINE", 1000)
        backend.write("long", "needle" * 1000)
        matches = backend.grep("needle")
        assert [match.path for match in matches] == ["d/f"]
        assert [(skipped.path, "longer than 1000" in skipped.reason) for skipped in matches.skipped] == [("long", True)]
        backend.file_timeout = 1e-9
        with pytest.raises(SandboxTimeoutError):
            list(backend.grep("needle"))

    @pytest.mark.parametrize(
        "script", ["exit 1", "echo ./.f:2:needle two", "printf './.f\\0002:4:needle two\\n'; exit 2"]
    )
    def test_one_that_does_not_pass_the_trial_is_not_used(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
    ) -> None:
        backend = self.backend(tmp_path, monkeypatch, "")
        (tmp_path / "bin/grep").write_text(f"#!/bin/sh\n{script}\n")
        search._program.cache_clear()
        assert search._program("/nowhere") is None
        assert found(backend, "needle") == [("d/f", 2, "needle")]


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
