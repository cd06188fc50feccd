"""What a command gets and gives, on each image."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import CommandTimeoutError, InvalidArgumentError, SandboxError

from .channels import GUARD, MakeBox, nothing_left, works

STRANGE = "a'b\"c $HOME `id` \\ \n\t*?[ü\udcff ~ #; & | < > ( ) { } ! % = -"


@pytest.fixture(scope="module")
def plain_box(image: str, make_box: MakeBox) -> DockerSandbox:
    return make_box(image, user=1000, default_timeout=GUARD, env={"OF_SANDBOX": "x", "c": "1", "s": "2", "hold": "3"})


def test_every_exit_code_is_told(plain_box: DockerSandbox) -> None:
    for code in range(256):
        assert plain_box.execute(f"exit {code}").exit_code == code
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1, signal.SIGPIPE, signal.SIGHUP):
        assert plain_box.execute(f"kill -{number} $$").exit_code == 128 + number


@pytest.mark.parametrize(
    ("line", "output", "code"),
    [
        ("exit 3; echo never", "", 3),
        ("exec echo on", "on\n", 0),
        ("set -e; false; echo never", "", 1),
        ("trap 'echo bye' EXIT; echo hi", "hi\nbye\n", 0),
        ("trap '' TERM; kill $$; echo on", "on\n", 0),
        ("cd /; pwd", "/\n", 0),
        ("f() { echo in f; }; f", "in f\n", 0),
        ("exec >/dev/null; echo gone", "", 0),
        ("exec >&-; echo gone", "", 1),
        ("echo a; } ; echo b", "", 2),
        ("echo 'unended", "", 2),
        ("cat <<E\n$((1 + 1))\nE\necho on", "2\non\n", 0),
        ("cat <<'E'\n}\necho on", "}\necho on", 0),
        ("false\n", "", 1),
        ("# nothing", "", 0),
        (" ", "", 0),
        ("no-such-program", "", 127),
        ("/", "", 126),
        ("alias ls=false; umask 077; set -f -u -n", "", 0),
    ],
)
def test_a_line_is_what_it_is_to_a_shell(plain_box: DockerSandbox, line: str, output: str, code: int) -> None:
    result = plain_box.execute(line)
    assert (result.stdout.removesuffix("\n"), result.exit_code) == (output.removesuffix("\n"), code)
    works(plain_box)


def test_what_a_command_changes_is_its_own(plain_box: DockerSandbox) -> None:
    before = plain_box.execute("pwd; umask; env | grep -v '^_='; set -o; ulimit -a").stdout
    plain_box.execute("cd /; umask 077; export A=1; set -f; ulimit -n 20; trap 'x' EXIT; f() { :; }; alias a=b")
    plain_box.write("file", "x")
    assert plain_box.execute("pwd; umask; env | grep -v '^_='; set -o; ulimit -a").stdout == before


def test_arguments_lines_variables_and_directories_may_hold_anything(plain_box: DockerSandbox) -> None:
    strange = STRANGE
    assert plain_box.execute(["printf", "%s", strange, "", "-n"]).stdout_bytes == os.fsencode(strange + "-n")
    assert plain_box.execute(["/bin/sh", "-c", 'printf %s "$A"'], env={"A": strange}).stdout_bytes == os.fsencode(
        strange
    )
    every = bytes(range(1, 256)).decode("utf-8", "surrogateescape").replace("'", "")
    assert plain_box.execute(f"printf %s '{every}'").stdout_bytes == every.encode("utf-8", "surrogateescape")
    name = STRANGE.replace("\udcff", "")
    plain_box.mkdir(name)
    assert plain_box.execute("pwd", cwd=name).stdout == f"/workspace/{name}\n"


def test_variables_reach_the_command_whatever_their_names(plain_box: DockerSandbox) -> None:
    odd = {"a.b": "1", "x-y": "2", "1": "3", "PWD": "/", "IFS": "x", "OPTIND": "abc", "PATH": "/bin:/usr/bin", "_": "u"}
    told = plain_box.execute(["env"], env={**odd, "RANDOM": "5", "PS1": "p"}).stdout.splitlines()
    for name in ("a.b", "x-y", "1", "IFS", "OPTIND", "PATH"):
        assert f"{name}={odd[name]}" in told
    assert "RANDOM=5" in told
    own = plain_box.execute("echo $OF_SANDBOX $c $s $hold; env").stdout
    assert own.startswith("x 1 2 3\n")
    for name in ("", "a=b"):
        with pytest.raises(InvalidArgumentError):
            plain_box.execute("true", env={name: "x"})


@pytest.mark.parametrize("size", [100_000, 126_000, 131_072, 1_000_000])
def test_a_long_line_runs(plain_box: DockerSandbox, size: int) -> None:
    text = "x" * (size - 40)
    line = f"printf %s '{text}' | wc -c; exit 7"
    result = plain_box.execute(line)
    assert (result.stdout.strip(), result.exit_code) == (str(len(text)), 7)
    assert plain_box.execute(f": '{text}'\necho 'unended").exit_code == 2


def test_too_much_for_the_system_is_refused_by_it(plain_box: DockerSandbox) -> None:
    assert plain_box.execute("true", env={f"V{n}": "x" * 1000 for n in range(500)}).exit_code == 0
    result = plain_box.execute(["echo", "x" * 200_000])
    assert result.exit_code in (2, 126)
    assert "rgument list too long" in result.stderr
    works(plain_box)


@pytest.mark.parametrize("command", ["echo a\0b", ["echo", "a\0b"]])
def test_a_nul_is_refused(plain_box: DockerSandbox, command: str | list[str]) -> None:
    with pytest.raises(InvalidArgumentError):
        plain_box.execute(command)
    with pytest.raises(InvalidArgumentError):
        plain_box.execute("true", env={"A": "a\0b"})


def test_streams_are_apart_whole_and_in_order(plain_box: DockerSandbox) -> None:
    line = "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i + 1)); done"
    for _ in range(5):
        result = plain_box.execute(line)
        assert result.stdout == "".join(f"out {i}\n" for i in range(300))
        assert result.stderr == "".join(f"err {i}\n" for i in range(300))


def test_binary_output_is_whole(plain_box: DockerSandbox) -> None:
    result = plain_box.execute("head -c 3000000 /dev/urandom >data; md5sum <data >&2; cat data")
    assert len(result.stdout_bytes) == 3_000_000
    assert hashlib.md5(result.stdout_bytes).hexdigest() == result.stderr.split()[0]


def test_output_over_its_limit_is_cut(plain_box: DockerSandbox) -> None:
    began = time.monotonic()
    result = plain_box.execute("yes 0123456789 | head -c 50000000; echo last >&2", max_output="1m")
    assert (len(result.stdout_bytes) + len(result.stderr_bytes), result.truncated) == (2**20, True)
    assert time.monotonic() - began < GUARD


@pytest.mark.parametrize("size", [0, 1, 65_536, 5_000_000])
def test_input_is_read_whole(plain_box: DockerSandbox, size: int, tmp_path: Path) -> None:
    data = os.urandom(size)
    assert plain_box.execute("cat", stdin=data).stdout_bytes == data
    (tmp_path / "data").write_bytes(data)
    with open(tmp_path / "data", "rb") as file:
        assert plain_box.execute("cat", stdin=file).stdout_bytes == data
    assert plain_box.execute("cat", stdin=io.BytesIO(data)).stdout_bytes == data


def test_without_input_there_is_none(plain_box: DockerSandbox) -> None:
    assert plain_box.execute("cat; read -r line; echo $?").stdout == "1\n"


def test_input_that_nobody_reads_holds_nothing_up(plain_box: DockerSandbox) -> None:
    assert plain_box.execute("echo on", stdin=b"x" * 5_000_000).stdout == "on\n"
    assert plain_box.execute("head -c 10", stdin=b"x" * 5_000_000).stdout == "x" * 10


def test_a_pipe_that_stays_open_holds_nothing_up(plain_box: DockerSandbox) -> None:
    far, near = os.pipe()
    with open(far, "rb") as source, open(near, "wb", buffering=0) as sink:
        sink.write(b"line\n")
        assert plain_box.execute("read -r line; echo got $line", stdin=source).stdout == "got line\n"
    works(plain_box)


def test_a_directory_that_is_gone_or_replaced_starts_nothing(
    plain_box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_box.execute("mkdir -p gone moved; rm -rf link; ln -s / link")
    for target in ("gone-by-now", "link"):
        monkeypatch.setattr(DockerSandbox, "_judge", lambda *_, target=target: f"/workspace/{target}")
        for stdin in (None, b"x"):
            result = plain_box.execute("echo never", stdin=stdin)
            assert (result.stdout, result.exit_code) == ("", 126)


def test_users_by_name_and_number(plain_box: DockerSandbox) -> None:
    assert plain_box.execute("id -u").stdout == "1000\n"
    assert plain_box.execute("id -u", user="root").stdout == "0\n"
    assert plain_box.execute("id -u", user=0, stdin=b"").stdout == "0\n"
    assert plain_box.execute("id -u", user=1234).stdout == "1234\n"
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="no-such-user"):
            plain_box.execute("id -u", user="no-such-user")
    works(plain_box)


class StopHere(Exception):
    """Raised by a caller's own function."""


