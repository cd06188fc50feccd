"""Time limits, what a command leaves behind, and spawn."""

from __future__ import annotations

import subprocess
import time

import pytest

from sandbox_kit.contract import Process, Sandbox
from sandbox_kit.errors import CommandTimeoutError, InvalidArgumentError, SandboxTimeoutError, UnsupportedError
from sandbox_kit.testing.commands import SandboxTests

__all__ = ["ProcessConformance", "TimeLimitConformance"]

BEAT = "while :; do echo x >> beat; sleep 0.05; done"
ESCAPES = {
    "a child": f"sh -c '{BEAT}' &",
    "a child that ignores signals": f"sh -c 'trap \"\" TERM INT HUP; {BEAT}' &",
    "a session of its own": f"setsid sh -c '{BEAT}' &",
    "an orphan": f"(setsid sh -c '{BEAT}' &) &",
    "no hang-up": f"$(command -v nohup) sh -c '{BEAT}' >/dev/null 2>&1 &",
}
EVERY_ESCAPE = pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
WAIT_FOR_BEAT = "while ! [ -s beat ]; do sleep 0.02; done"


def beats(sandbox: Sandbox) -> bool:
    """Whether something still writes to the file ``beat``."""
    before = sandbox.stat("beat").size
    time.sleep(0.3)
    return sandbox.stat("beat").size != before


class TimeLimitConformance(SandboxTests):
    """A command ends when its time is up, or when it ends, with all that it started."""

    def test_a_command_over_its_limit_is_ended_and_its_output_kept(self, sandbox: Sandbox) -> None:
        begun = time.monotonic()
        with pytest.raises(CommandTimeoutError) as caught:
            sandbox.execute("echo out; echo err >&2; sleep 60", timeout=0.5)
        assert time.monotonic() - begun < self.hang_guard
        result = caught.value.result
        assert (result.exit_code, result.stdout, result.stderr) == (None, "out\n", "err\n")
        assert caught.value.timeout == 0.5
        assert isinstance(caught.value, TimeoutError)

    def test_a_command_within_its_limit_is_a_result(self, sandbox: Sandbox) -> None:
        assert sandbox.execute("sleep 0.1; echo done", timeout=self.hang_guard).stdout == "done\n"

    def test_the_default_limit_holds_where_none_is_given(
        self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sandbox, "default_timeout", 0.3)
        with pytest.raises(CommandTimeoutError):
            sandbox.execute("sleep 60")
        assert sandbox.execute("sleep 0.6; echo done", timeout=self.hang_guard).ok

    def test_a_command_that_ignores_signals_is_ended(self, sandbox: Sandbox) -> None:
        begun = time.monotonic()
        with pytest.raises(CommandTimeoutError):
            sandbox.execute("trap '' TERM INT HUP; while :; do sleep 0.1; done", timeout=0.5)
        assert time.monotonic() - begun < self.hang_guard

    @EVERY_ESCAPE
    def test_at_the_limit_the_whole_tree_is_dead(self, sandbox: Sandbox, escape: str) -> None:
        with pytest.raises(CommandTimeoutError):
            sandbox.execute(f"{escape} {WAIT_FOR_BEAT}; sleep 60", timeout=2)
        assert not beats(sandbox)

    @EVERY_ESCAPE
    def test_what_a_command_leaves_running_ends_with_it(self, sandbox: Sandbox, escape: str) -> None:
        result = sandbox.execute(f"{escape} {WAIT_FOR_BEAT}; echo hi", timeout=self.hang_guard)
        assert (result.exit_code, result.stdout) == (0, "hi\n")
        assert not beats(sandbox)

    @pytest.mark.parametrize("command", ["sleep 60 & echo hi", "setsid sleep 60 & echo hi", "nohup sleep 60 & echo hi"])
    def test_a_background_child_does_not_hold_the_call(self, sandbox: Sandbox, command: str) -> None:
        begun = time.monotonic()
        result = sandbox.execute(command, timeout=self.hang_guard)
        assert (result.exit_code, result.stdout) == (0, "hi\n")
        assert time.monotonic() - begun < self.hang_guard / 2


