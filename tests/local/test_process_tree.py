"""Nothing of a command outlives the call: daemons, racers, interrupts, forks, the host's own death."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NoReturn

import pytest

from sandbox_kit import guarding
from sandbox_kit.backends.local import LocalSandbox, interpreter, job, supervised, supervisor
from sandbox_kit.backends.local.groups import GroupTree
from sandbox_kit.backends.local.process import run, spawn
from sandbox_kit.errors import CommandTimeoutError, SandboxUnavailableError
from sandbox_kit.host import aside

from .interrupts import Moments, moments_of
from .processes import ENV, children, descriptors, eventually, living, python, sh, unique_seconds, zombies
from .sandboxes import denying

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="supervisors need Linux")

DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    time.sleep(float(sys.argv[2]))
    os._exit(5)
for _ in range(3):
    if os.fork():
        os._exit(0)
    os.setsid()
os.closerange(0, 100)
os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
"""

RACER = """
import os, sys, time
if os.fork():
    time.sleep(float(sys.argv[2]))
    os._exit(5)
for _ in range(3):
    os.fork()
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
"""

STOPPED = """
import os, signal, sys, time
if os.fork():
    time.sleep(float(sys.argv[2]))
    os._exit(5)
os.setsid()
os.kill(os.getpid(), signal.SIGSTOP)
"""

ATTACKS = pytest.mark.parametrize("attack", [DAEMON, RACER, STOPPED], ids=["daemon", "racer", "stopped"])


