"""Commands of one workspace that overlap in time: they share their masks, or wait for each other."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from sandbox_kit.backends.local import occupancy
from sandbox_kit.backends.local.scratch import own_directory
from sandbox_kit.errors import SandboxTimeoutError, SandboxUnavailableError

from .confinement import SECRET, Denials, Workspace, finish, start, started
from .descriptors import settled

pytestmark = pytest.mark.needs("bwrap")

MASKS = Denials(deny=(r".*/\.env", ".*/private"))
LIVE = "echo up; sleep 60"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    for name in (".env", "sub/.env", "private/key.txt"):
        workspace.put(name)
    return workspace


class TestBesideOneThatLives:
    @pytest.fixture(autouse=True)
    def living(self, filled: Workspace, stack: ExitStack) -> subprocess.Popen[bytes]:
        return started(stack, filled.prepare(MASKS), LIVE)

    def test_the_same_masks_hold(self, filled: Workspace) -> None:
        for line in (
            "cat .env sub/.env private/key.txt",
            "grep -r . .",
            "umount .env; umount -l private; cat .env private/key.txt",
            "mv private p; mv sub/.env sub/x; cat p/* sub/x",
            "unshare -Ur cat .env; unshare -m cat .env",
            "cat /proc/*/root/$PWD/.env",
            "for fd in /proc/*/fd/*; do cat $fd/.env; done",
        ):
            assert SECRET not in filled.run(line, MASKS, timeout=10)

    def test_files_are_shared_and_processes_are_not(self, filled: Workspace) -> None:
        printed = filled.run("echo x > new; pwd; cat /proc/*/comm", MASKS)
        assert printed.startswith(f"{filled.root}\n")
        assert "sleep" not in printed
        assert Path(filled.root, "new").exists()

    def test_a_command_has_no_capability_and_no_way_to_one(self, filled: Workspace) -> None:
        printed = filled.run("grep -E 'Cap|NoNew' /proc/self/status; unshare -Ur true; unshare -m true", MASKS)
        sets = [line.split()[1] for line in printed.splitlines() if line.startswith("Cap")]
        assert sets == ["0" * 16] * 5
        assert "NoNewPrivs:\t1" in printed
        assert "rc=0" not in printed

    def test_no_descriptor_of_the_host_is_left_in_a_command(self, filled: Workspace) -> None:
        assert filled.run(["ls", "/proc/self/fd"], MASKS) == "0\n1\n2\n3\nrc=0"
        assert filled.run(["ls", "/proc/1/fd"], MASKS) == "0\n1\n2\nrc=0"

    def test_kernel_settings_and_the_system_cannot_be_changed(self, filled: Workspace) -> None:
        for name in ("/proc/sys/vm/swappiness", "/proc/sys/kernel/core_pattern", "/etc/passwd", "/made"):
            assert "rc=0" not in filled.run(f": >> {name}", MASKS)

    def test_the_network_stays_off(self, filled: Workspace) -> None:
        assert filled.run("cat /proc/net/dev | tail -n +3 | cut -d: -f1", MASKS).split() == ["lo", "rc=0"]

    def test_directory_environment_and_input_are_its_own(self, filled: Workspace) -> None:
        env = {"A": "1\n2", "LD_PRELOAD": "/evil.so"}
        with filled.prepare(MASKS, cwd=f"{filled.root}/sub", env=env) as prepared:
            assert "LD_PRELOAD" not in prepared.env
            process = start(prepared, 'cat; pwd; echo "$A"')
            output, _ = process.communicate(b"in\n", timeout=60)
        assert [line for line in output.splitlines() if b"ld.so" not in line] == [
            b"in",
            f"{filled.root}/sub".encode(),
            b"1",
            b"2",
        ]

    @pytest.mark.parametrize(
        ("command", "code"), [("exit 7", 7), ("kill -TERM $$", 143), (["nothing"], 127), (["/etc/passwd"], 126)]
    )
    def test_the_exit_code_is_a_shell_s(self, command: str | list[str], code: int, filled: Workspace) -> None:
        assert filled.run(command, MASKS).endswith(f"rc={code}")

    def test_what_a_command_leaves_running_ends_with_it(self, filled: Workspace) -> None:
        filled.run("(setsid sh -c 'sleep 1; touch late' >/dev/null 2>&1 &) ; true", MASKS)
        time.sleep(1.5)
        assert not Path(filled.root, "late").exists()

    def test_a_command_ends_with_its_launcher(self, filled: Workspace, stack: ExitStack) -> None:
        process = started(stack, filled.prepare(MASKS), "echo up; sleep 1; touch late")
        process.kill()
        process.wait(10)
        time.sleep(1.5)
        assert not Path(filled.root, "late").exists()

    def test_its_end_is_not_the_other_s(
        self, filled: Workspace, stack: ExitStack, living: subprocess.Popen[bytes]
    ) -> None:
        prepared = filled.prepare(MASKS)
        stack.callback(prepared.close)
        with start(prepared, "echo up; read line; cat .env; echo done") as second:
            assert second.stdout is not None
            second.stdout.readline()
            living.kill()
            living.wait(10)
            printed, _ = second.communicate(b"go\n", timeout=30)
        assert printed.endswith(b"done\n")
        assert SECRET.encode() not in printed

    def test_other_masks_wait_until_their_time_is_over(self, filled: Workspace) -> None:
        with pytest.raises(SandboxTimeoutError, match="another command lives"):
            filled.run("true", Denials(), timeout=0.05)

    def test_no_masks_wait_as_well(self, filled: Workspace) -> None:
        with pytest.raises(SandboxTimeoutError, match="another command lives"):
            filled.run("true", timeout=0.05)

    def test_another_process_waits(self, filled: Workspace) -> None:
        assert "SandboxTimeoutError" in in_another_process(filled)

    def test_a_forked_child_waits(self, filled: Workspace) -> None:
        assert in_forked_child(lambda: filled.run("true", MASKS, timeout=0.05)) == "SandboxTimeoutError"

    def test_a_secret_that_the_host_makes_later_is_waited_for(self, filled: Workspace) -> None:
        filled.put("late/.env")
        with pytest.raises(SandboxTimeoutError, match="is not kept"):
            filled.run("cat late/.env", MASKS, timeout=0.05)
        Path(filled.root, "late/.env").unlink()
        assert filled.run("echo ok", MASKS, timeout=10) == "ok\nrc=0"

    def test_a_secret_that_the_host_writes_anew_is_waited_for(self, filled: Workspace) -> None:
        os.replace(filled.put("new"), Path(filled.root, ".env"))
        with pytest.raises(SandboxTimeoutError, match="is not kept"):
            filled.run("cat .env", MASKS, timeout=0.05)

    def test_a_secret_made_where_one_was_removed_is_waited_for(self, filled: Workspace) -> None:
        for _ in range(4):
            Path(filled.root, "sub/.env").unlink()
            filled.put("sub/.env")
        with pytest.raises(SandboxTimeoutError, match="is not kept"):
            filled.run("cat sub/.env", MASKS, timeout=0.05)

    def test_a_secret_that_the_host_moves_stays_hidden(self, filled: Workspace) -> None:
        os.rename(f"{filled.root}/private", f"{filled.root}/sub/private")
        os.rename(f"{filled.root}/sub", f"{filled.root}/moved")
        printed = filled.run("cat moved/.env moved/private/key.txt; grep -r . .", MASKS, timeout=10)
        assert SECRET not in printed
        assert "Permission denied" in printed

    def test_what_no_rule_names_may_come_and_go(self, filled: Workspace) -> None:
        filled.put("sub/other/plain.txt", "plain")
        assert filled.run("cat sub/other/plain.txt", MASKS, timeout=10) == "plainrc=0"


def test_a_late_secret_beneath_what_is_exposed_is_waited_for(
    filled: Workspace, stack: ExitStack, tmp_path: Path
) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    started(stack, filled.prepare(MASKS, expose=[shown]), LIVE)
    assert filled.run("echo ok", MASKS, expose=[shown], timeout=10) == "ok\nrc=0"
    (shown / ".env").write_text(SECRET)
    with pytest.raises(SandboxTimeoutError, match="is not kept"):
        filled.run(f"cat {shown}/.env", MASKS, expose=[shown], timeout=0.05)


def test_what_may_be_written_no_more_is_waited_for(filled: Workspace, stack: ExitStack) -> None:
    filled.put("keep/open/a.txt")
    masks = Denials(protect=(".*/keep",), allow=(".*/keep/open",))
    started(stack, filled.prepare(masks), LIVE)
    assert filled.run("echo x > keep/open/new", masks, timeout=10) == "rc=0"
    os.rename(f"{filled.root}/keep/open", f"{filled.root}/keep/shut")
    with pytest.raises(SandboxTimeoutError, match="is not kept"):
        filled.run("echo x > keep/shut/new", masks, timeout=0.05)


def test_a_late_secret_is_masked_once_the_first_is_done(filled: Workspace, stack: ExitStack) -> None:
    prepared = filled.prepare(MASKS)
    process = start(prepared, "sleep 0.3")
    filled.put("late/.env")

    def end() -> None:
        finish(process)
        prepared.close()

    thread = threading.Thread(target=end)
    thread.start()
    assert SECRET not in filled.run("cat late/.env; true", MASKS, timeout=30)
    thread.join()


def test_the_workspace_stays_taken_when_its_lock_file_is_opened_and_closed(filled: Workspace, stack: ExitStack) -> None:
    started(stack, filled.prepare(MASKS), LIVE)
    for entry in Path(own_directory()).glob("*.lock"):
        entry.open("rb").close()
    assert "SandboxTimeoutError" in in_another_process(filled)


def in_another_process(workspace: Workspace) -> str:
    code = (
        "from tests.local.confinement import Workspace, Denials\n"
        f"print(Workspace({workspace.root!r}, {workspace.scratch!r}).run('true', Denials(), timeout=0.05))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def in_forked_child(call: object) -> str:
    """The name of the error that *call* raises in a forked child; empty for none."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            assert callable(call)
            call()
        except BaseException as error:
            os.write(write, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with open(read, encoding="ascii") as said:
        return said.read()


def test_other_masks_go_on_when_the_first_is_done(filled: Workspace, stack: ExitStack) -> None:
    prepared = filled.prepare(MASKS)
    process = start(prepared, "sleep 0.3")

    def end() -> None:
        finish(process)
        prepared.close()

    thread = threading.Thread(target=end)
    thread.start()
    assert SECRET in filled.run("cat .env", Denials(), timeout=30)
    thread.join()


def test_a_finished_workspace_is_free_for_another_process(filled: Workspace) -> None:
    filled.run("true", MASKS)
    assert in_another_process(filled) == "rc=0\n"


@pytest.mark.parametrize("name", ["/proc/version", "/proc/sys", "/proc/irq"])
def test_what_is_hidden_in_proc_is_so_from_those_that_join(name: str, workspace: Workspace, stack: ExitStack) -> None:
    if not os.path.exists(name):
        pytest.skip(f"this kernel has no {name}")
    masks = Denials(secrets=(name,))
    line = f"cat {name}; ls {name}/ && echo seen; chmod 777 {name}; test -r {name} || echo hidden"
    alone = workspace.run(line, masks)
    assert "hidden" in alone
    assert "seen" not in alone
    started(stack, workspace.prepare(masks), LIVE)
    assert workspace.run(line, masks, timeout=10) == alone


def test_no_room_for_descriptors_is_told(filled: Workspace, stack: ExitStack) -> None:
    started(stack, filled.prepare(MASKS), LIVE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    for room in range(1, 12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, hard))
        try:
            with pytest.raises(SandboxUnavailableError, match="Too many open files"):
                filled.prepare(MASKS, timeout=5).close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert filled.run("echo ok", MASKS, timeout=10) == "ok\nrc=0"


def test_commands_without_masks_overlap(filled: Workspace, stack: ExitStack) -> None:
    started(stack, filled.prepare(), LIVE)
    assert filled.run("cat .env", timeout=1) == f"{SECRET}rc=0"
    with pytest.raises(SandboxTimeoutError):
        filled.run("true", MASKS, timeout=0.05)


def test_many_threads_at_once_all_hold(filled: Workspace) -> None:
    printed: list[str] = []
    line = "cat .env 2>/dev/null; echo ok"
    threads = [threading.Thread(target=lambda: printed.append(filled.run(line, MASKS, timeout=60))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert printed == ["ok\nrc=0"] * 8


def test_a_file_moved_about_by_one_that_lives_is_never_seen(filled: Workspace, stack: ExitStack) -> None:
    juggle = "echo up; while :; do mv sub/deep a/deep; mv a/deep sub/deep; done 2>/dev/null"
    filled.put("sub/deep/.env")
    Path(filled.root, "a").mkdir()
    started(stack, filled.prepare(MASKS), juggle)
    for _ in range(8):
        assert SECRET not in filled.run("cat sub/deep/.env a/deep/.env; grep -r . .", MASKS)


def test_a_command_that_was_never_started_holds_nobody(filled: Workspace) -> None:
    prepared = filled.prepare(MASKS)
    with pytest.raises(SandboxTimeoutError):
        filled.prepare(MASKS, timeout=0.05)
    prepared.close()
    assert filled.run("true", MASKS) == "rc=0"


@pytest.mark.parametrize("busy", [False, True], ids=["at once", "within another call"])
def test_one_that_is_dropped_frees_the_workspace(busy: bool, filled: Workspace) -> None:
    before = settled()
    prepared = filled.prepare(MASKS)
    with occupancy._mutex if busy else nullcontext():
        del prepared
        gc.collect()
    assert filled.run("true", MASKS, timeout=1) == "rc=0"
    assert settled() <= before


def test_overlaps_leave_no_descriptor_open(filled: Workspace) -> None:
    before = settled()
    with ExitStack() as stack:
        started(stack, filled.prepare(MASKS), LIVE)
        filled.run("true", MASKS)
        filled.run("true", MASKS)
    assert settled() <= before
