"""What commands and files in a container cost, beside docker-py and other libraries on the same engine and image.

Run as ``python -m benchmarks.bench_docker``. The engine is the one that DOCKER_HOST names, or a private one
of the tests'. What is compared takes turns of a few runs each, so that all meet the same noise: of small
things the first run of a turn, which finds the caches as another left them, is shown apart, as "cold". A
figure is the median, beside it the 95th percentile and how many times docker-py's it is. Peers that are not
installed are left out.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import docker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from engine.daemon import Engine, Unavailable, given_engine, private_engine
from engine.images import ensure_image

from sandbox_kit import DockerSandbox, PermissionRule, PermissionRuleset, guarding

Run = Callable[[], object]

TURNS = 120
IN_A_ROW = 4
THREADS, SECONDS = 10, 5.0
SIZES = {"1 KB": 2**10, "1 MB": 2**20, "100 MB": 100 * 2**20}
FEW = {"100 MB": 5, "1 MB": 15}
GIGABYTE = 2**30
TREE_FILES = 5_000
RULES = PermissionRuleset(rules=(PermissionRule("**/.env", "deny"), PermissionRule("/etc/**", "deny")))


def main() -> None:
    """Print one table after the other."""
    try:
        with engine() as running:
            for name in ("busybox", "debian"):
                compare(running, name)
    except Unavailable as reason:
        print(f"no engine here: {reason}")


@contextmanager
def engine() -> Iterator[Engine]:
    given = given_engine()
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as directory, private_engine(Path(directory)) as started:
        os.environ["DOCKER_HOST"] = started.host
        yield started


def compare(running: Engine, name: str) -> None:
    image = ensure_image(running, name)
    api = running.client()
    plain = api.create_container(
        image, ["sleep", "100000"], host_config=api.create_host_config(network_mode="none"), working_dir="/tmp"
    )["Id"]
    api.start(plain)
    try:
        with DockerSandbox(image) as sandbox, ExitStack() as peers:
            commands(name, sandbox, api, plain, image, peers)
            files(name, sandbox, api, plain)
            memory(name, sandbox)
            searches(name, sandbox)
        starts(name, image, api)
        throughput(name, image)
    finally:
        api.remove_container(plain, force=True)


def commands(name: str, sandbox: DockerSandbox, api: Any, plain: str, image: str, peers: ExitStack) -> None:
    runs: dict[str, Run] = {
        "docker-py exec": lambda: docker_exec(api, plain, ["sh", "-c", "echo hi"]),
        "isolated": lambda: sandbox.execute("echo hi"),
    }
    guarded = guarding(sandbox, RULES, commands="inspected")
    runs["isolated, guarded and inspected"] = lambda: guarded.execute("echo hi")
    runs.update(peer_commands(image, peers))
    table(f"{name}: a command, ms", runs, TURNS)


def docker_exec(api: Any, container: str, argv: list[str]) -> bytes:
    made = api.exec_create(container, argv)["Id"]
    output = bytes(api.exec_start(made))
    api.exec_inspect(made)
    return output


def peer_commands(image: str, peers: ExitStack) -> dict[str, Run]:
    """The peers' commands, each on a sandbox that *peers* ends."""
    found: dict[str, Run] = {}
    starts = {"pydantic-ai-backend": pydantic_ai_backend, "llm-sandbox": llm_sandbox, "swe-rex, no container": swe_rex}
    for name, start in starts.items():
        try:
            found[name] = start(image, peers)
        except Exception as error:  # a peer that is missing or fails is said to, and judged no further
            print(f"{name}: left out ({type(error).__name__}: {str(error)[:80]})")
    return found


def pydantic_ai_backend(image: str, peers: ExitStack) -> Run:
    from pydantic_ai_backends import DockerSandbox as Peer  # type: ignore[import-not-found]

    peer = Peer(image=image)
    peers.callback(peer.stop)
    peer.execute("true")
    return lambda: peer.execute("echo hi")


def llm_sandbox(image: str, peers: ExitStack) -> Run:
    from llm_sandbox import SandboxSession  # type: ignore[import-not-found]

    session = SandboxSession(
        lang="python",
        image=with_command(image, peers),
        keep_template=True,
        skip_environment_setup=True,
        runtime_configs={"network_mode": "none"},
    )
    session.open()
    peers.callback(session.close)
    return lambda: session.execute_command("echo hi")


