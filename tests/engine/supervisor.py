"""Runs a private Docker engine for as long as somebody holds it; run as a program, with the scratch directory.

Holders have a shared lock on the file ``holders``, which the kernel drops when they end, however
they end. The engine and all it starts live in a process and a mount namespace of their own: with its first
process everything in it ends, and no mount outlives it. Prints ``ready`` and the engine's process
id, or last of all a line that says why there is no engine.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

START_SECONDS = 30
STOP_SECONDS = 5
POLL_SECONDS = 0.05
BRIDGES = 8
DRIVERS = ("overlay2", "vfs")

# The shell stays to reap what containers leave behind. A containerd of the machine is hidden, or dockerd would use it.
NAMESPACE = ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
NAMESPACE += ["--mount", "--propagation", "slave", "sh", "-c"]
FIRST_PROCESS = 'mkdir -p /run/containerd && mount -t tmpfs none /run/containerd && { "$@" & wait $!; }'


def main(scratch: Path) -> None:
    """Start the engine in *scratch*, report, wait for the last holder to end; then stop it and remove all."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with _bridge() as bridge, _running(scratch, bridge) as pid:
            _report(f"ready {pid}")
            _wait_for_holders(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def answering(address: Path, timeout: float = 1) -> int | None:
    """Return the process id of the engine at the socket *address*, or None if none answers in *timeout* seconds."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(address))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            answer = connection.recv(64)
        except OSError:
            return None
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid) if b" 200 " in answer else None


def _report(line: str) -> None:
    """Print *line*, and let the pipe to the starter end with it."""
    print(line, flush=True)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


def _wait_for_holders(scratch: Path) -> None:
    holders = os.open(scratch / "holders", os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(holders, fcntl.LOCK_EX)  # kept to the end: nobody joins an engine that stops


@contextlib.contextmanager
def _bridge() -> Iterator[str]:
    """Yield the name of a new bridge, or "none" where the machine makes none."""
    name = next(filter(None, map(_make_bridge, range(BRIDGES))), "none")
    try:
        yield name
    finally:
        if name != "none":
            _ip("link", "delete", name)


def _make_bridge(number: int) -> str | None:
    name = f"sktest{number}"
    if not _ip("link", "add", name, "type", "bridge"):
        return None
    if _ip("address", "add", f"172.31.{200 + number}.1/24", "dev", name) and _ip("link", "set", name, "up"):
        return name
    _ip("link", "delete", name)
    return None


def _ip(*arguments: str) -> bool:
    try:
        subprocess.run(["ip", *arguments], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@contextlib.contextmanager
def _running(scratch: Path, bridge: str) -> Iterator[int]:
    """Run an engine with the first storage driver that works here; yield its process id."""
    for driver in DRIVERS:
        process = _launch(scratch, bridge, driver)
        pid = None
        try:
            pid = _wait_until_answering(scratch, process)
            if pid is not None:
                yield pid
                return
        finally:
            _stop(process, pid)
            _remove_cgroups(scratch)
    sys.exit(f"needs a Docker engine: dockerd does not start: {_last_words(scratch)}")


def _launch(scratch: Path, bridge: str, driver: str) -> subprocess.Popen[bytes]:
    (scratch / "daemon.json").write_text("{}")
    options = {
        "config-file": scratch / "daemon.json",
        "data-root": scratch / "data",
        "exec-root": scratch / "exec",
        "pidfile": scratch / "pid",
        "host": f"unix://{scratch}/docker.sock",
        "exec-opt": "native.cgroupdriver=cgroupfs",
        "storage-driver": driver,
        "bridge": bridge,
        "iptables": "false",
        "ip-forward": "false",
        "ip-masq": "false",
    }
    command = ["dockerd", *(f"--{name}={value}" for name, value in options.items())]
    with open(scratch / "log", "ab") as log:
        return subprocess.Popen([*NAMESPACE, FIRST_PROCESS, "sh", *command], stdout=log, stderr=log)


def _wait_until_answering(scratch: Path, process: subprocess.Popen[bytes]) -> int | None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        pid = answering(scratch / "docker.sock")
        if pid is not None:
            return pid
        time.sleep(POLL_SECONDS)
    return None


def _stop(process: subprocess.Popen[bytes], pid: int | None) -> None:
    """End the engine *pid* in order, else by force, and all of its namespace with it."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if pid is not None and process.poll() is None:
            os.kill(pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
    process.kill()
    process.wait()


def _remove_cgroups(scratch: Path) -> None:
    """Remove the empty control groups of containers that were ended by force."""
    for container in (scratch / "data" / "containers").glob("*"):
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/*"):
            for group in glob.glob(f"{root}/docker/{container.name}"):
                with contextlib.suppress(OSError):
                    os.rmdir(group)


def _last_words(scratch: Path) -> str:
    lines = (scratch / "log").read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it says nothing"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