class TestEscapees:
    @ATTACKS
    def test_are_dead_when_the_command_returns(self, attack: str) -> None:
        mark = unique_seconds()
        assert run(python(attack, mark, "0.2"), cwd="/", env=ENV, timeout=30).exit_code == 5
        assert not living(mark)

    @ATTACKS
    def test_are_dead_when_it_times_out(self, attack: str) -> None:
        mark = unique_seconds()
        with pytest.raises(CommandTimeoutError):
            run(python(attack, mark, "60"), cwd="/", env=ENV, timeout=0.3)
        assert not living(mark)

    @ATTACKS
    def test_are_dead_when_a_process_is_killed(self, attack: str) -> None:
        mark = unique_seconds()
        with spawn(python(attack, mark, "60"), cwd="/", env=ENV) as process:
            time.sleep(0.2)
            process.kill()
            assert not living(mark)
            assert process.wait(10) == 137

    def test_of_one_command_end_while_another_runs_on(self) -> None:
        mine, other = unique_seconds(), unique_seconds()
        with spawn(["/bin/sh", "-c", f"setsid sleep {other} & sleep {other}"], cwd="/", env=ENV):
            assert eventually(lambda: len(living(other)) == 3)
            run(python(DAEMON, mine, "0.1"), cwd="/", env=ENV)
            assert not living(mine)
            assert len(living(other)) == 3
        assert not living(other)

    def test_orphans_that_end_early_are_reaped_while_the_command_runs(self) -> None:
        left = "$(wc -w < /proc/$PPID/task/$PPID/children)"
        script = f"for i in $(seq 400); do (true &) ; done; until test {left} -lt 300; do sleep 0.05; done"
        assert sh(script, timeout=60).exit_code == 0

    def test_that_may_not_be_killed_are_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(pid: int, number: int) -> NoReturn:
            raise PermissionError

        own = subprocess.Popen(["sleep", "60"])
        spared: set[int] = set()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(os, "kill", refuse)
                assert not supervisor.kill_children(spared)
            assert own.pid in spared
        finally:
            own.kill()
            own.wait()

    def test_are_found_where_the_kernel_lists_no_children(self) -> None:
        own = subprocess.Popen(["sleep", "60"])
        try:
            assert own.pid in set(supervisor.children_by_scan(os.getpid()))
        finally:
            own.kill()
            own.wait()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestInterrupts:
    def test_ctrl_c_kills_what_runs_and_passes_through(self) -> None:
        mark = unique_seconds()
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run(python(DAEMON, mark, "60"), cwd="/", env=ENV)
        timer.join()
        assert not living(mark)
        assert sh("echo ok").stdout == "ok\n"

    def test_at_any_moment_of_run_leaks_nothing(self) -> None:
        mark = unique_seconds()
        script = ["/bin/sh", "-c", "exit", mark]
        self.leaks_nothing(lambda: run(script, cwd="/", env=ENV, stdin=b"x"), mark)

    def test_at_any_moment_of_the_start_of_a_supervisor_leaks_nothing(self) -> None:
        def start() -> None:
            supervised._pool.close()
            sh("exit")

        self.leaks_nothing(start, unique_seconds())

    @pytest.mark.parametrize("kind", ["supervised", "group"])
    def test_at_any_moment_of_spawn_leaks_nothing(self, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        mark = unique_seconds()
        if kind == "group":
            monkeypatch.setattr(job, "_create_tree", GroupTree)

        def start_and_end() -> None:
            with spawn(["sleep", mark], cwd="/", env=ENV):
                pass

        self.leaks_nothing(start_and_end, mark)

    @pytest.mark.parametrize("commands", ["inspected", pytest.param("confined", marks=pytest.mark.needs("bwrap"))])
    def test_at_any_moment_of_a_command_under_rules_leaks_nothing(
        self, tmp_path: Path, commands: Literal["inspected", "confined"]
    ) -> None:
        mark = unique_seconds()
        (tmp_path / ".env").write_text("secret")
        with guarding(LocalSandbox(tmp_path), denying("**/.env"), commands=commands) as sandbox:
            self.leaks_nothing(lambda: sandbox.execute(["sh", "-c", "exit", mark]), mark)

    @staticmethod
    def leaks_nothing(call: Callable[[], object], mark: str) -> None:
        """Break *call* off at some sixty moments, evenly from its first to its last."""
        moments = moments_of(call)
        assert moments > 100
        supervised._pool.close()
        before, children_before = descriptors(), children()
        for moment in range(0, moments, max(1, moments // 60)):
            sh("exit")  # a supervisor waits again
            Moments(moment).break_off(call)
        supervised._pool.close()
        assert eventually(lambda: not living(mark) and children() <= children_before)
        assert eventually(lambda: len(descriptors()) <= len(before))

    def test_the_terminal_interrupt_does_not_reach_the_command(self) -> None:
        script = (
            "import os, signal, sys; sys.path.insert(0, os.environ['TREE']);"
            "from sandbox_kit.backends.local.process import spawn; signal.signal(signal.SIGINT, signal.SIG_IGN);"
            "p = spawn(['sleep', '0.5'], cwd='/', env={'PATH': '/bin:/usr/bin'});"
            "os.killpg(0, signal.SIGINT); print(p.wait(10))"
        )
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=host_env(), capture_output=True, start_new_session=True, timeout=30)
        assert done.stdout == b"0\n"


def host_env() -> dict[str, str]:
    """The environment of a second host process that can import the package."""
    return {**ENV, "TREE": str(Path(supervised.__file__).parents[3])}


HOST = """
import os, sys, threading, time
sys.path.insert(0, os.environ["TREE"])
from sandbox_kit.backends.local.process import run, spawn
ENV = {"PATH": os.environ["PATH"]}
command = ["/bin/sh", "-c", f"setsid sleep {sys.argv[1]} & sleep {sys.argv[1]}"]
def start():
    global process
    process = spawn(command, cwd="/", env=ENV)
thread = threading.Thread(target=start)
thread.start()
thread.join()
"""


class TestEndOfTheHost:
    @pytest.mark.parametrize(
        ("ending", "code"),
        [
            ("", 0),
            ("sys.exit(3)", 3),
            ("os.kill(os.getpid(), 9)", -9),
            ("os._exit(4)", 4),
            ("pid = os.fork()\nif not pid: time.sleep(600)\nprint(pid, flush=True); os.kill(os.getpid(), 9)", -9),
        ],
        ids=["return", "sys.exit", "SIGKILL", "os._exit", "SIGKILL-with-forked-child"],
    )
    def test_ends_what_it_spawned_silently(self, ending: str, code: int) -> None:
        mark = unique_seconds()
        command = [sys.executable, "-c", f"{HOST}\n{ending}", mark]
        done = (
            subprocess.run(command, env=host_env(), capture_output=True, timeout=30, text=True)
            if "fork" not in ending
            else run_detached(command)
        )
        assert (done.returncode, done.stderr) == (code, "")
        forked = done.stdout.strip()
        try:
            assert eventually(lambda: set(living(mark)) <= {forked})
        finally:
            if forked:
                os.kill(int(forked), signal.SIGKILL)


def run_detached(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a host whose forked child holds its output open; its first line of output."""
    with subprocess.Popen(command, env=host_env(), stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        line = host.stdout.readline()
        return subprocess.CompletedProcess(command, host.wait(30), line, "")


class TestForkedChild:
    def test_uses_its_own_supervisor_and_leaves_the_parents_commands_alone(self) -> None:
        mark = unique_seconds()
        script = (
            HOST
            + """
parents = {run(["sh", "-c", "echo $PPID"], cwd="/", env=ENV).stdout}
pid = os.fork()
for _ in range(20):
    parents.add(run(["sh", "-c", "echo $PPID"], cwd="/", env=ENV).stdout)
if pid == 0:
    print(len(parents), list(process.stdout), flush=True)
    del process
    sys.exit(0)
os.waitpid(pid, 0)
print(len(parents), process.poll(), flush=True)
process.kill()
print(process.poll())
"""
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script, mark], env=host_env(), capture_output=True, timeout=60
        )
        assert done.stdout.decode().splitlines() == ["2 []", "1 None", "137"]
        assert done.stderr == b""
        assert not living(mark)


class TestSupervisors:
    def test_one_is_used_again(self) -> None:
        parents = {sh("echo $PPID").stdout for _ in range(3)}
        assert len(parents) == 1

    def test_one_that_died_while_it_waited_is_replaced(self) -> None:
        parent = int(sh("echo $PPID").stdout)
        os.kill(parent, signal.SIGKILL)
        assert eventually(lambda: str(parent) in zombies() or str(parent) not in children())
        assert sh("echo ok").stdout == "ok\n"
        assert eventually(lambda: not zombies())

    def test_a_command_that_kills_its_own_is_an_error_and_dies(self) -> None:
        mark = unique_seconds()
        with pytest.raises(SandboxUnavailableError):
            sh(f"sleep 1; kill -KILL $PPID; sleep {mark}; true")
        assert eventually(lambda: not living(mark))
        assert sh("echo ok").stdout == "ok\n"

    def test_a_command_that_stops_its_own_still_meets_its_time_limit(self) -> None:
        with pytest.raises(CommandTimeoutError):
            sh("kill -STOP $PPID; sleep 60", timeout=0.3)
        assert sh("echo ok").stdout == "ok\n"

    def test_a_command_that_stops_its_own_is_waited_for_without_a_time_limit(self) -> None:
        assert sh("kill -STOP $PPID; echo out; exit 3").exit_code == 3
        with spawn(["/bin/sh", "-c", "kill -STOP $PPID; exit 4"], cwd="/", env=ENV) as process:
            assert process.wait(30) == 4

    def test_a_command_that_stops_its_own_and_pours_output_is_waited_for(self) -> None:
        mark = unique_seconds()
        result = sh(f"(while :; do echo x; sleep 0.01; done; sleep {mark}) & kill -STOP $PPID; exit 3", max_output=100)
        assert (result.exit_code, living(mark)) == (3, [])

    def test_one_that_was_stopped_while_it_waited_serves_again(self) -> None:
        mark = sh("echo $PPID").stdout.strip()
        os.kill(int(mark), signal.SIGSTOP)
        assert sh("echo $PPID").stdout.strip() == mark

    def test_at_most_a_few_wait(self) -> None:
        supervised._pool.close()
        others = children()
        threads = [threading.Thread(target=sh, args=("sleep 0.5",)) for _ in range(supervised.MAX_IDLE + 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert eventually(lambda: len(children() - others) <= supervised.MAX_IDLE + 1)

    def test_a_changed_umask_holds_for_the_next_command(self) -> None:
        sh("true")
        before = os.umask(0o077)
        try:
            assert sh("umask").stdout == "0077\n"
        finally:
            os.umask(before)

    def test_a_changed_limit_holds_for_the_next_command(self) -> None:
        sh("true")
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        changed = 512 if soft != 512 else 1024
        if hard != resource.RLIM_INFINITY and hard < changed:
            pytest.skip("the hard limit leaves no room")
        resource.setrlimit(resource.RLIMIT_CORE, (changed, hard))
        try:
            limits = run(["cat", "/proc/self/limits"], cwd="/", env=ENV).stdout
            assert f"Max core file size        {changed} " in limits
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))

    def test_a_start_that_fails_is_a_typed_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        supervised._pool.close()
        monkeypatch.setattr(interpreter, "helper_interpreter", lambda: "/nowhere/python3")
        with pytest.raises(SandboxUnavailableError):
            sh("true")

    def test_no_room_for_descriptors_is_a_typed_error(self) -> None:
        sh("true")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.open("/dev/null", os.O_RDONLY)
        os.close(free)
        for room in range(6):
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, hard))
            try:
                with pytest.raises(SandboxUnavailableError, match="Too many open files"):
                    sh("true", stdin=b"x")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert sh("echo ok").stdout == "ok\n"
        assert eventually(lambda: not zombies())

    def test_no_room_for_a_thread_is_a_typed_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(work: object, arguments: object) -> None:
            raise RuntimeError("can't start new thread")

        sh("true")
        mark = unique_seconds()
        with monkeypatch.context() as patch:
            patch.setattr(aside, "start_new_thread", refuse)
            with pytest.raises(SandboxUnavailableError, match="thread"):
                spawn(["sleep", mark], cwd="/", env=ENV)
        assert not living(mark)

    def test_the_host_keeps_the_exit_status_of_its_own_children(self) -> None:
        own = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 0.2; exit 7"], ENV)
        for _ in range(20):
            sh("sleep 60 & true")
        assert os.waitstatus_to_exitcode(os.waitpid(own, 0)[1]) == 7

    def test_signals_that_the_host_blocks_hold_nobody_up(self) -> None:
        supervised._pool.close()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            assert sh("grep SigBlk /proc/self/status; exit 3", timeout=30).stdout == f"SigBlk:\t{0:016x}\n"
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def test_exit_codes_are_right_where_the_host_ignores_sigchld(self) -> None:
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            assert sh("exit 3").exit_code == 3
        finally:
            signal.signal(signal.SIGCHLD, before)
