"""Scripts whose two streams come back in one text: exact, of any size, cut where only so much is wanted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_kit.backends.shell.ending import abort, timed
from sandbox_kit.backends.shell.packing import Package, inline
from sandbox_kit.errors import RemoteProtocolError
from sandbox_kit.output import Stream
from tests.shell.backends import KINDS, environment
from tests.shell.oneshots import MOST
from tests.shell.pipes import SHELLS

SCRIPTS = {
    "nothing": (b"", b"", b""),
    "both": (b"echo out; echo err >&2", b"out\n", b"err\n"),
    "bytes": (b"printf 'a\\000\\377\\n'; printf '\\200' >&2", b"a\0\xff\n", b"\x80"),
    "a name that is no UTF-8": (b"printf %s '\xff\x81'", b"\xff\x81", b""),
    "much": (b"head -c 300000 /dev/zero; head -c 90000 /dev/zero >&2", bytes(300_000), bytes(90_000)),
    "as much as fits": (b"head -c 66000 /dev/zero", bytes(66_000), b""),
    "one more": (b"head -c 66001 /dev/zero", bytes(66_001), b""),
}

Run = Callable[[str], str]


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, needs: Callable[..., None]) -> Run:
    """Runs a command line as a provider does: one text, cut."""
    kind = request.param
    needs("dash" if kind == "dash" else "busybox")

    def run(line: str) -> str:
        argv = [*SHELLS[kind][:-1], "-c", line]
        done = subprocess.run(argv, env=environment(kind), capture_output=True, timeout=30, check=False)
        assert len(done.stdout + done.stderr) <= MOST
        return (done.stdout + done.stderr).decode(errors="replace")

    return run


def unpacked(package: Package, answer: str) -> dict[Stream, bytes]:
    """Return what both streams held."""
    streams = package.unwrap(answer)
    assert streams is not None
    found: dict[Stream, bytes] = {}
    for stream, packed in streams.items():
        parts = [Path(part.path).read_bytes() for part in packed.parts]
        assert [len(part) for part in parts] == [part.size for part in packed.parts]
        found[stream] = b"".join([packed.first, *parts, packed.last])
    return found


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("piece", [2**16, 2**20])
def test_both_streams_come_back_as_they_were(run: Run, tmp_path: Path, name: str, piece: int) -> None:
    script, out, err = SCRIPTS[name]
    package = Package(str(tmp_path), piece)
    assert unpacked(package, run(package.wrap(script))) == {"stdout": out, "stderr": err}


def test_of_more_than_is_wanted_the_end_is_kept(run: Run, tmp_path: Path) -> None:
    package = Package(str(tmp_path), 2**16, limit=100_000)
    found = unpacked(package, run(package.wrap(b"head -c 5000000 /dev/zero; echo the end")))
    assert found["stdout"].startswith(bytes(100_000))
    assert found["stdout"].endswith(b"the end\n")
    assert len(found["stdout"]) < 300_000


@pytest.mark.parametrize("data", [b"", b"text\n", bytes(range(256)) * 50], ids=["nothing", "text", "bytes"])
def test_a_script_reads_what_it_is_given(run: Run, tmp_path: Path, data: bytes) -> None:
    package = Package(str(tmp_path))
    assert unpacked(package, run(package.wrap(b"cat", inline([data]))))["stdout"] == data


def test_who_sees_the_line_does_not_see_the_script(tmp_path: Path) -> None:
    line = Package(str(tmp_path)).wrap(b"echo the-mark", label="the-label")
    assert "the-mark" not in line
    assert "the-label" in line


def test_what_is_no_answer_of_the_script_is_told_from_one(run: Run, tmp_path: Path) -> None:
    package, other = Package(str(tmp_path)), Package(str(tmp_path))
    answer = run(package.wrap(b"echo x"))
    for wrong in ("", "sh: cannot fork", answer[: len(answer) // 2]):
        assert package.unwrap(wrong) is None
    assert other.unwrap(answer) is None
    with pytest.raises(RemoteProtocolError):
        package.unwrap(re.sub("^eAo=$", "e*o=", answer, flags=re.MULTILINE))


def test_a_command_ends_at_its_limit_with_all_that_it_started(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    body = f"(setsid sh -c 'while :; do echo x >> {beat}; sleep 0.05; done' &) & sleep 60; c=$?"
    script = timed(body, "token", 0.5, str(tmp_path / "tombstone"))
    done = subprocess.run(["sh", "-c", f'{script}\necho "$s"'], capture_output=True, timeout=30, check=False)
    assert done.stdout == b"1\n"
    size = beat.stat().st_size
    assert size
    threading.Event().wait(0.2)
    assert beat.stat().st_size == size


def test_a_command_that_was_given_up_is_dead_or_does_not_begin(tmp_path: Path) -> None:
    tombstone, ran = tmp_path / "tombstone", tmp_path / "ran"
    script = timed(f"touch {ran}; sleep 60; c=$?", "some-token", 60, str(tombstone))
    ending = abort("some-token", str(tombstone))
    subprocess.run(["sh", "-c", ending], timeout=30, check=False)
    assert tombstone.exists()
    done = subprocess.run(["sh", "-c", f": some-token\n{script}"], timeout=30, check=False)
    assert (done.returncode, ran.exists(), tombstone.exists()) == (1, False, False)
    with subprocess.Popen(["sh", "-c", f": some-token\n{script}"], start_new_session=True) as program:
        while not ran.exists():
            assert program.poll() is None
        subprocess.run(["sh", "-c", ending], timeout=30, check=False)
        assert program.wait(30) == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["ran"]
