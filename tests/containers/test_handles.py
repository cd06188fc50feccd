"""Several handles on one sandbox, in one process and in several: they take turns, and end nothing of each other's."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import UnsupportedError

from .channels import GUARD

ROUNDS = 15
WORKER = f"""
import pickle, sys
sandbox = pickle.loads(sys.stdin.buffer.read())
sandbox.start()
for number in range({ROUNDS}):
    sandbox.write(f"of {{sandbox.id}} {{number}}", "text")
    assert sandbox.execute(f"(sleep 100 &) ; sleep 0.01; echo {{number}}", timeout={GUARD}).stdout == f"{{number}}\\n"
    assert sandbox.read(f"of {{sandbox.id}} {{number}}") == "text"
with sandbox.spawn("sleep 0.2; echo done") as process:
    assert list(process.stdout) == ["done\\n"]
print("fine")
"""


@pytest.fixture
def sandbox(image: str) -> Iterator[DockerSandbox]:
    made = DockerSandbox(image)
    with made:
        yield made


def copy_of(sandbox: DockerSandbox) -> DockerSandbox:
    copied: DockerSandbox = pickle.loads(pickle.dumps(sandbox))
    return copied


def test_a_command_from_within_a_listener_is_refused_at_once(sandbox: DockerSandbox) -> None:
    handles, refused = (sandbox, copy_of(sandbox).start()), []

    def listen(stream: str, text: str) -> None:
        for handle in handles:
            with pytest.raises(UnsupportedError, match="on_output"):
                handle.execute("echo never", timeout=GUARD)
            refused.append(handle)
        with pytest.raises(UnsupportedError, match="another handle"):
            handles[1].write("file", "text")

    assert sandbox.execute("echo x; sleep 0.1; exit 3", on_output=listen, timeout=GUARD).exit_code == 3
    assert refused == [*handles]
    for handle in handles:
        assert handle.execute("echo on", timeout=GUARD).stdout == "on\n"


def test_handles_of_one_process_take_turns(sandbox: DockerSandbox) -> None:
    handles = [sandbox, copy_of(sandbox).start(), copy_of(sandbox).start()]
    failures: list[BaseException] = []

    def use(handle: DockerSandbox, number: int) -> None:
        try:
            for turn in range(ROUNDS):
                text = f"{number} {turn}"
                handle.write(f"file {number}", text)
                assert handle.execute(f"(sleep 100 &); echo {text}", timeout=GUARD).stdout == f"{text}\n"
                assert handle.read(f"file {number}") == text
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(handle, number)) for number, handle in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD)
    assert failures == []


def test_handles_of_several_processes_take_turns(sandbox: DockerSandbox) -> None:
    sandbox.execute("true")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write(pickle.dumps(sandbox))
        process.stdin.close()
        process.stdin = None
    for _ in range(ROUNDS):
        assert sandbox.execute("echo here", timeout=GUARD).stdout == "here\n"
    assert [process.communicate(timeout=GUARD)[0] for process in started] == [b"fine\n"] * 3
    assert sandbox.execute("echo here", timeout=GUARD).stdout == "here\n"