class ProcessConformance(SandboxTests):
    """A process in the background."""

    @pytest.fixture
    def spawner(self, sandbox: Sandbox) -> Sandbox:
        """The sandbox, where it can start processes; one that cannot must say so."""
        if not sandbox.capabilities.spawn:
            with pytest.raises(UnsupportedError):
                sandbox.spawn("touch ran")
            assert sandbox.ls() == []
            pytest.skip("this sandbox starts no background processes")
        return sandbox

    def test_a_process_runs_to_its_end(self, spawner: Sandbox) -> None:
        with spawner.spawn("echo one; echo two >&2; exit 3") as process:
            assert isinstance(process, Process)
            assert process.wait(self.hang_guard) == 3
            assert process.poll() == 3
            assert list(process.stdout) == ["one\n"]
            assert list(process.stderr) == ["two\n"]

    def test_a_process_goes_on_while_others_run(self, spawner: Sandbox) -> None:
        with spawner.spawn(BEAT) as process:
            spawner.execute(WAIT_FOR_BEAT, timeout=self.hang_guard, check=True)
            assert process.poll() is None
            assert process.pid > 0
            assert beats(spawner)

    def test_a_wait_that_ends_early_leaves_it_running(self, spawner: Sandbox) -> None:
        with spawner.spawn("sleep 60") as process:
            with pytest.raises(SandboxTimeoutError):
                process.wait(0.1)
            assert process.poll() is None

    @EVERY_ESCAPE
    def test_leaving_its_context_ends_the_whole_tree(self, spawner: Sandbox, escape: str) -> None:
        with spawner.spawn(f"{escape} sleep 60"):
            spawner.execute(WAIT_FOR_BEAT, timeout=self.hang_guard, check=True)
        assert not beats(spawner)

    def test_killing_twice_is_fine(self, spawner: Sandbox) -> None:
        process = spawner.spawn("sleep 60")
        process.kill()
        process.kill()
        assert process.wait(self.hang_guard) == 128 + 9

    def test_lines_come_while_it_runs(self, spawner: Sandbox) -> None:
        with spawner.spawn('echo first; read line; echo "got $line"', stdin=subprocess.PIPE) as process:
            lines = iter(process.stdout)
            assert next(lines) == "first\n"
            assert process.stdin is not None
            process.stdin.write(b"it\n")
            process.stdin.flush()
            assert next(lines) == "got it\n"
            assert process.wait(self.hang_guard) == 0
            assert list(lines) == []

    @pytest.mark.parametrize("stdin", ["text", b"text", None])
    def test_stdin_of_a_process_is_what_is_given(self, spawner: Sandbox, stdin: str | bytes | None) -> None:
        with spawner.spawn("cat", stdin=stdin) as process:
            assert "".join(process.stdout) == ("" if stdin is None else "text")
            assert process.wait(self.hang_guard) == 0

    def test_of_output_that_nobody_reads_the_oldest_is_dropped(self, spawner: Sandbox) -> None:
        script = "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done"
        with spawner.spawn(script, max_output=1000) as process:
            assert process.wait(self.hang_guard) == 0
            kept = "".join(process.stdout)
        assert kept.endswith("line 4998\nline 4999\n")
        assert len(kept) <= 1100

    def test_where_and_with_what_it_runs(self, spawner: Sandbox) -> None:
        spawner.mkdir("d")
        with spawner.spawn(["sh", "-c", "pwd -P; echo $EXTRA"], cwd="d", env={"EXTRA": "x"}) as process:
            assert list(process.stdout) == [f"{spawner.work_dir}/d\n", "x\n"]

    def test_a_bad_argument_is_refused_and_nothing_is_started(self, spawner: Sandbox) -> None:
        with pytest.raises(InvalidArgumentError):
            spawner.spawn("")
        with pytest.raises(InvalidArgumentError):
            spawner.spawn("touch ran", env={"A=B": "x"})
        assert spawner.ls() == []

    def test_stopping_the_sandbox_ends_it(self, spawner: Sandbox) -> None:
        process = spawner.spawn("sleep 60")
        spawner.stop()
        assert process.poll() is not None
