"""LocalSandbox: its life over a directory that the caller named, and what stop ends."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalSandbox, running
from sandbox_kit.contract import Sandbox
from sandbox_kit.errors import (
    CommandTimeoutError,
    InvalidArgumentError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxClosedError,
    SandboxUnavailableError,
)
from sandbox_kit.guard import guarding

from .processes import descriptors, eventually, living, unique_seconds
from .sandboxes import denying, executing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need a POSIX system")

USES: dict[str, Callable[[Sandbox], object]] = {
    "read": lambda sandbox: sandbox.read("f"),
    "write": lambda sandbox: sandbox.write("g", "x"),
    "ls": lambda sandbox: sandbox.ls(),
    "stat": lambda sandbox: sandbox.stat("."),
    "glob": lambda sandbox: sandbox.glob("*"),
    "grep": lambda sandbox: list(sandbox.grep("x")),
    "mkdir": lambda sandbox: sandbox.mkdir("d"),
    "execute": lambda sandbox: sandbox.execute("true"),
    "spawn": lambda sandbox: sandbox.spawn("true"),
}
EVERY_USE = pytest.mark.parametrize("use", USES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_text("text\n")
    return root


class TestNamedRoot:
    def test_is_never_removed(self, root: Path) -> None:
        with LocalSandbox(root) as sandbox:
            assert not sandbox.temporary
        sandbox.start()
        sandbox.stop(purge=True)
        sandbox.start()
        del sandbox
        gc.collect()
        assert (root / "f").read_text() == "text\n"

    def test_has_its_real_name_before_the_start(self, root: Path, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(root)
        sandbox = LocalSandbox(link)
        assert sandbox.work_dir == str(root)
        with sandbox:
            assert sandbox.work_dir == str(root)
            assert sandbox.execute("pwd").stdout == f"{root}\n"
            assert sandbox.read(f"{link}/f") == "text\n"
        assert sandbox.work_dir == str(root)

    def test_that_is_missing_is_told_at_the_start(self, tmp_path: Path) -> None:
        sandbox = LocalSandbox(tmp_path / "missing")
        with pytest.raises(PathNotFoundError):
            sandbox.start()
        assert not sandbox.is_alive()
        (tmp_path / "missing").mkdir()
        with sandbox:
            assert sandbox.ls() == []

    def test_may_be_made_after_a_guard_over_it(self, tmp_path: Path) -> None:
        sandbox = guarding(LocalSandbox(tmp_path / "late"), denying("**/.env"), commands="inspected")
        (tmp_path / "late").mkdir()
        with sandbox:
            sandbox.write("f", "x")
            with pytest.raises(PermissionDeniedError):
                sandbox.write("d/.env", "x")

    def test_may_be_relative(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(root.parent)
        sandbox = LocalSandbox("root")
        monkeypatch.chdir("/")
        with sandbox:
            assert sandbox.execute("cat f").stdout == "text\n"

    @EVERY_USE
    @pytest.mark.parametrize("again", [False, True], ids=["gone", "another-in-its-place"])
    def test_that_vanishes_is_unavailable(self, root: Path, use: str, again: bool) -> None:
        with LocalSandbox(root) as sandbox:
            (root / "f").unlink()
            root.rmdir()
            if again:
                root.mkdir()
            with pytest.raises(SandboxUnavailableError) as caught:
                USES[use](sandbox)
            assert not isinstance(caught.value, SandboxClosedError)
            assert not sandbox.is_alive()
            assert not again or list(root.iterdir()) == []


class TestLife:
    @EVERY_USE
    def test_use_before_the_start_names_both_ways_to_start(self, root: Path, use: str) -> None:
        sandbox = LocalSandbox(root)
        for _ in range(2):
            with pytest.raises(SandboxClosedError, match=r"'with sandbox:' or call start\(\)"):
                USES[use](sandbox)
            sandbox.start().stop()
        assert [path.name for path in root.iterdir()] == ["f"]

    def test_each_has_an_id_of_its_own(self, root: Path) -> None:
        made = [LocalSandbox(root), LocalSandbox(root), LocalSandbox(), LocalSandbox()]
        made += [copy.deepcopy(each) for each in made]
        assert len({each.id for each in made}) == 8
        assert made[0].id == made[0].start().id

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda sandbox: pickle.loads(pickle.dumps(sandbox))])
    def test_a_copy_is_not_started_and_has_the_same_options(self, root: Path, copied: Any) -> None:
        options: dict[str, Any] = {"default_timeout": 0.2, "max_read_bytes": 3, "expose": ["/var"]}
        with LocalSandbox(root, **options) as sandbox:
            other = copied(sandbox)
            with pytest.raises(SandboxClosedError):
                other.execute("true")
            with other:
                assert other.work_dir == sandbox.work_dir
                assert other.max_read_bytes == 3
                with pytest.raises(CommandTimeoutError):
                    other.execute("sleep 60")
            assert sandbox.is_alive()

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda sandbox: pickle.loads(pickle.dumps(sandbox))])
    def test_a_copy_of_a_temporary_one_has_a_root_of_its_own(self, copied: Any) -> None:
        with LocalSandbox() as sandbox:
            sandbox.write("f", "x")
            with copied(sandbox) as other:
                assert other.work_dir != sandbox.work_dir
                assert other.ls() == []
            assert sandbox.read("f") == "x"

    def test_nothing_is_left_open(self, root: Path) -> None:
        def use() -> None:
            with LocalSandbox(root) as sandbox, sandbox.spawn("cat", stdin=subprocess.PIPE) as process:
                sandbox.execute("true")
                with pytest.raises(PathNotFoundError):
                    sandbox.execute("true", cwd="missing")
                with pytest.raises(InvalidArgumentError):
                    sandbox.spawn("true", stdin=io.StringIO())  # type: ignore[arg-type]
                assert process.stdin is not None
                process.stdin.close()
                process.wait(30)

        use()
        before = len(descriptors())
        for _ in range(3):
            use()
        gc.collect()
        assert eventually(lambda: len(descriptors()) <= before)


class TestStop:
    def test_ends_a_command_of_another_thread_with_an_error_there(self, root: Path) -> None:
        mark = unique_seconds()
        sandbox = LocalSandbox(root).start()
        with executing(sandbox, f"echo on; sleep {mark}; true") as raised:
            sandbox.stop()
            assert not living(mark)
        assert [type(error) for error in raised] == [SandboxClosedError]
        with sandbox:
            assert sandbox.execute("echo again").stdout == "again\n"

    def test_followed_by_a_start_still_ends_it(self, root: Path) -> None:
        sandbox = LocalSandbox(root).start()
        with executing(sandbox, "echo on; sleep 60") as raised:
            sandbox.stop()
            sandbox.start()
        assert [type(error) for error in raised] == [SandboxClosedError]
        sandbox.stop()

    def test_ends_processes(self, root: Path) -> None:
        mark = unique_seconds()
        sandbox = LocalSandbox(root).start()
        process = sandbox.spawn(f"(setsid sleep {mark} &); echo on; sleep {mark}; true")
        assert next(process.stdout) == "on\n"
        sandbox.stop()
        assert not living(mark)
        assert process.wait(30) == 137

    def test_from_within_a_listener_ends_its_own_command(self, root: Path) -> None:
        sandbox = LocalSandbox(root).start()
        with pytest.raises(SandboxClosedError):
            sandbox.execute("echo on; sleep 60", on_output=lambda stream, text: sandbox.stop())
        assert not sandbox.is_alive()

    def test_has_an_end_while_a_listener_does_not_return(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(running, "END_WITHIN", 0.2)
        entered, go_on = threading.Event(), threading.Event()

        def listen(stream: str, text: str) -> None:
            entered.set()
            go_on.wait(60)

        sandbox = LocalSandbox(root).start()
        with ThreadPoolExecutor() as pool:
            result = pool.submit(sandbox.execute, "echo on; sleep 60", on_output=listen)
            assert entered.wait(30)
            sandbox.stop()
            go_on.set()
            with pytest.raises(SandboxClosedError):
                result.result(30)

    def test_leaves_another_sandbox_on_the_same_root_alone(self, root: Path) -> None:
        with LocalSandbox(root) as other, other.spawn("read x; exit 3", stdin=subprocess.PIPE) as process:
            LocalSandbox(root).start().stop()
            assert process.poll() is None
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 3


class TestUsage:
    def test_counts_what_execute_runs(self, root: Path) -> None:
        with LocalSandbox(root) as sandbox:
            assert sandbox.usage().pids == 0
            with executing(sandbox, "echo on; while [ -e f ]; do sleep 0.05; done") as raised:
                used = sandbox.usage()
                sandbox.remove("f")
            assert raised == []
            assert used.pids is not None
            assert used.pids >= 1
            assert sandbox.usage().pids == 0

    def test_counts_processes_until_they_end(self, root: Path) -> None:
        with LocalSandbox(root) as sandbox:
            with sandbox.spawn("sleep 60 & sleep 60 & echo on; wait") as process:
                assert next(process.stdout) == "on\n"
                used = sandbox.usage()
                assert used.pids is not None
                assert used.pids >= 3
            assert sandbox.usage().pids == 0
