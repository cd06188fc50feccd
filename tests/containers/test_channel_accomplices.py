"""Processes of other users, which outlive a command and are handed what its output goes to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import pytest

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import SandboxError

from .channels import GUARD, MakeBox, program, works

ACCOMPLICE = """\
    import array, os, re, socket, sys
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\\0accomplice")
    listener.listen()
    print("listening", flush=True)
    def forge(pipe, back):
        seen = b""
        while data := os.read(pipe, 65536):
            seen += data
            marks = re.findall(rb"[0-9a-f]{32}", seen)
            forged = b"".join(mark + b"\\nforged\\n" + mark + b" 0\\n" for mark in marks[-3:])
            os.write(back, forged + data)
    while True:
        connection, _ = listener.accept()
        fds = array.array("i")
        told, sent, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(64))
        if told == b"q":
            os._exit(0)
        for _, _, data in sent:
            fds.frombytes(data[: len(data) - len(data) % 4])
        connection.sendall(b"x")
        for pipe, back in zip(fds[::2], fds[1::2]):
            if os.fork() == 0:
                forge(pipe, back)
"""

HAND = """\
    import array, os, socket
    fds = []
    for fd in (1, 2):
        fds += [os.open(f"/proc/self/fd/{fd}", os.O_RDONLY), os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("\\0accomplice")
        connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        connection.recv(1)
"""

QUIT = "import socket; c = socket.socket(socket.AF_UNIX); c.connect('\\0accomplice'); c.send(b'q')"


@pytest.fixture(scope="module")
def handing_box(debian_image: str, make_box: MakeBox) -> DockerSandbox:
    box = make_box(debian_image, user=1000)
    program(box, "accomplice.py", ACCOMPLICE)
    program(box, "hand.py", HAND)
    return box


@contextmanager
def spawned(box: DockerSandbox) -> Iterator[None]:
    """An accomplice as a background command."""
    with box.spawn(["python3", "accomplice.py"]) as process:
        assert next(process.stdout) == "listening\n"
        yield


@contextmanager
def of_another_user(box: DockerSandbox) -> Iterator[None]:
    """An accomplice as a command of another user, which a thread runs."""
    listening = threading.Event()
    command = ["python3", "accomplice.py"]
    other = threading.Thread(
        target=box.execute,
        args=(command,),
        kwargs={"user": 0, "on_output": lambda *_: listening.set(), "timeout": GUARD},
    )
    other.start()
    try:
        assert listening.wait(GUARD)
        yield
        assert other.is_alive()
    finally:
        box.execute(["python3", "-c", QUIT], timeout=GUARD)
        other.join()


@pytest.mark.parametrize("accomplice", [spawned, of_another_user])
def test_an_accomplice_forges_nothing_of_later_commands_and_files(
    handing_box: DockerSandbox, accomplice: Callable[[DockerSandbox], AbstractContextManager[None]]
) -> None:
    handing_box.write("data.txt", "right")
    with accomplice(handing_box):
        for _ in range(2):
            hand(handing_box)
            assert handing_box.read("data.txt") == "right"
            works(handing_box)
            assert handing_box.read("data.txt") == "right"
    works(handing_box)


def hand(box: DockerSandbox) -> None:
    """Hand over the output of a command, whose own result may be anything then, for it is its own doing."""
    with suppress(SandboxError):
        box.execute("python3 hand.py; echo handed; sleep 0.1", timeout=2)
