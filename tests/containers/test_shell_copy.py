"""The shell that runs commands: no command has a part in it, not even root's, who may spoil the image's libraries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.backends.docker.elf import needs_of
from sandbox_kit.backends.docker.shellcopy import copy_shell
from sandbox_kit.errors import SandboxUnavailableError

START = "/.sandbox-kit/ld --inhibit-cache --library-path /.sandbox-kit/lib /.sandbox-kit/sh -c 'echo started' 2>&1"


def test_roots_commands_can_have_no_library_loaded_into_it(debian_image: str) -> None:
    with DockerSandbox(debian_image) as sandbox:
        assert sandbox.capabilities.channel == "isolated"
        sandbox.execute("echo /no/such/library.so >/etc/ld.so.preload", check=True)
        assert "/no/such/library.so" in sandbox.execute("/bin/sh -c 'echo started'").stderr
        assert sandbox.execute(START).stdout.splitlines()[-1:] == ["started"]
        assert sandbox.execute(f"rm /etc/ld.so.preload; {START}").stdout == "started\n"
        with pytest.raises(SandboxUnavailableError):
            sandbox.execute("kill -9 $PPID")
        assert sandbox.execute("echo again").stdout == "again\n"


def test_libraries_that_root_spoils_are_not_its_own(debian_image: str) -> None:
    with DockerSandbox(debian_image) as sandbox:
        sandbox.execute("true", check=True)
        sandbox.execute("for each in /lib/*/libc.so.6; do echo x >$each; done")
        assert "libc.so.6" in sandbox.execute("true").stderr
        with closing(sandbox._running.shells()._stock.start()) as loop:  # type: ignore[union-attr]
            told = bytearray()
            loop.run("echo works >&8", lambda _, data: told.extend(data))
        assert told == b"works\n"


@pytest.mark.parametrize("user", [None, "1000"])
def test_nobody_writes_where_it_lies(image: str, user: str | None) -> None:
    with DockerSandbox(image, user=user) as sandbox:
        for attempt in (
            "echo x >/.sandbox-kit/new",
            "chmod 755 /.sandbox-kit/*",
            "mv /.sandbox-kit /elsewhere",
            "rm -rf /.sandbox-kit",
            "umount /.sandbox-kit",
            "ln -f /bin/sh /.sandbox-kit/sh",
        ):
            assert not sandbox.execute(attempt).ok
        assert sandbox.execute("test -x /.sandbox-kit/sh").ok


@pytest.mark.parametrize("option", ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"])
def test_variables_of_commands_are_not_its_own(debian_image: str, option: str) -> None:
    with DockerSandbox(debian_image, user="1000", env={option: "/workspace/none.so"}) as sandbox:
        assert sandbox.execute(f"echo ${option}").stdout == "/workspace/none.so\n"
        with sandbox._lease() as loop:
            told = bytearray()
            loop.run(f'echo "<${{{option}}}>" >&8', lambda _, data: told.extend(data))
        assert told == b"<>\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the programs of Linux")
@pytest.mark.needs("ldd")
@pytest.mark.parametrize("program", ["sh", "ls", "cat", "bash"])
def test_what_a_program_needs_is_read_from_it(program: str) -> None:
    place = shutil.which(program)
    if place is None:
        pytest.skip(f"needs {program}")
    needs = needs_of(Path(place).read_bytes())
    told = subprocess.run(["ldd", place], capture_output=True, text=True, timeout=30, check=True).stdout
    assert needs is not None
    assert needs.loader is not None
    assert needs.loader.rpartition("/")[2] in told
    assert needs.libraries
    assert all(name in told for name in needs.libraries)


@pytest.mark.parametrize(
    "damaged", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 100, b"\x7fELF\x01\x01"]
)
def test_what_is_no_such_program_is_none(damaged: bytes) -> None:
    assert needs_of(damaged) is None


def test_a_shell_whose_libraries_are_not_found_is_open_to_root() -> None:
    sh = Path("/bin/sh").resolve().read_bytes()
    copy = copy_shell(lambda name: sh if name == "/bin/sh" else None)
    assert copy is not None
    assert copy.argv == ("/.sandbox-kit/sh",)
    assert not copy.closed
    assert copy_shell(lambda _: None) is None
