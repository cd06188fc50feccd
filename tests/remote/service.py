"""The published sandbox service, in an environment of its own, on the engine of the tests."""

from __future__ import annotations

import fcntl
import http.client
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.daemon import UNIX, Engine, Unavailable

REQUIREMENT = "pydantic-ai-backend[server]==0.2.25"
INSTALL_SECONDS = 400
START_SECONDS = 60
STOP_SECONDS = 30


@dataclass
class Service:
    """A service that runs.

    Attributes:
        url: its address.
        token: what it asks for.
        workspaces: where it keeps files: ``ID/workspace`` for each session.
        log: what it prints.
    """

    url: str
    token: str
    workspaces: Path
    log: Path
    program: subprocess.Popen[bytes] = field(repr=False)

    def signal(self, number: int) -> None:
        """Send a signal to its process."""
        self.program.send_signal(number)


@contextmanager
def running(engine: Engine, directory: Path, runtimes: dict[str, str], **settings: object) -> Iterator[Service]:
    """Start a service, and stop it with all of its sandboxes.

    Args:
        directory: an empty directory, for its files.
        runtimes: images by alias; the first is the default.
        settings: of the service, beside these.

    Raises:
        Unavailable: the machine cannot have one.
    """
    if not engine.host.startswith(UNIX):
        raise Unavailable("needs a Docker engine of this machine: the service mounts directories of it")
    python = _environment() / "bin" / "python"
    port, token, workspaces, log = _free_port(), secrets.token_hex(16), directory / "workspaces", directory / "log"
    workspaces.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "DOCKER_HOST": engine.host,
        "SANDBOXD_TOKEN": token,
        "SANDBOXD_RUNTIMES": ",".join(f"{alias}={image}" for alias, image in runtimes.items()),
        "SANDBOXD_DEFAULT_RUNTIME": next(iter(runtimes)),
        "SANDBOXD_HOST": "127.0.0.1",
        "SANDBOXD_PORT": str(port),
        "SANDBOXD_NETWORK_MODE": "none",
        "SANDBOXD_WORKSPACE_ROOT": str(workspaces),
        "SANDBOXD_PREWARM": "false",
        **{f"SANDBOXD_{name.upper()}": str(value) for name, value in settings.items()},
    }
    with open(log, "wb") as output:
        program = subprocess.Popen(
            [python, "-m", "pydantic_ai_backends.remote.server"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_until_it_answers(program, port, log)
        yield Service(f"http://127.0.0.1:{port}", token, workspaces, log, program)
    finally:
        _end(program)
        _remove_containers(engine, workspaces)


def _remove_containers(engine: Engine, workspaces: Path) -> None:
    """Remove what a service that was killed has left."""
    client = engine.client()
    for container in client.containers(all=True):
        if any(str(mount.get("Source")).startswith(f"{workspaces}/") for mount in container["Mounts"]):
            client.remove_container(container["Id"], force=True)


def _end(program: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        program.send_signal(signal.SIGCONT)
        program.terminate()
    try:
        program.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _wait_until_it_answers(program: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and program.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise Unavailable(f"needs a sandbox service, which did not start: {log.read_text(errors='replace')[-500:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment() -> Path:
    """Return the virtual environment that has the service; it is made once for this machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sandbox-kit-tests")
    cache.mkdir(parents=True, exist_ok=True)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    directory = cache / f"service-{REQUIREMENT.rpartition('=')[2]}-{version}"
    with open(f"{directory}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            _run([sys.executable, "-m", "venv", "--clear", str(directory)])
            _run([str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", REQUIREMENT])
            (directory / "complete").touch()
    return directory


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        raise Unavailable(f"needs {REQUIREMENT}, which cannot be installed: {last}")
