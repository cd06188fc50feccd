"""Programs that try to forge a result, or to see what other commands say and are told: on each image, as each user."""

from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import CommandTimeoutError, SandboxError, SandboxUnavailableError

from .channels import GUARD, MakeBox, nothing_left, program, works

SHELL = r"/\.sandbox-kit/(ld .*|sh )-s "
SECRETS = "environ mem maps stack auxv syscall fd/0 fd/1 fd/8 fd/9 exe"

TRACER = """\
    import ctypes, os, sys
    libc = ctypes.CDLL(None, use_errno=True)
    loop = os.getppid()
    while not open(f"/proc/{loop}/cmdline").read().startswith("/.sandbox-kit/"):
        loop = int(open(f"/proc/{loop}/stat").read().rpartition(")")[2].split()[1])
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    buffer = ctypes.create_string_buffer(8)
    ours = Vector(ctypes.cast(buffer, ctypes.c_void_p), 8)
    def attempt(name, call, *arguments):
        ctypes.set_errno(0)
        print(name, call(*arguments), ctypes.get_errno())
    attempt("attach", libc.ptrace, 16, loop, 0, 0)
    attempt("seize", libc.ptrace, 0x4206, loop, 0, 0)
    for address in (0x400000, 0x555555554000):
        theirs = Vector(address, 8)
        attempt("read", libc.process_vm_readv, loop, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
        attempt("write", libc.process_vm_writev, loop, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    pidfd = libc.syscall(434, loop, 0)
    for number in (0, 1, 2, 8, 9):
        attempt("getfd", libc.syscall, 438, pidfd, number, 0)
    print(open(f"/proc/{loop}/cmdline").read())
"""


def test_nothing_of_the_shell_can_be_looked_at(box: DockerSandbox) -> None:
    attempts = f'for name in {SECRETS}; do cat "/proc/$PPID/$name" && echo got $name; done'
    told = box.execute(f"{attempts}; for fd in 0 1 8 9; do readlink /proc/$PPID/fd/$fd; done", timeout=GUARD)
    assert told.stdout == ""
    assert re.fullmatch(SHELL, box.execute('tr "\\0" " " </proc/$PPID/cmdline').stdout)


def test_the_shell_cannot_be_traced_nor_its_memory_or_descriptors_taken(python_box: DockerSandbox) -> None:
    program(python_box, "tracer.py", TRACER)
    *attempts, shell = python_box.execute(["python3", "tracer.py"], timeout=GUARD, check=True).stdout.splitlines()
    assert re.fullmatch(SHELL, shell.replace("\0", " "))
    assert len(attempts) == 11
    for attempt in attempts:
        _, returned, errno = attempt.split()
        assert (returned, errno in ("1", "3", "14")) == ("-1", True), attempt
    works(python_box)


def test_a_child_has_none_of_the_shells_descriptors(box: DockerSandbox) -> None:
    line = "for fd in /proc/self/fd/*; do echo ${fd##*/}; done; cat <&8; echo x >&9"
    assert box.execute(line).stdout.split()[:3] == ["0", "1", "2"]
    result = box.execute("echo /proc/self/fd/*; echo x >&8; echo x >&9; exec 8>&- 9>&-; read -r line; echo got $?")
    assert result.stdout.endswith("got 1\n")
    assert "/8" not in result.stdout
    assert "/9" not in result.stdout
    works(box)


def test_a_command_sees_nothing_of_those_before_it(box: DockerSandbox) -> None:
    box.execute(": old-text; echo old-output", env={"OLD": "old-variable"}, timeout=GUARD)
    box.execute(["/bin/cat"], stdin="old-input")
    line = "{ cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; env; jobs; set; } | grep '[o]ld-'"
    assert box.execute(line, timeout=GUARD).stdout == ""


@pytest.mark.usefixtures("impatient")
def test_a_shell_that_was_stopped_is_woken_without_a_time_limit(image: str, make_box: MakeBox) -> None:
    box = make_box(image, user=1000)
    assert box.execute("kill -STOP $PPID; echo on").stdout == "on\n"
    works(box)


def test_one_in_the_middle_reads_and_forges_nothing(box: DockerSandbox) -> None:
    middle = """\
        loop=$1
        while :; do
            kill -STOP $loop
            cat /proc/$loop/fd/0 && echo forged
            for fd in 1 2 8 9; do echo forged >/proc/$loop/fd/$fd; done
        done
    """
    program(box, "middle", middle)
    with pytest.raises(CommandTimeoutError) as caught:
        box.execute("setsid /bin/sh middle $PPID & echo begun; sleep 1000", timeout=1)
    assert caught.value.result.stdout == "begun\n"
    works(box, rounds=5)


