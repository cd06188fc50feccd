"""The connection to a Docker engine: docker-py for requests, and what its errors mean here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import requests
import urllib3
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import APIError, DockerException, ImageNotFound, NotFound, StreamParseError
from docker.tls import TLSConfig

from sandbox_kit.backends.docker.dialing import DEFAULT_HOST, Wire, hijack, reach
from sandbox_kit.backends.docker.refusals import explained
from sandbox_kit.backends.docker.ssh import Gate
from sandbox_kit.errors import (
    InvalidArgumentError,
    SandboxConflictError,
    SandboxError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from sandbox_kit.host.forks import ForkedFreeLock

__all__ = ["Engine", "connect", "missing_is_fine", "translated"]

_ANSWER_WITHIN = 60
"""Seconds that the engine may take for one request."""

_ANSWER_PROMPTLY = 5
"""The same, for what the engine only has to look up or to pass on."""

_BUSY = (409,)
_NAME_TAKEN = "is already in use by"
"""What Podman says of a name with the status of another failure."""

_REFUSED = (400,)


class Engine:
    """One engine, for one process; safe to use from several threads.

    Args:
        url: as in ``DOCKER_HOST``.
        certificates: a directory with ``ca.pem``, ``cert.pem`` and ``key.pem``; None for no TLS.

    Attributes:
        api: docker-py's low-level client.
        prompt: another, for requests that a sound engine answers at once.

    Raises:
        SandboxUnavailableError: it cannot be reached, or the certificates cannot be read.
    """

    def __init__(self, url: str, certificates: str | None = None) -> None:
        self._certificates = certificates
        self._gate = Gate(url) if url.startswith("ssh://") else None
        self.url = url = url if self._gate is None else self._gate.url
        reach(self.url)
        with translated():
            settings = _tls(certificates)
            with closing(_client(url, DEFAULT_DOCKER_API_VERSION, settings)) as asking:
                version = asking.version(api_version=False)
            self.api = _client(url, version["ApiVersion"], settings)
            self.prompt = _client(url, version["ApiVersion"], settings, _ANSWER_PROMPTLY)

    def exec_stream(
        self, container: str, argv: list[str], *, user: str, env: Mapping[str, str], work_dir: str | None = None
    ) -> tuple[str, Wire]:
        """Start a program in a container.

        Returns:
            The id of the exec, and its stream.

        Raises:
            SandboxUnavailableError: the container does not run, or the engine is gone.
        """
        with self.execs():
            made = self.prompt.exec_create(
                container, argv, stdin=True, user=user, environment=dict(env), workdir=work_dir or None
            )
        path = f"/v{self.api.api_version}/exec/{made['Id']}/start"
        return made["Id"], hijack(self.url, path, {"Detach": False, "Tty": False}, certificates=self._certificates)

    def exec_pid(self, exec_id: str) -> int | None:
        """The process id of an exec, as the engine's machine counts; None while it is being started."""
        with translated():
            told = self.prompt.exec_inspect(exec_id)
        return int(told["Pid"]) if told["Pid"] or (not told["Running"] and told["ExitCode"] is not None) else None

    @contextmanager
    def execs(self) -> Iterator[None]:
        """Raise SandboxUnavailableError where the engine says that a container does not run."""
        try:
            with translated():
                yield
        except SandboxConflictError as error:
            raise SandboxUnavailableError(str(error)) from error

    def exec_ended(self, exec_id: str) -> int | None:
        """The exit code of an exec; None while it runs, or is being started.

        Raises:
            SandboxUnavailableError: the engine does not know it any more.
        """
        with translated():
            told = self.prompt.exec_inspect(exec_id)
        return None if told["Running"] or told["ExitCode"] is None else int(told["ExitCode"])


def _tls(certificates: str | None) -> dict[str, Any]:
    if certificates is None:
        return {}
    place = Path(certificates)
    pair = str(place / "cert.pem"), str(place / "key.pem")
    return {"tls": TLSConfig(client_cert=pair, ca_cert=str(place / "ca.pem"), verify=True)}


def _client(url: str, version: str, settings: Mapping[str, Any], timeout: int = _ANSWER_WITHIN) -> docker.APIClient:
    """A client that takes certificates from its own settings, whatever the environment says to all of this process."""
    made = docker.APIClient(base_url=url, version=version, timeout=timeout, **settings)
    made.trust_env = False
    return made


_engines: dict[tuple[int, str, str | None], Engine] = {}
_connecting = ForkedFreeLock()


def connect() -> Engine:
    """The engine that ``DOCKER_HOST``, ``DOCKER_TLS_VERIFY`` and ``DOCKER_CERT_PATH`` name, for this process.

    Raises:
        SandboxUnavailableError: it cannot be reached.
    """
    url = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    certificates = _certificates()
    key = os.getpid(), url, certificates
    with _connecting:
        if key not in _engines:
            _engines[key] = Engine(url, certificates)
        return _engines[key]


def _certificates() -> str | None:
    if not os.environ.get("DOCKER_TLS_VERIFY"):
        return None
    return os.environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")


@contextmanager
def translated() -> Iterator[None]:
    """Raise this library's error for one of docker-py's or of what it is built on.

    ==================================  ===================================================
    of the engine                       here
    ==================================  ===================================================
    404                                 ``SandboxUnavailableError``
    409                                 ``SandboxConflictError``
    400                                 ``InvalidArgumentError``
    any other status, no connection     ``SandboxUnavailableError``
    an answer that is cut or garbled    ``SandboxUnavailableError``
    no answer in time                   ``SandboxTimeoutError``
    ==================================  ===================================================
    """
    try:
        yield
    except SandboxError:
        raise
    except APIError as error:
        raise _of_status(error) from error
    except requests.Timeout as error:
        raise SandboxTimeoutError("the Docker engine did not answer in time") from error
    except (StreamParseError, urllib3.exceptions.HTTPError) as error:
        raise SandboxUnavailableError(f"the Docker engine's answer broke off: {error}") from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise SandboxUnavailableError(f"the Docker engine cannot be reached: {error}") from error


def _of_status(error: APIError) -> SandboxError:
    told = explained(str(error.explanation or error))
    status = error.response.status_code if error.response is not None else 0
    if status in _BUSY or _NAME_TAKEN in told:
        return SandboxConflictError(told)
    if status in _REFUSED:
        return InvalidArgumentError(told)
    return SandboxUnavailableError(told)


@contextmanager
def missing_is_fine() -> Iterator[None]:
    """Let pass that something is not there, as when two callers remove it."""
    with translated(), suppress(NotFound, ImageNotFound):
        yield