@pytest.mark.parametrize("stdin", [None, b"x"])
def test_an_error_of_the_callers_ends_the_command(
    engine: Engine, plain_box: DockerSandbox, stdin: bytes | None
) -> None:
    def fail(_stream: str, _text: str) -> None:
        raise StopHere

    with pytest.raises(StopHere):
        plain_box.execute("setsid sleep 1000 & echo on; sleep 1000", on_output=fail, stdin=stdin)
    assert nothing_left(engine, plain_box)
    works(plain_box)


@pytest.mark.parametrize("stdin", [None, b"x"])
def test_an_interrupt_ends_the_command(engine: Engine, plain_box: DockerSandbox, stdin: bytes | None) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        plain_box.execute("setsid sleep 1000 & sleep 1000", stdin=stdin)
    timer.join()
    assert nothing_left(engine, plain_box)
    works(plain_box)


@pytest.mark.parametrize("stdin", [None, b"x"])
def test_a_time_limit_ends_the_command(engine: Engine, plain_box: DockerSandbox, stdin: bytes | None) -> None:
    with pytest.raises(CommandTimeoutError) as caught:
        plain_box.execute("echo on; setsid sleep 1000 & trap '' TERM INT; sleep 1000", timeout=2, stdin=stdin)
    assert (caught.value.result.stdout, caught.value.result.exit_code) == ("on\n", None)
    assert nothing_left(engine, plain_box)
    works(plain_box)