def with_command(image: str, ends: ExitStack) -> str:
    """Return the image with a command of its own, which some peers leave to it; *ends* removes it."""
    api = docker.from_env().api
    ends.callback(api.close)
    made = api.create_container(image, ["-"])["Id"]
    reference = f"{image.partition(':')[0]}-with-command"
    api.commit(made, repository=reference, tag="latest", changes=['CMD ["sleep", "100000"]'])
    api.remove_container(made)
    ends.callback(api.remove_image, reference, force=True)
    return reference


def swe_rex(_image: str, peers: ExitStack) -> Run:
    """Its server beside this process, not in a container: the images have no Python. It is spared that part."""
    from swerex.runtime.abstract import BashAction, CreateBashSessionRequest  # type: ignore[import-not-found]
    from swerex.runtime.remote import RemoteRuntime  # type: ignore[import-not-found]

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = [sys.executable, "-m", "swerex.server", "--host", "127.0.0.1", "--port", str(port), "--auth-token", "t"]
    process = subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peers.callback(process.wait, 10)
    peers.callback(process.terminate)
    loop = asyncio.new_event_loop()
    peers.callback(loop.close)
    runtime = RemoteRuntime(host="http://127.0.0.1", port=port, auth_token="t", timeout=10)
    wait_for(port)
    loop.run_until_complete(runtime.create_session(CreateBashSessionRequest()))
    return lambda: loop.run_until_complete(runtime.run_in_session(BashAction(command="echo hi")))


def wait_for(port: int) -> None:
    """Return when something listens on *port* of this machine, within 10 seconds."""
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def files(name: str, sandbox: DockerSandbox, api: Any, plain: str) -> None:
    sandbox.max_read_bytes = 2**30
    guarded = guarding(sandbox, RULES, commands="inspected")
    for label, size in SIZES.items():
        content = os.urandom(size)
        packed = pack(content)
        sandbox.write("file", content)
        api.put_archive(plain, "/tmp", packed)
        turns = FEW.get(label, TURNS)
        write = {
            "docker-py put_archive": lambda packed=packed: api.put_archive(plain, "/tmp", packed),
            "write": lambda content=content: sandbox.write("file", content),
        }
        table(f"{name}: write {label}, ms", write, turns)
        read = {
            "docker-py get_archive": lambda: b"".join(api.get_archive(plain, "/tmp/file")[0]),
            "read": lambda: sandbox.read_bytes("file"),
        }
        table(f"{name}: read {label}, ms", read, turns)
    sandbox.write("small", os.urandom(4096))
    table(
        f"{name}: read 4 KiB, ms",
        {
            "cat": lambda: sandbox.execute("cat small"),
            "read": lambda: sandbox.read_bytes("small"),
            "read, guarded": lambda: guarded.read_bytes("small"),
        },
        TURNS * 3,
        baseline="read",
    )


def memory(name: str, sandbox: DockerSandbox) -> None:
    """How much memory a large transfer takes at its peak, beyond what the process has without it."""
    with tempfile.TemporaryDirectory() as directory:
        local = Path(directory, "local")
        with local.open("wb") as file:
            file.truncate(GIGABYTE)
        print(f"\n{name}: 1 GB, MiB over idle (64)")
        print(f"  upload    {peak(lambda: sandbox.upload(local, 'large')):6.1f}")
        print(f"  download  {peak(lambda: sandbox.download('large', local)):6.1f}")
    sandbox.remove("large")


def peak(run: Run) -> float:
    """Return by how many MiB the process's resident memory exceeds at most, during *run*, what it was before."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    run()
    return (resident("VmHWM") - before) / 1024


def resident(kind: str) -> int:
    """Return what the kernel tells of this process's memory, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))