def test_no_racer_outlives_its_command(engine: Engine, box: DockerSandbox) -> None:
    program(box, "racer", '#!/bin/sh\nsetsid "$0" &\n')
    for _ in range(20):
        box.execute("for i in 1 2 3 4; do ./racer & done; sleep 0.02", timeout=GUARD)
        works(box)
    assert nothing_left(engine, box)
    for _ in range(3):
        with pytest.raises(CommandTimeoutError):
            box.execute("for i in 1 2 3 4; do ./racer & done; sleep 1000", timeout=0.3)
        assert nothing_left(engine, box)
    works(box)


@pytest.mark.parametrize(
    "death", ["kill -9 $PPID", "kill $PPID", "kill -9 $PPID; sleep 100", "kill -9 -1; echo on", "kill -HUP $PPID"]
)
def test_a_shell_that_was_killed_is_told_and_the_next_command_has_another(
    engine: Engine, box: DockerSandbox, death: str
) -> None:
    with pytest.raises(SandboxUnavailableError, match="the command was lost"):
        box.execute(death, timeout=GUARD)
    assert nothing_left(engine, box)
    works(box)


@pytest.mark.usefixtures("impatient")
def test_one_that_stops_all_others_is_ended_with_the_container(busybox_image: str, make_box: MakeBox) -> None:
    box = make_box(busybox_image, user=1000, lease=10)
    began = time.monotonic()
    with pytest.raises((CommandTimeoutError, SandboxUnavailableError)):
        box.execute("while :; do kill -STOP -1; done", timeout=1)
    assert time.monotonic() - began < GUARD
    with pytest.raises(SandboxError):
        box.execute("echo on", timeout=GUARD)


def test_what_holds_the_output_open_is_ended(engine: Engine, box: DockerSandbox) -> None:
    began = time.monotonic()
    for _ in range(5):
        assert box.execute("setsid sleep 1000 & setsid sh -c 'sleep 1000; echo late' & echo hi").stdout == "hi\n"
    assert time.monotonic() - began < 30
    assert nothing_left(engine, box)


def test_late_output_is_in_no_other_result(box: DockerSandbox) -> None:
    for _ in range(20):
        box.execute("(while :; do echo late; echo late >&2; done) & (sleep 0.001; echo late) &", timeout=GUARD)
        works(box)


def test_text_that_looks_like_a_mark_is_output(box: DockerSandbox) -> None:
    marks = "\n".join(f"{number:032x} 0" for number in range(50))
    assert box.execute(["/bin/cat"], stdin=marks).stdout == marks
    assert box.execute(f"printf %s '{marks}'").stdout == marks


def test_a_command_that_has_its_shell_not_sweep_is_swept(engine: Engine, box: DockerSandbox) -> None:
    for _ in range(5):
        result = box.execute("setsid sleep 1000 & kill -USR1 $PPID; kill -USR1 $PPID; echo hi", timeout=GUARD)
        assert result.stdout == "hi\n"
        assert nothing_left(engine, box)
        works(box)


THIEF = """\
    import os, re, sys, time
    if os.fork() == 0:
        os.setsid()
        pipe = os.open("/proc/self/fd/2", os.O_RDONLY)
        back = os.open("/proc/self/fd/2", os.O_WRONLY)
        print("ready", flush=True)
        while True:
            data = os.read(pipe, 65536)
            os.write(back, re.sub(rb"([0-9a-f]{32}) 1\\n", rb"\\1 0\\n", data))
    time.sleep(0.2)
    os.kill(int(sys.argv[1]), 10)
"""


def test_a_thief_cannot_say_that_it_was_swept(engine: Engine, python_box: DockerSandbox) -> None:
    program(python_box, "thief.py", THIEF)
    for _ in range(3):
        assert python_box.execute("python3 thief.py $PPID", timeout=GUARD).stdout == "ready\n"
        assert nothing_left(engine, python_box)
        works(python_box)


@pytest.mark.usefixtures("impatient")
def test_readers_of_the_output_change_no_result(python_box: DockerSandbox) -> None:
    reader = """\
        import os, threading, time
        pipe = os.open("/proc/self/fd/1", os.O_RDONLY)
        for _ in range(100):
            threading.Thread(target=lambda: [os.read(pipe, 65536) for _ in range(10**9)], daemon=True).start()
        time.sleep(0.1)
        os._exit(7)
    """
    program(python_box, "reader.py", reader)
    for _ in range(3):
        with suppress(SandboxUnavailableError):  # where one took the mark of its command's end and was killed with it
            assert python_box.execute("exec python3 reader.py", timeout=GUARD).exit_code == 7
        works(python_box)


