"""A Docker engine for the tests: the one that DOCKER_HOST names if it answers, else a private one."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import supervisor

if TYPE_CHECKING:
    import docker

PROGRAMS = ("dockerd", "containerd", "runc", "setsid", "setpriv", "unshare")
SHORT_DIRECTORY = "/var/tmp"  # a socket's path has at most 107 bytes
UNIX = "unix://"
START_SECONDS = 90
PING_SECONDS = 10


class Unavailable(Exception):
    """The machine cannot have this; the message is one phrase that says what it needs."""


@dataclass(frozen=True)
class Engine:
    """An engine that answers.

    Args:
        host: its address, as DOCKER_HOST has it.
        pid: process id of its daemon; None for an engine that the tests did not start.
    """

    host: str
    pid: int | None = None

    def client(self) -> docker.APIClient:
        """Return the client that this process shares; ``close`` closes it."""
        import docker
        from docker.utils import kwargs_from_env

        key = (self.host, os.getpid())
        if key not in _CLIENTS:
            settings = {"base_url": self.host} if self.pid is not None else kwargs_from_env()
            over_ssh = self.host.startswith("ssh://")
            _CLIENTS[key] = docker.APIClient(version="auto", use_ssh_client=over_ssh, **settings)
        return _CLIENTS[key]

    def close(self) -> None:
        """Close the client of this process, if there is one."""
        client = _CLIENTS.pop((self.host, os.getpid()), None)
        if client is not None:
            client.close()


_CLIENTS: dict[tuple[str, int], docker.APIClient] = {}


def given_engine() -> Engine | None:
    """Return the engine that DOCKER_HOST names, or None if none is named or it does not answer."""
    from docker.errors import DockerException
    from requests import RequestException

    host = os.environ.get("DOCKER_HOST")
    if not host or _deaf(host):
        return None
    try:
        Engine(host).client()
    except (DockerException, RequestException):
        return None
    return Engine(host)


def _deaf(host: str) -> bool:
    """Tell whether *host* is a local socket that nobody answers; docker-py leaks a descriptor on finding out."""
    return host.startswith(UNIX) and supervisor.answering(Path(host.removeprefix(UNIX)), PING_SECONDS) is None


@contextmanager
def private_engine(directory: Path) -> Iterator[Engine]:
    """Yield the private engine of *directory*: processes that name the same directory share one.

    It stops when the last of them leaves or dies.

    Raises:
        Unavailable: the machine cannot run one.
    """
    with ExitStack() as holding:
        with open(directory / "engine.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            link = directory / "engine"
            engine = _join(link, holding) or _start(link, holding)
        holding.callback(engine.close)
        yield engine


def _join(link: Path, holding: ExitStack) -> Engine | None:
    """Hold the engine whose scratch directory *link* leads to, if it runs."""
    try:
        _hold(link / "holders", holding)
    except OSError:
        return None
    return _answering(link.resolve())


def _start(link: Path, holding: ExitStack) -> Engine:
    _require_means()
    scratch = Path(tempfile.mkdtemp(prefix="sk-", dir=SHORT_DIRECTORY))
    (scratch / "holders").touch()
    _hold(scratch / "holders", holding)
    program = [sys.executable, "-I", supervisor.__file__, str(scratch)]
    output = subprocess.run(
        ["setsid", "--fork", *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=START_SECONDS,
        check=False,
    ).stdout.strip()
    engine = _answering(scratch) if output.startswith("ready ") else None
    if engine is None:
        raise Unavailable(output.rpartition("\n")[2])
    link.unlink(missing_ok=True)
    link.symlink_to(scratch)
    return engine


def _hold(holders: Path, holding: ExitStack) -> None:
    """Hold the engine of the file *holders* until *holding* or this process ends.

    Raises:
        OSError: the engine is gone or stops.
    """
    descriptor = os.open(holders, os.O_RDONLY | os.O_CLOEXEC)
    holding.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _answering(scratch: Path) -> Engine | None:
    address = scratch / "docker.sock"
    pid = supervisor.answering(address, timeout=PING_SECONDS)
    return None if pid is None else Engine(f"{UNIX}{address}", pid)


def _require_means() -> None:
    if os.geteuid() != 0:
        raise Unavailable("needs root to start a Docker engine, or one that DOCKER_HOST names")
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise Unavailable(f"needs {program} to start a Docker engine: it is not on PATH")
