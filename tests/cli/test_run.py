"""``run``: a command goes in, its output and exit code come out."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .programs import (
    at_terminal,
    default_interrupts,
    environment,
    eventually,
    kit,
    living,
    started,
    unique_seconds,
    without_bubblewrap,
)

MODES = ("confined", "inspected")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest, needs: Callable[..., None]) -> str:
    if request.param == "confined":
        needs("bwrap")
    return str(request.param)


@pytest.fixture
def run(project: Path, mode: str) -> tuple[str, ...]:
    """The arguments of a run that may do anything, up to the command."""
    return "run", "--root", str(project), "--rules", "none", "--commands", mode


def test_the_exit_code_and_both_streams_are_the_commands_own(run: tuple[str, ...]) -> None:
    done = kit(*run, "--", "sh", "-c", "echo out; echo err >&2; exit 37")
    assert (done.returncode, done.stdout, done.stderr) == (37, b"out\n", b"err\n")


def test_a_line_that_is_taken_for_a_program_is_told(run: tuple[str, ...]) -> None:
    done = kit(*run, "--", "echo a; ls src")
    assert (done.returncode, b"--shell" in done.stderr.splitlines()[-1]) == (127, True)
    assert b"--shell" not in kit(*run, "--", "no-such-program").stderr
    assert kit(*run, "--shell", "echo a; ls src").stdout == b"a\napp.py\n"


def test_a_signal_that_ends_the_command_counts_128_more(run: tuple[str, ...]) -> None:
    assert kit(*run, "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_bytes_come_out_as_they_are(run: tuple[str, ...], project: Path) -> None:
    content = bytes(range(256)) * 4096
    (project / "blob").write_bytes(content)
    assert kit(*run, "--", "cat", "blob").stdout == content


def test_no_output_is_cut(run: tuple[str, ...]) -> None:
    done = kit(*run, "--", "head", "-c", "12000000", "/dev/zero")
    assert len(done.stdout) == 12_000_000


def test_output_arrives_while_the_command_runs(run: tuple[str, ...]) -> None:
    with started(*run, "-i", "--", "sh", "-c", "echo ready; cat", stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"go on\n")
        process.stdin.close()
        assert process.stdout.read() == b"go on\n"
        assert process.wait(30) == 0


def test_standard_input_is_empty_unless_it_is_asked_for(run: tuple[str, ...]) -> None:
    with started(*run, "--", "cat", stdin=subprocess.PIPE) as process:
        assert process.wait(30) == 0


def test_an_input_that_never_ends_holds_no_command(run: tuple[str, ...]) -> None:
    with started(*run, "-i", "--", "true", stdin=subprocess.PIPE) as process:
        assert process.wait(30) == 0


def test_options_of_the_command_are_left_to_it(run: tuple[str, ...]) -> None:
    assert kit(*run, "--", "echo", "--json", "--", "-x").stdout == b"--json -- -x\n"


def test_a_line_for_the_shell(run: tuple[str, ...]) -> None:
    assert kit(*run, "--shell", "--", "echo a && echo b").stdout == b"a\nb\n"


def test_directory_and_variables_are_those_asked_for(run: tuple[str, ...]) -> None:
    variables = ("--env", "A=1=2", "--env", "PASSED", "--env", "MISSING")
    line = "ls; echo $A $PASSED ${MISSING-none} ${KEPT-none}"
    done = kit(*run, "--cwd", "src", *variables, "--shell", "--", line, env=environment(PASSED="on", KEPT="x"))
    assert done.stdout == b"app.py\n1=2 on none none\n"


def test_at_the_time_limit_the_whole_tree_is_dead(run: tuple[str, ...]) -> None:
    mark = unique_seconds()
    done = kit(*run, "--timeout", "1", "--shell", "--", f"echo begun; setsid sleep {mark} & sleep {mark}")
    assert (done.returncode, done.stdout) == (124, b"begun\n")
    assert done.stderr == b"sandbox-kit: command ran over its limit of 1.0 s and was killed\n"
    assert not living(mark)


def test_the_time_limit_holds_while_nobody_reads(run: tuple[str, ...]) -> None:
    with started(*run, "--timeout", "1", "--", "yes") as process:
        assert process.wait(30) == 124


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_an_interrupted_run_leaves_nothing_running(run: tuple[str, ...], number: int, code: int) -> None:
    mark = unique_seconds()
    line = f"setsid sleep {mark} & echo begun; sleep {mark}"
    with started(*run, "--shell", "--", line, preexec_fn=default_interrupts) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.wait(30) == code
        assert process.stderr.read() == (b"sandbox-kit: interrupted\n" if code == 130 else b"")
    assert eventually(lambda: not living(mark))


def test_ctrl_c_at_a_terminal_leaves_nothing_running(run: tuple[str, ...]) -> None:
    mark = unique_seconds()
    ended = at_terminal(*run, "--shell", "--", f"echo begun; sleep {mark}", answer=b"\x03", when=b"begun")
    assert ended.code == 130
    assert ended.screen.endswith(b"sandbox-kit: interrupted\r\n")
    assert eventually(lambda: not living(mark))


def test_a_reader_that_leaves_ends_the_command_silently(run: tuple[str, ...]) -> None:
    with started(*run, "--", "yes") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert (process.wait(30), process.stderr.read()) == (141, b"")


def test_json_holds_the_whole_result(run: tuple[str, ...]) -> None:
    done = kit(*run, "--json", "--", "sh", "-c", "printf 'caf\\303\\251\\377'; echo err >&2; exit 3")
    document = json.loads(done.stdout)
    assert document.pop("duration") > 0
    assert document == {
        "exit_code": 3,
        "stdout": "café\ufffd",
        "stderr": "err\n",
        "truncated": False,
        "timed_out": False,
    }
    assert done.returncode == 3


def test_json_at_the_time_limit_holds_what_was_printed(run: tuple[str, ...]) -> None:
    done = kit(*run, "--json", "--timeout", "1", "--", "sh", "-c", "echo begun; sleep 60")
    document = json.loads(done.stdout)
    assert (document["exit_code"], document["stdout"], document["timed_out"]) == (None, "begun\n", True)
    assert done.returncode == 124


@pytest.mark.needs("bwrap")
def test_by_default_a_command_cannot_see_credentials(project: Path) -> None:
    done = kit("run", "--root", str(project), "--", "find", ".", "-type", "f", "-exec", "cat", "{}", "+")
    assert b"bake bread" in done.stdout
    assert b"t0p" not in done.stdout + done.stderr


@pytest.mark.needs("bwrap")
def test_rules_reach_what_a_command_searches(project: Path) -> None:
    done = kit("run", "--root", str(project), "--rules", "secrets", "--", "grep", "-rn", "TO", ".")
    assert sorted(line.split(b":")[0] for line in done.stdout.splitlines()) == [b"./notes.txt", b"./src/app.py"]


def test_a_refused_command_names_the_rule(project: Path) -> None:
    done = kit("run", "--root", str(project), "--commands", "inspected", "--", "cat", ".env")
    assert (done.returncode, done.stdout) == (126, b"")
    assert done.stderr.decode() == f"sandbox-kit: read {project}/.env: denied by rule deny **/.env\n"


def test_where_nothing_can_confine_the_package_and_the_option_are_named(project: Path, tmp_path: Path) -> None:
    done = kit("run", "--root", str(project), "--", "ls", env=without_bubblewrap(tmp_path))
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"apt install bubblewrap" in done.stderr
    assert b"--commands inspected" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_confinement_that_is_insisted_on_is_never_given_up(project: Path, tmp_path: Path) -> None:
    options = ("run", "--root", str(project), "--commands", "confined")
    done = kit(*options, "--", "ls", env=without_bubblewrap(tmp_path))
    assert (done.returncode, done.stdout) == (126, b"")
    assert b"apt install bubblewrap" in done.stderr


def test_without_bubblewrap_an_inspected_command_runs(project: Path, tmp_path: Path) -> None:
    options = ("run", "--root", str(project), "--commands", "inspected")
    done = kit(*options, "--", "ls", env=without_bubblewrap(tmp_path))
    assert (done.returncode, done.stdout) == (0, b"link\nnotes.txt\nsrc\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "a command is missing: put it after --"),
        (("--timeout", "0", "--", "ls"), 2, "timeout: 0.0 is not a positive number of seconds"),
        (("--root", "no-such-directory", "--", "ls"), 125, "no such file or directory"),
        (("--commands", "none", "--", "ls"), 2, "argument --commands: invalid choice: 'none'"),
        (("--cwd", "missing", "--", "ls"), 125, "missing: no such file or directory"),
    ],
    ids=["no-command", "zero-timeout", "no-root", "unknown-mode", "no-cwd"],
)
def test_what_cannot_be_run_is_one_line(project: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    done = kit("run", "--commands", "inspected", *arguments, cwd=project)
    assert (done.returncode, done.stdout) == (code, b"")
    assert done.stderr.startswith(b"sandbox-kit: ")
    assert message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_an_option_of_the_command_itself_needs_the_two_dashes(project: Path) -> None:
    done = kit("run", "--root", str(project), "ls", "-la")
    assert done.returncode == 2
    assert b"a command and its options go after --" in done.stderr
