"""Sandboxes with many masks, which a helper mounts: the same holds as where bubblewrap mounts them."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from sandbox_kit.backends.local import confine, mounter, mounting, process
from sandbox_kit.errors import PolicyError, SandboxUnavailableError
from sandbox_kit.types import Limits

from .confinement import SECRET, Denials, Workspace, finish, start
from .descriptors import settled
from .interrupts import Moments, moments_of

KERNEL = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))

pytestmark = [
    pytest.mark.needs("bwrap", "mount-helper"),
    pytest.mark.skipif(KERNEL < (5, 12), reason="needs Linux 5.12: bubblewrap makes all mounts itself before"),
]

MASKS = Denials(deny=(r".*/\.env", ".*/private"))
COUNT = confine.FEW + 4
EVERY = 100
"""How many moments of a call are tried, evenly from the first to the last."""


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    for number in range(COUNT):
        workspace.put(f"d{number}/.env")
        workspace.put(f"d{number}/plain", "plain")
    workspace.put("private/key.txt")
    return workspace


@pytest.fixture
def all_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "FEW", 0)


def started_nothing(workspace: Workspace, prepared: confine.Prepared) -> bool:
    """Whether *prepared* runs no command, and says so."""
    with prepared:
        printed = finish(start(prepared, "touch ran; cat .env */.env private/*"))
        with pytest.raises(SandboxUnavailableError, match="could not be confined: what rules mask changed"):
            prepared.check_started(printed.rpartition("rc=")[0])
    return SECRET not in printed and not Path(workspace.root, "ran").exists()


ATTEMPTS = (
    "cat */.env private/*",
    "grep -r . .",
    "mv d1/.env x; mv private p; cat x p/*",
    "rm -f d1/.env; rm -rf private; cat d1/.env",
    "ln d1/.env x; cat x",
    "umount d1/.env; umount -l private; cat d1/.env private/*",
    "unshare -Urm cat d1/.env; unshare -Urm umount d1/.env; cat d1/.env",
    "chmod 777 d1/.env private; cat d1/.env private/*",
    "echo x > d1/.env; echo x > private/new; cat d1/.env",
    "mount --bind d1 d2; cat d2/.env; mount -t tmpfs none d3",
    "cat /proc/*/root$PWD/d1/.env; for f in /proc/*/fd/*; do cat $f/d1/.env; done",
    "mkdir n; mv d1 n/d1; cat n/d1/.env",
    "cp -a . /tmp/copy; grep -r TOPSECRET /tmp/copy",
    "tar c . | tar t; tar c . | grep -a TOPSECRET",
    "mv d1 d1-old; mkdir d1; cat d1-old/.env",
)


@pytest.mark.parametrize("line", ATTEMPTS)
def test_no_attempt_reaches_what_is_hidden(line: str, filled: Workspace) -> None:
    assert SECRET not in filled.run(line, MASKS)
    assert Path(filled.root, "private/key.txt").read_text() == SECRET
    assert SECRET in {path.read_text() for path in Path(filled.root).glob("**/.env")}


def test_the_rest_stays_as_it_is(filled: Workspace) -> None:
    assert (
        filled.run("cat d1/plain; echo more >> d1/plain; mv d2/plain d3/moved; ls d3", MASKS)
        == "plainmoved\nplain\nrc=0"
    )


def test_a_command_has_no_descriptor_of_the_host(filled: Workspace) -> None:
    assert filled.run(["ls", "/proc/self/fd"], MASKS) == "0\n1\n2\n3\nrc=0"


@pytest.mark.parametrize("limits", [None, Limits(tmpfs_size=1 << 20)])
def test_the_mounts_are_the_same_whoever_makes_them(
    limits: Limits | None, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("keep/a/b", "keep/a/c", "keep/new\nline", "deep/er/key", "private/x", "keep/a/.env"):
        workspace.put(name)
    masks = workspace.denials(
        r"W/(.*/)?(\.env|key|private)", protect=("W/keep",), allow=("W/keep/a",), pinned=("W/deep", "W/deep/er")
    )
    seen = []
    for few in (0, 1000):
        monkeypatch.setattr(confine, "FEW", few)
        printed = workspace.run("cat /proc/self/mountinfo", masks, limits=limits)
        names = re.findall(rf"^\d+ \d+ \S+ \S+ ({re.escape(workspace.root)}\S*) (\S+)", printed, re.MULTILINE)
        seen.append(sorted((name, frozenset(options.split(","))) for name, options in names))
    assert len(seen[0]) > 5
    assert seen[0] == seen[1]


class TestWithoutItsMounts:
    def test_no_command_starts_if_nobody_makes_them(self, filled: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mounting, "serve", lambda *fds: True)
        assert started_nothing(filled, filled.prepare(MASKS))

    def test_no_command_starts_if_a_directory_was_replaced(self, filled: Workspace) -> None:
        prepared = filled.prepare(MASKS)
        os.rename(f"{filled.root}/d1", f"{filled.root}/old")
        filled.put("d1/.env")
        assert started_nothing(filled, prepared)

    def test_no_command_starts_if_a_file_was_replaced(self, filled: Workspace) -> None:
        prepared = filled.prepare(MASKS)
        os.rename(filled.put("other"), f"{filled.root}/d1/.env")
        assert started_nothing(filled, prepared)

    def test_a_workspace_that_moves_away_is_the_one_that_is_masked(self, filled: Workspace) -> None:
        prepared = filled.prepare(MASKS)
        os.rename(filled.root, f"{filled.root}-old")
        os.mkdir(filled.root)
        with prepared:
            assert finish(start(prepared, "cat */plain; cat */.env 2> /dev/null")) == "plain" * COUNT + "rc=1"

    def test_one_that_is_never_started_holds_nobody(self, filled: Workspace) -> None:
        filled.run("true", MASKS)
        before = settled()
        filled.prepare(MASKS).close()
        assert settled() <= before
        assert filled.run("true", MASKS, timeout=5) == "rc=0"


@pytest.mark.usefixtures("all_helped")
class TestAPlantedLink:
    def test_is_not_followed(self, filled: Workspace, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        prepared = filled.prepare(MASKS)
        os.rename(f"{filled.root}/d1", f"{filled.root}/old")
        os.symlink(outside, f"{filled.root}/d1")
        assert started_nothing(filled, prepared)
        assert not list(outside.iterdir())

    def test_that_comes_and_goes_is_not_followed(self, filled: Workspace, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        with flipping(Path(filled.root, "d1"), outside):
            for _ in range(12):
                with suppress(PolicyError):
                    filled.run("true", MASKS)
        assert not list(outside.iterdir())


class flipping:
    """Somebody of the host who puts a link to *outside* in the place of *directory*, and takes it away again."""

    def __init__(self, directory: Path, outside: Path) -> None:
        self._directory, self._outside = directory, outside
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flip)

    def _flip(self) -> None:
        old = self._directory.with_name("flipped")
        while not self._stop.wait(0.0005):
            self._directory.rename(old)
            self._directory.symlink_to(self._outside)
            self._directory.unlink()
            old.rename(self._directory)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


class TestTheHelper:
    @pytest.fixture(autouse=True)
    def pid(self, filled: Workspace) -> int:
        filled.run("true", MASKS)
        return self.now()

    @staticmethod
    def now() -> int:
        assert mounting._keeper._helper is not None
        return mounting._keeper._helper.process.pid

    def test_serves_one_command_after_the_other(self, filled: Workspace, pid: int) -> None:
        assert filled.run("true", MASKS) == "rc=0"
        assert self.now() == pid

    def test_is_started_again_after_its_death(self, filled: Workspace, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert SECRET not in filled.run("cat */.env", MASKS)
        assert self.now() != pid

    def test_that_was_stopped_serves_on(self, filled: Workspace, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        assert SECRET not in filled.run("cat */.env", MASKS)
        assert self.now() == pid

    def test_that_was_stopped_ends_with_this_process(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        mounting._keeper.close()
        assert not Path(f"/proc/{pid}").exists()

    def test_a_child_forked_meanwhile_holds_nobody_up(self, filled: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        take, children = mounting._keeper.take, []

        def fork_and_take(fds: Sequence[int]) -> bool:
            children.append(os.fork())
            if children[-1] == 0:
                signal.pause()
            return take(fds)

        monkeypatch.setattr(mounting._keeper, "take", fork_and_take)
        try:
            assert filled.run("echo ran", MASKS) == "ran\nrc=0"
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def test_is_not_used_by_another_user(self, filled: Workspace, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mounting, "_credentials", lambda: ("another",))
        assert SECRET not in filled.run("cat */.env", MASKS)
        assert self.now() != pid

    def test_is_not_shared_with_a_forked_child(self, filled: Workspace, pid: int) -> None:
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                hidden = SECRET not in filled.run("cat */.env", MASKS)
                os._exit(0 if hidden and self.now() != pid else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert filled.run("true", MASKS) == "rc=0"
        assert self.now() == pid

    def test_is_done_without_where_it_cannot_work(self, filled: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mounting._keeper, "take", lambda fds: False)
        assert SECRET not in filled.run("cat */.env private/*", MASKS)

    def test_leaves_nothing_open(self, filled: Workspace) -> None:
        before = settled()
        for _ in range(3):
            filled.run("true", MASKS)
        assert settled() <= before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_moment_leaks_nothing_and_locks_nobody_out(filled: Workspace) -> None:
    def prepare() -> None:
        filled.prepare(MASKS).close()

    moments = moments_of(prepare)
    before = settled()
    for moment in range(0, moments, max(1, moments // EVERY)):
        Moments(moment).break_off(prepare)
    assert len(settled()) <= len(before)
    assert SECRET not in filled.run("cat */.env", MASKS, timeout=5)


def test_what_a_machine_lacks_is_found_out_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise OSError("no process")

    monkeypatch.setattr(process, "run", refuse)
    assert not mounting.works.__wrapped__()


def test_the_word_of_bubblewrap_is_read_in_pieces() -> None:
    read, write = os.pipe()
    pieces = [b'{\n    "child-pid": 41,\n  ', b'  "mnt-namespace": 4026532178\n}', b"\n"]
    writer = threading.Thread(target=lambda: [os.write(write, piece) for piece in pieces])
    writer.start()
    assert mounter.told(read) == (41, 4026532178)
    writer.join()
    os.close(write)
    os.close(read)