@pytest.mark.parametrize("stdin", [None, b"x"])
def test_a_listener_uses_the_sandbox_whether_the_command_has_ended_or_not(
    engine: Engine, plain_box: DockerSandbox, stdin: bytes | None
) -> None:
    def listen(stream: str, text: str) -> None:
        plain_box.write("heard", text)
        time.sleep(0.5)
        plain_box.write("heard", plain_box.read("heard") * 2)
        with plain_box.spawn("cat heard") as process:
            heard.extend(process.stdout)
        heard.append(plain_box.execute("cat heard", user="root", timeout=GUARD).stdout)

    for line in ("(sleep 100 &) ; echo x", "echo x; sleep 1"):
        heard: list[str] = []
        assert plain_box.execute(line, stdin=stdin, on_output=listen, timeout=GUARD).stdout == "x\n"
        assert heard == ["x\n", "x\n", "x\nx\n"]
    works(plain_box)
    assert nothing_left(engine, plain_box)


def test_output_arrives_while_the_command_runs(plain_box: DockerSandbox) -> None:
    arrived: list[tuple[str, str]] = []
    with pytest.raises(SandboxError):
        plain_box.execute("echo one; echo two >&2; sleep 1000", on_output=lambda *got: arrived.append(got), timeout=1)
    assert sorted(arrived) == [("stderr", "two\n"), ("stdout", "one\n")]
