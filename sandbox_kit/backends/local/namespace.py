"""The namespaces of a confined command, to be entered by those that start while it lives."""

from __future__ import annotations

import fcntl
import io
import json
import os
from contextlib import suppress
from pathlib import Path

from sandbox_kit.backends.local import joiner
from sandbox_kit.backends.local.interpreter import helper_interpreter
from sandbox_kit.host.system import Descriptor, add_pipes

__all__ = ["Namespaces", "Status"]

_NS_GET_USERNS = 0xB701
_POWERLESS = "CapEff:\t0000000000000000\n"


class Namespaces:
    """Open handles on the namespaces of one command; they outlive it, and close when nobody uses them."""

    def __init__(self, pid: int, mount_namespace: int) -> None:
        """Open the namespaces of process *pid*.

        Raises:
            OSError: it has ended, or another process has its id by now.
        """
        self._held: dict[str, Descriptor] = {}
        for name in joiner.ENTERED:
            path = f"/proc/{pid}/ns/{name}"
            if name == "owner":
                self._held[name] = Descriptor.of(fcntl.ioctl, self._held["mnt"].fd, _NS_GET_USERNS)
            elif os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                self._held[name] = Descriptor.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if os.fstat(self._held["mnt"].fd).st_ino != mount_namespace:
            raise ProcessLookupError(f"process {pid} is another by now")

    @property
    def handles(self) -> dict[str, int]:
        """Name -> descriptor, named as in /proc; ``owner`` is the user namespace that owns the mounts."""
        return {name: held.fd for name, held in self._held.items()}

    def argv(self, environment: int, program: int, status: int, cwd: str) -> list[str]:
        """What to put before a command that is to run in a copy of these namespaces.

        Args:
            environment: a descriptor to read its variables from.
            program: one to read a filter of system calls from.
            status: one to say in that the command starts.
            cwd: the directory to start in.
        """
        handles = ",".join(f"{name}={fd}" for name, fd in self.handles.items())
        return [
            helper_interpreter(),
            "-I",
            "-S",
            str(Path(joiner.__file__)),
            handles,
            f"{environment},{program},{status}",
            cwd,
        ]

    def close(self) -> None:
        """Close the handles; closing twice is fine."""
        for held in self._held.values():
            held.close()


class Status:
    """What the launcher of one command says of it, in a pipe, as JSON documents of one line each.

    First bubblewrap says which process has the namespaces, last how the command ended. The
    program that enters says one line, when the command is about to start.
    """

    def __init__(self) -> None:
        self._ends: list[io.FileIO] = []
        self._said = b""
        add_pipes(self._ends, 1)
        os.set_blocking(self._ends[0].fileno(), False)

    def __del__(self) -> None:
        self.close()

    @property
    def write(self) -> int:
        """The descriptor to say something in."""
        return self._ends[1].fileno()

    def _documents(self) -> list[dict[str, int | None]]:
        with suppress(BlockingIOError):
            while not self._ends[0].closed and (more := os.read(self._ends[0].fileno(), 4096)):
                self._said += more
        return [json.loads(line) for line in self._said.splitlines(keepends=True) if line.endswith(b"\n")]

    def namespaces(self) -> Namespaces | None:
        """The namespaces, once every mount in them is made; None until then, and after the command's end.

        Raises:
            OSError: there is no room for descriptors.
        """
        for said in self._documents():
            pid, mounts = said.get("child-pid"), said.get("mnt-namespace")
            if pid is not None and mounts is not None:
                with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                    if _POWERLESS in Path(f"/proc/{pid}/status").read_text(errors="replace"):
                        return Namespaces(pid, mounts)
        return None

    def has_run(self) -> bool:
        """Whether the command itself was started; known after its end."""
        return any("exit-code" in said for said in self._documents())

    def close(self) -> None:
        """Close the pipe; closing twice is fine."""
        for end in self._ends:
            end.close()