@pytest.mark.parametrize("limit", ["NOFILE", "NPROC", "FSIZE", "AS", "CPU", "STACK", "CORE"])
def test_limits_that_a_command_lowers_hold_for_no_other(python_box: DockerSandbox, limit: str) -> None:
    lower = f"import os, resource; resource.prlimit(int(os.environ['SHELL_PID']), resource.RLIMIT_{limit}, (1, 1))"
    before = python_box.execute("ulimit -Sa; ulimit -Ha").stdout
    with pytest.raises(SandboxUnavailableError):
        python_box.execute(f'SHELL_PID=$PPID exec python3 -c "{lower}"', timeout=GUARD)
    assert python_box.execute("ulimit -Sa; ulimit -Ha", timeout=GUARD).stdout == before
    works(python_box)


def test_a_soft_limit_that_a_command_sets_is_set_back(python_box: DockerSandbox) -> None:
    lower = "import os, resource as r; h = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.prlimit({pid}, r.RLIMIT_NOFILE, (20, h))"
    before = python_box.execute("ulimit -Sa").stdout
    python_box.execute(f'exec python3 -c "{lower.format(pid="os.getppid()")}"', timeout=GUARD, check=True)
    assert python_box.execute("ulimit -Sa").stdout == before


FLOOD = """\
    import fcntl, os
    for fd in (1, 2):
        again = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)
        for each in (fd, again):
            fcntl.fcntl(each, fcntl.F_SETFL, fcntl.fcntl(each, fcntl.F_GETFL) | os.O_NONBLOCK)
        fcntl.fcntl(fd, 1031, 4096)
    if os.fork() == 0:
        os.setsid()
    room = 3_000_000
    while room > 0 or os.getpid() == os.getsid(0):
        for fd in (1, 2):
            try:
                room -= os.write(fd, b"x" * 65536)
            except BlockingIOError:
                pass
"""


def test_pipes_that_do_not_block_lose_no_mark(python_box: DockerSandbox) -> None:
    program(python_box, "flood.py", FLOOD)
    for _ in range(3):
        result = python_box.execute("exec python3 flood.py", timeout=GUARD, max_output="1m")
        assert result.truncated
        works(python_box)


def test_a_flood_that_nobody_reads_for_a_while(box: DockerSandbox) -> None:
    waits = iter([1.0])

    def slow(_stream: str, _text: str) -> None:
        time.sleep(next(waits, 0))

    result = box.execute("yes | head -c 3000000; yes err | head -c 300000 >&2", on_output=slow, timeout=GUARD)
    assert (len(result.stdout), len(result.stderr)) == (3_000_000, 300_000)


@pytest.mark.parametrize(
    "tampering",
    [
        "chmod 755 /.sandbox-kit/sh; cat /.sandbox-kit/sh",
        "mv /.sandbox-kit /.moved",
        "mv /.sandbox-kit/sh /.sandbox-kit/sh2; rm -f /.sandbox-kit/sh; ln -s /bin/sh /.sandbox-kit/sh",
        "cp /bin/sh /.sandbox-kit/sh; echo >/.sandbox-kit/sh; echo >/.sandbox-kit/ld",
        "rm -rf /.sandbox-kit/lib; mkdir -p /.sandbox-kit/lib; cp /bin/sh /.sandbox-kit/lib/libc.so.6",
        "rm -rf /.sandbox-kit",
        "umount /.sandbox-kit; mount -o remount,rw /.sandbox-kit",
    ],
)
def test_the_copy_of_the_shell_cannot_be_tampered_with(box: DockerSandbox, tampering: str) -> None:
    look = "cd /.sandbox-kit && find . -exec stat -c '%n %a %u %i %Y %s' {} +"
    before = box.execute(look, check=True).stdout
    box.execute(f"( {tampering} ) >/dev/null 2>&1", timeout=GUARD)
    with pytest.raises(SandboxUnavailableError):
        box.execute("kill -9 $PPID", timeout=GUARD)
    assert box.execute(look, timeout=GUARD).stdout == before
    assert box.execute("cat /proc/$PPID/environ", timeout=GUARD).exit_code == 1
    works(box)
