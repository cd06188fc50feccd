"""What commands of the real service are kept from, and what of theirs comes back, beyond the conformance suite."""

from __future__ import annotations

import hashlib
import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox_kit.backends.remote import RemoteSandbox
from sandbox_kit.cancelling import Cancelled, cancellable
from sandbox_kit.errors import CommandTimeoutError, PathError, UnsupportedError

BEAT = "while :; do echo x >> beat; sleep 0.05; done"
SOON = 30.0


def beats(box: RemoteSandbox) -> bool:
    """Whether something still writes to the file ``beat``."""
    before = box.stat("beat").size
    time.sleep(0.3)
    return box.stat("beat").size != before


def test_a_list_of_processes_does_not_end_the_command_that_prints_it(box: RemoteSandbox) -> None:
    result = box.execute("cat /proc/*/cmdline /proc/*/environ; echo; echo the end; exit 3")
    assert result.exit_code == 3
    assert result.stdout.endswith("\nthe end\n")


def test_what_gave_up_its_parent_and_its_environment_ends_with_the_command(box: RemoteSandbox) -> None:
    wait = "while ! [ -s beat ]; do sleep 0.02; done"
    box.execute(f"(setsid env -i /bin/sh -c '{BEAT}' &) & {wait}", timeout=SOON, check=True)
    assert not beats(box)


def test_what_another_command_runs_goes_on(box: RemoteSandbox) -> None:
    with ThreadPoolExecutor(1) as pool:
        line = "(setsid sleep 3 &) ; touch begun; while ! [ -e ended ]; do sleep 0.05; done; pidof sleep"
        other = pool.submit(box.execute, line)
        while not box.exists("begun"):
            time.sleep(0.02)
        box.execute("true", check=True)
        box.write("ended", "")
        assert other.result(SOON).ok


def test_a_command_that_is_given_up_before_it_begins_does_not_begin(box: RemoteSandbox) -> None:
    with cancellable() as cancellation:
        timer = threading.Timer(0.005, cancellation.cancel)
        timer.start()
        with pytest.raises(Cancelled):
            box.execute("sleep 0.5; touch ran")
        timer.join()
    time.sleep(1)
    assert not box.exists("ran")


def test_ten_megabytes_of_output_come_whole_to_a_slow_reader(box: RemoteSandbox) -> None:
    taken: list[str] = []

    def take(stream: str, text: str) -> None:
        time.sleep(0.05)
        taken.append(text)

    result = box.execute("head -c 10000000 /dev/zero | tr '\\0' x", on_output=take, timeout=SOON)
    assert (len(result.stdout), result.truncated) == (10_000_000, False)
    assert "".join(taken) == result.output


def test_output_over_the_limit_is_cut_in_the_sandbox(box: RemoteSandbox) -> None:
    begun = time.monotonic()
    result = box.execute("head -c 300000000 /dev/zero", timeout=SOON)
    assert (len(result.stdout_bytes), result.truncated) == (10 * 2**20, True)
    assert time.monotonic() - begun < SOON


def test_a_partial_result_holds_what_is_too_long_for_an_answer(box: RemoteSandbox) -> None:
    with pytest.raises(CommandTimeoutError) as caught:
        box.execute("head -c 500000 /dev/zero; sleep 60", timeout=1)
    assert caught.value.result.stdout_bytes == bytes(500_000)


def test_a_command_line_that_is_too_long_for_one_argument_runs(box: RemoteSandbox) -> None:
    text = "x" * 300_000
    assert box.execute(f"printf %s '{text}' | wc -c").stdout.strip() == "300000"


def test_a_stream_is_read_to_its_end_and_given_whole(box: RemoteSandbox) -> None:
    data = bytes(range(256)) * 2**17
    assert (
        box.execute("sha256sum", stdin=io.BytesIO(data), timeout=SOON).stdout[:64] == hashlib.sha256(data).hexdigest()
    )


def test_much_goes_both_ways(box: RemoteSandbox, tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    block = bytes(range(256)) * 2**12
    with open(source, "wb") as stream:
        for number in range(40):
            stream.write(bytes([number]) + block)
    box.upload(source, "big")
    assert box.download("big", copy) == 0
    assert hashlib.sha256(copy.read_bytes()).digest() == hashlib.sha256(source.read_bytes()).digest()


def test_nothing_of_the_transport_is_left(box: RemoteSandbox) -> None:
    before = box.execute("ls -A /var/tmp").stdout
    box.write("f", b"x" * 2**20)
    box.read_bytes("f")
    box.execute("cat", stdin=b"y" * 2**20)
    assert box.execute("ls -A /var/tmp; ls -A").stdout == f"{before}f\n"


def test_a_disk_that_is_full_is_told_and_leaves_nothing(box: RemoteSandbox) -> None:
    box.execute("head -c 66000000 /dev/zero > /dev/shm/filling", check=True)
    with pytest.raises(PathError, match="space"):
        box.write("/dev/shm/more", b"x" * 2**21)
    assert box.execute("ls -A /dev/shm; rm /dev/shm/filling").stdout == "filling\n"


def test_threads_share_a_session(box: RemoteSandbox) -> None:
    def work(number: int) -> bool:
        box.write(f"d/{number}", str(number))
        return box.execute(f"cat d/{number}").stdout == box.read(f"d/{number}") == str(number)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


def test_another_user_is_refused(box: RemoteSandbox) -> None:
    with pytest.raises(UnsupportedError, match="user"):
        box.execute("touch ran", user=1000)
    assert not box.exists("ran")
