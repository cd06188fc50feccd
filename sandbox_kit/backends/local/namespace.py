"""The namespaces of a confined command, to be entered by those that start while it lives."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path

from sandbox_kit.backends.local import joiner
from sandbox_kit.backends.local.interpreter import helper_interpreter

__all__ = ["Namespaces", "Status"]

_NS_GET_USERNS = 0xB701
_POWERLESS = "CapEff:\t0000000000000000\n"


class Namespaces:
    """Open handles on the namespaces of one command; they outlive it.

    Attributes:
        handles: name -> descriptor, named as in /proc; ``owner`` is the user namespace that owns the mounts.
    """

    def __init__(self, pid: int, mount_namespace: int) -> None:
        """Open the namespaces of process *pid*.

        Raises:
            OSError: it has ended, or another process has its id by now.
        """
        self.handles: dict[str, int] = {}
        try:
            self._open(pid, mount_namespace)
        except BaseException:
            self.close()
            raise

    def _open(self, pid: int, mount_namespace: int) -> None:
        for name in joiner.ENTERED:
            path = f"/proc/{pid}/ns/{name}"
            if name == "owner":
                self.handles[name] = fcntl.ioctl(self.handles["mnt"], _NS_GET_USERNS)
            elif os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                self.handles[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if os.fstat(self.handles["mnt"]).st_ino != mount_namespace:
            raise ProcessLookupError(f"process {pid} is another by now")

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
        for fd in self.handles.values():
            os.close(fd)
        self.handles = {}


class Status:
    """What the launcher of one command says of it, in a pipe, as JSON documents of one line each.

    First bubblewrap says which process has the namespaces, last how the command ended. The
    program that enters says one line, when the command is about to start.
    """

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)
        self._said = b""

    def _documents(self) -> list[dict[str, int | None]]:
        with suppress(BlockingIOError):
            while self._read >= 0 and (more := os.read(self._read, 4096)):
                self._said += more
        return [json.loads(line) for line in self._said.splitlines(keepends=True) if line.endswith(b"\n")]

    def namespaces(self) -> Namespaces | None:
        """The namespaces, once every mount in them is made; None until then, and after the command's end."""
        for said in self._documents():
            pid, mounts = said.get("child-pid"), said.get("mnt-namespace")
            if pid is not None and mounts is not None:
                with suppress(OSError):
                    if _POWERLESS in Path(f"/proc/{pid}/status").read_text(errors="replace"):
                        return Namespaces(pid, mounts)
        return None

    def has_run(self) -> bool:
        """Whether the command itself was started; known after its end."""
        return any("exit-code" in said for said in self._documents())

    def close(self) -> None:
        """Close the pipe; closing twice is fine."""
        for fd in (self._read, self.write):
            if fd >= 0:
                os.close(fd)
        self._read = self.write = -1
