"""Engines on another machine: over TLS, and behind ssh. Nothing is shared with it but the connection."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest
import requests
from engine.daemon import Engine

from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.backends.docker.ssh import Gate
from sandbox_kit.errors import InvalidArgumentError, SandboxUnavailableError

UP_WITHIN = 20.0
MANY = 4 * 2**20


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def serving(argv: list[str], port: int) -> Iterator[None]:
    """A server that listens on *port* until the block ends."""
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + UP_WITHIN
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()


def openssl(*arguments: str, directory: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, capture_output=True, check=True, timeout=60)


EXTENSIONS = """\
subjectAltName=DNS:localhost,IP:127.0.0.1
basicConstraints=critical,CA:FALSE
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
keyUsage=critical,digitalSignature,keyEncipherment
"""
"""What Python 3.13 wants of a certificate."""


def certify(directory: Path) -> None:
    """An authority, and a certificate each for the server and the client, as Docker's manual makes them."""
    authority = "req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -out ca.pem -days 2 -subj /CN=authority "
    authority += "-addext keyUsage=critical,keyCertSign,cRLSign"
    openssl(*authority.split(), directory=directory)
    (directory / "extensions").write_text(EXTENSIONS)
    for name in ("server", "client"):
        request = f"req -newkey rsa:2048 -nodes -keyout {name}-key.pem -out {name}.csr -subj /CN={name}"
        openssl(*request.split(), directory=directory)
        sign = f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out {name}.pem -days 2"
        openssl(*sign.split(), "-extfile", "extensions", directory=directory)
    shutil.copy(directory / "client.pem", directory / "cert.pem")
    shutil.copy(directory / "client-key.pem", directory / "key.pem")


@pytest.fixture
def over_tls(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine behind TLS that asks for the client's certificate, and DOCKER_HOST that names it."""
    local = engine.host.removeprefix("unix://")
    if local == engine.host:
        pytest.skip("needs an engine with a local socket to put TLS in front of")
    certify(tmp_path)
    port = free_port()
    listen = f"OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,verify=1"
    files = f"cert={tmp_path}/server.pem,key={tmp_path}/server-key.pem,cafile={tmp_path}/ca.pem"
    with serving(["socat", "-t", "60", f"{listen},{files}", f"UNIX-CONNECT:{local}"], port):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        yield


@pytest.fixture
def over_ssh(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine behind ssh, and DOCKER_HOST that names it."""
    for key in ("host-key", "user-key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / key)]
        subprocess.run(make, check=True, timeout=60, stdin=subprocess.DEVNULL)
    port = free_port()
    Path("/run/sshd").mkdir(exist_ok=True)
    server = tmp_path / "sshd_config"
    server.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host-key\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/user-key.pub\nPidFile none\nSetEnv DOCKER_HOST={engine.host}\n"
        "MaxStartups 100\n"
    )
    client = tmp_path / "ssh_config"
    client.write_text(
        f"IdentityFile {tmp_path}/user-key\nStrictHostKeyChecking no\nUserKnownHostsFile {tmp_path}/known\n"
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    wrapper = programs / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {client} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}:/usr/sbin")
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") or "sshd"
    with serving([sshd, "-D", "-f", str(server)], port):
        monkeypatch.setenv("DOCKER_HOST", f"ssh://root@127.0.0.1:{port}")
        yield


def try_everything(image: str) -> None:
    with DockerSandbox(image) as sandbox:
        done = sandbox.execute("echo out; echo err >&2; exit 3")
        assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")
        assert sandbox.execute("wc -c", stdin=b"x" * MANY).stdout.split() == [str(MANY)]
        assert sandbox.execute("cat", stdin=b"x" * MANY).stdout_bytes == b"x" * MANY
        sandbox.write("d/file", b"\x00\xff" * MANY)
        assert sandbox.read_bytes("d/file") == b"\x00\xff" * MANY
        with sandbox.spawn("cat; echo end") as process:
            assert list(process.stdout) == ["end\n"]


@pytest.mark.needs("socat", "openssl")
def test_an_engine_over_tls_does_all_that_a_near_one_does(over_tls: None, busybox_image: str) -> None:
    try_everything(busybox_image)


@pytest.mark.needs("socat", "openssl")
def test_without_the_clients_certificate_there_is_no_engine(
    over_tls: None, busybox_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    certify(stranger)
    shutil.copy(tmp_path / "ca.pem", stranger / "ca.pem")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(stranger))
    with pytest.raises(SandboxUnavailableError, match="engine"):
        DockerSandbox(busybox_image).start()


@pytest.mark.needs("sshd", "ssh", "docker")
def test_an_engine_behind_ssh_does_all_that_a_near_one_does(over_ssh: None, busybox_image: str) -> None:
    try_everything(busybox_image)


@pytest.fixture
def fake_ssh(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is found as ``ssh``: it connects its streams with the engine."""
    local = engine.host.removeprefix("unix://")
    if local == engine.host:
        pytest.skip("needs an engine with a local socket")
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\nexec socat STDIO UNIX-CONNECT:{local}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def version(gate: Gate) -> str:
    with closing(docker.APIClient(gate.url, version="1.41", timeout=60)) as client:
        return str(client.version(api_version=False)["Version"])


@pytest.mark.needs("socat")
def test_a_connection_over_ssh_that_fails_stops_no_later_one(fake_ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate("ssh://engine")
    assert version(gate)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as scarce:
        scarce.setattr(subprocess, "run", fail)
        with pytest.raises(requests.ConnectionError):
            version(gate)
    assert version(gate)


def test_what_ssh_complains_of_is_logged(fake_ssh: Path, caplog: pytest.LogCaptureFixture) -> None:
    fake_ssh.write_text("#!/bin/sh\necho 'no route to there' >&2\nexit 255\n")
    gate = Gate("ssh://engine")
    with pytest.raises(requests.ConnectionError):
        version(gate)
    until = time.monotonic() + UP_WITHIN
    while "no route to there" not in caplog.text and time.monotonic() < until:
        time.sleep(0.01)
    assert "ssh to engine: no route to there" in caplog.text


@pytest.mark.needs("socat", "openssl")
def test_commands_use_the_certificates_that_the_sandbox_started_with(
    over_tls: None, busybox_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DockerSandbox(busybox_image) as sandbox:
        monkeypatch.setenv("DOCKER_CERT_PATH", "/no/such/directory")
        assert sandbox.execute("cat", stdin=b"still here").stdout == "still here"


def test_certificates_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", "/no/such/directory")
    with pytest.raises(SandboxUnavailableError, match="cert"):
        DockerSandbox("busybox").start()


ANSWERS = {"cut": b'20\r\n{"st', "garbled": b"5\r\nnope}\r\n0\r\n\r\n"}


@pytest.fixture
def breaking_off(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an engine without images, whose answer to a pull ends as the parameter says."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            known = self.path.endswith("/version")
            self.answer(
                200 if known else 404, b'{"ApiVersion": "1.41"}' if known else b'{"message": "No such image: x"}'
            )

        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(ANSWERS[request.param])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("breaking_off", ANSWERS, indirect=True)
def test_a_pull_whose_answer_breaks_off_is_told(breaking_off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", breaking_off)
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    with pytest.raises(SandboxUnavailableError, match="could not pull"):
        DockerSandbox("nothere").start()


@pytest.mark.parametrize("host", ["ssh://", "ssh://-oProxyCommand=x", "ftp://engine"])
def test_an_address_that_names_no_engine_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises((InvalidArgumentError, SandboxUnavailableError)):
        DockerSandbox("busybox").start()