def pack(content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("file")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def searches(name: str, sandbox: DockerSandbox) -> None:
    sandbox.execute(FILL, check=True, timeout=300)
    guarded = guarding(sandbox, RULES, commands="inspected")
    for pattern in ("nothing-has-this", "rare-word", "common"):
        hits = sum(1 for _ in guarded.grep(pattern, "tree"))
        runs: dict[str, Run] = {
            "raw stream": lambda pattern=pattern: (
                sandbox.execute(f"grep -rn {pattern} tree", max_output="200m").stdout_bytes
            ),
            "grep, guarded and parsed": lambda pattern=pattern: sum(1 for _ in guarded.grep(pattern, "tree")),
        }
        table(f"{name}: grep over {TREE_FILES:,} files, {hits:,} hits, ms", runs, 9, baseline="raw stream")


FILL = f"""
mkdir -p tree && cd tree && i=0
line='some common text of a line that goes on for a while, as lines of programs and of prose do'
body=$(n=0; while [ $n -lt 8 ]; do echo "$line"; n=$((n+1)); done; n=0; while [ $n -lt 120 ]; do
echo 'another line without it, of about the same length as those that have it, for the search to pass'
n=$((n+1)); done)
while [ $i -lt {TREE_FILES} ]; do
[ $((i % 100)) != 0 ] || mkdir -p d$((i / 100))
{{ echo "$body"; [ $((i % 17)) != 0 ] || echo 'a rare-word'; }} >d$((i / 100))/f$i; i=$((i + 1)); done
"""


def starts(name: str, image: str, api: Any) -> None:
    def docker_py() -> None:
        made = api.create_container(image, ["sleep", "1000"], host_config=api.create_host_config(network_mode="none"))
        api.start(made["Id"])
        docker_exec(api, made["Id"], ["echo", "hi"])
        removed.append(made["Id"])

    def own() -> None:
        sandboxes.append(DockerSandbox(image).start())
        sandboxes[-1].execute("echo hi")

    def own_guarded() -> None:
        sandboxes.append(DockerSandbox(image))
        guarded = guarding(sandboxes[-1], RULES, commands="inspected").start()
        guarded.execute("echo hi")

    removed: list[str] = []
    sandboxes: list[DockerSandbox] = []
    table(f"{name}: to the first result, ms", {"docker-py": docker_py, "own": own, "guarded": own_guarded}, 10)
    for container in removed:
        api.remove_container(container, force=True)
    stops = []
    for sandbox in sandboxes:
        began = time.perf_counter()
        sandbox.stop(purge=True)
        stops.append(time.perf_counter() - began)
    print(f"  stop, median and most: {statistics.median(stops) * 1e3:.0f}, {max(stops) * 1e3:.0f} ms")


def throughput(name: str, image: str) -> None:
    sandboxes = [DockerSandbox(image).start() for _ in range(THREADS)]
    counts = [0] * THREADS

    def work(number: int) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            sandboxes[number].execute("echo hi")
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{name}: {THREADS} sandboxes in {THREADS} threads: {sum(counts) / SECONDS:.0f} commands/s (600)")
    for sandbox in sandboxes:
        sandbox.stop(purge=True)


def table(title: str, runs: Mapping[str, Run], turns: int, baseline: str | None = None) -> None:
    """Time *runs* in turns and print a line for each; ratios are the first one's over it."""
    in_a_row = IN_A_ROW if turns >= TURNS else 1
    times: dict[str, list[float]] = {name: [] for name in runs}
    cold: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(turns // in_a_row):
        for name, run in runs.items():
            timed = [seconds(run) for _ in range(in_a_row)]
            cold[name].append(timed[0])
            times[name] += timed
    first = baseline or next(iter(runs))
    print(f"\n{title}\n{'':34}{'median':>9}{'p95':>9}{'median x':>10}{'p95 x':>8}{'cold':>9}{'cold x':>8}")
    for name, each in times.items():
        ours, theirs = summary(each), summary(times[first])
        ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
        found, compared = statistics.median(cold[name]) * 1e3, statistics.median(cold[first]) * 1e3
        print(f"{name:34}{ours[0]:9.2f}{ours[1]:9.2f}{ratios[0]:10.2f}{ratios[1]:8.2f}", end="")
        print(f"{found:9.2f}{compared / found:8.2f}" if in_a_row > 1 else "")


def seconds(run: Run) -> float:
    """Return how long *run* takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def summary(times: list[float]) -> tuple[float, float]:
    """The median and the 95th percentile, in milliseconds."""
    return statistics.median(times) * 1e3, sorted(times)[int(len(times) * 0.95) - 1] * 1e3


if __name__ == "__main__":
    main()
