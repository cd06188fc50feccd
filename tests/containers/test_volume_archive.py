"""The files of volumes, read with nothing running: the conformance suite of archives, and what is a volume's own."""

from __future__ import annotations

import gc
import io
import pickle
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.daemon import Engine
from engine.leftovers import TEST_LABEL, tidy

from sandbox_kit.archives import Archive
from sandbox_kit.backends.docker import DockerSandbox
from sandbox_kit.errors import InvalidArgumentError, PathNotFoundError, PermissionDeniedError
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.sessions.volume_archive import VolumeArchive
from sandbox_kit.testing import ArchiveConformance

from .test_remote import free_port, serving

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
LARGE = 3 * 2**20
ALLOW_ALL = PermissionRuleset(rules=[PermissionRule("no/such/**", "deny")])


class VolumeArchiveTests(ArchiveConformance):
    tells_changes = False
    lists_sockets = False
    ruleset: PermissionRuleset | None = None
    hang_guard = 60.0

    @pytest.fixture(autouse=True)
    def _engine(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Volumes of this test alone, named after their sessions."""
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        self.engine = engine
        self.prefix = f"test-{uuid.uuid4().hex[:12]}-"
        yield
        gc.collect()  # what a caught error holds
        client = engine.client()
        assert not [each for each in client.containers(all=True) if self._mounts(each)]
        for each in client.volumes()["Volumes"] or ():
            if each["Name"].startswith(self.prefix):
                client.remove_volume(each["Name"])

    def _mounts(self, container: dict[str, list[dict[str, str]]]) -> bool:
        return any(mount.get("Name", "").startswith(self.prefix) for mount in container["Mounts"])

    def make_archive(self, tmp_path: Path) -> Archive:
        names = {each: f"{self.prefix}{each}" for each in ("one", "two", "Three")}
        return VolumeArchive(names, max_read_bytes=self.max_read_bytes, ruleset=self.ruleset)

    def workspace_of(self, archive: Archive, session_id: str) -> Path:
        made = self.engine.client().create_volume(f"{self.prefix}{session_id}")
        place = Path(made["Mountpoint"])
        if not place.parent.is_dir():
            pytest.skip("needs an engine whose files are on this machine")
        if not any(place.iterdir()):
            place.rmdir()
        return place


class TestVolumeArchive(VolumeArchiveTests):
    pass


@pytest.fixture
def labels(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Labels for the sandboxes of a test, which are to be gone in its end."""
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    with tidy(engine) as made:
        yield made


@pytest.fixture
def box(busybox_image: str, labels: dict[str, str]) -> Iterator[DockerSandbox]:
    """A sandbox that was stopped, with a workspace of its own."""
    made = DockerSandbox(busybox_image, sandbox_id=f"test-{uuid.uuid4().hex[:12]}", labels=labels, user=1000)
    with made:
        made.write("out/chart.png", PNG)
        made.write("out/large", bytes(LARGE))
        made.write("secret/key", "TOPSECRET")
        script = "ln out/chart.png twin; ln -s /workspace/out way; ln -s /etc/passwd users; ln -s secret/key leak"
        made.execute(script, check=True)
    yield made
    gc.collect()
    made.stop(purge=True)


def test_the_files_of_a_sandbox_that_was_stopped_come_back_and_nothing_runs(
    engine: Engine, box: DockerSandbox, labels: dict[str, str]
) -> None:
    archive = pickle.loads(pickle.dumps(VolumeArchive(labels=labels)))
    assert archive.sessions() == [box.id]
    for name in ("out/chart.png", "twin", "way/chart.png"):
        assert archive.read_bytes(box.id, name) == PNG
    assert archive.read_bytes(box.id, "out/large") == bytes(LARGE)
    found = {info.path: info.size for info in archive.walk(box.id)}
    assert found == {"leak": 10, "out": 0, "out/chart.png": len(PNG), "out/large": LARGE} | {
        "secret": 0,
        "secret/key": 9,
        "twin": len(PNG),
        "way": 14,
    }
    assert engine.client().containers(all=True, filters={"label": f"{TEST_LABEL}={labels[TEST_LABEL]}"}) == []


def test_an_export_holds_every_file_by_each_of_its_names(box: DockerSandbox) -> None:
    archive = VolumeArchive({"a": f"sandbox-kit-{box.id}"})
    with archive.export("a", denied="skip") as stream, tarfile.open(fileobj=io.BytesIO(stream.read())) as opened:
        assert stream.denied == 2  # two links with absolute names
        files = {info.name: opened.extractfile(info).read() for info in opened if info.isreg()}  # type: ignore[union-attr]
    assert files == {"out/chart.png": PNG, "out/large": bytes(LARGE), "secret/key": b"TOPSECRET", "twin": PNG}


def test_rules_hold_in_a_volume(box: DockerSandbox) -> None:
    rules = PermissionRuleset(rules=[PermissionRule("secret/**", "deny")])
    archive = VolumeArchive({"a": f"sandbox-kit-{box.id}"}, ruleset=rules)
    for name in ("secret/key", "leak"):
        with pytest.raises(PermissionDeniedError):
            archive.read_bytes("a", name)
    assert not [info.path for info in archive.walk("a") if "secret" in info.path or info.path == "leak"]
    with pytest.raises(PermissionDeniedError):
        archive.export("a").read()
    with archive.export("a", denied="skip") as stream:
        assert b"TOPSECRET" not in stream.read()
    assert archive.read_bytes("a", "out/chart.png") == PNG


def test_a_volume_that_is_not_there_is_not_made(engine: Engine, labels: dict[str, str], box: DockerSandbox) -> None:
    name = f"test-{uuid.uuid4().hex[:12]}"
    for archive in (VolumeArchive({"a": name}), VolumeArchive(labels=labels)):
        with pytest.raises(PathNotFoundError):
            archive.ls("a")
    assert VolumeArchive({"a": name}).sessions() == []
    assert name not in [each["Name"] for each in engine.client().volumes()["Volumes"]]


def test_a_dropped_stream_leaves_no_container(engine: Engine, box: DockerSandbox) -> None:
    archive = VolumeArchive({"a": f"sandbox-kit-{box.id}"})
    stream = archive.open_read("a", "out/large")
    assert stream.read(10) == bytes(10)
    entries = archive.walk("a")
    assert next(entries).path
    del stream, entries
    ours = [each for each in engine.client().containers(all=True) if box.id in str(each["Mounts"])]
    assert ours == []


def test_a_volume_of_an_engine_on_another_machine_is_read(
    engine: Engine, box: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = engine.host.removeprefix("unix://")
    if local == engine.host:
        pytest.skip("needs an engine with a local socket to put a port in front of")
    port = free_port()
    with serving(["socat", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork", f"UNIX-CONNECT:{local}"], port):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        archive = VolumeArchive({"a": f"sandbox-kit-{box.id}"})
        assert archive.read_bytes("a", "out/chart.png") == PNG
        assert len(archive.ls("a", "out")) == 2


@pytest.mark.parametrize(
    "options",
    [{"volumes": {"../a": "x"}}, {"volumes": ["a"]}, {"labels": {"a": 1}}, {"work_dir": "data"}, {"work_dir": "/"}],
)
def test_what_no_archive_could_use_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        VolumeArchive(**options)  # type: ignore[arg-type]
