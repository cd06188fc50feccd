"""WorkspaceArchive beyond the contract: rules, planted directories, races, what is planted on a local disk."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.errors import (
    ArchiveError,
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathEscapeError,
    PathNotFoundError,
    PermissionDeniedError,
    ReadLimitError,
    SandboxConflictError,
    SandboxError,
    SandboxUnavailableError,
)
from sandbox_kit.rules.presets import SECRETS
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.sessions import workspace as workspace_module
from sandbox_kit.sessions.archive import WorkspaceArchive
from sandbox_kit.testing.archived import USES
from sandbox_kit.testing.base import paths
from sandbox_kit.testing.host import ordinary_user
from tests.local.test_races import flipping

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="local files need a POSIX system")

SECRET = "TOPSECRET"
DEPTH = 150
"""Of a tree whose names are longer together than a path may be."""
EVERY_USE = pytest.mark.parametrize("use", USES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    workspace = made / "one" / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "a.txt").write_text("a")
    (workspace / "sub" / "b.txt").write_text("b")
    return made


@pytest.fixture
def workspace(root: Path) -> Path:
    return root / "one" / "workspace"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    for name in ("a.txt", "secret.txt"):
        (made / name).write_text(SECRET)
    return made


def tar_names(stream: Any) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(stream.read()), errors="surrogateescape") as opened:
        return opened.getnames()


class TestMaking:
    @pytest.mark.parametrize("root", ["", None, "a\0b", b"x"])
    def test_what_is_no_root_is_refused(self, root: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="root"):
            WorkspaceArchive(root)

    @pytest.mark.parametrize("options", [{"max_read_bytes": "lots"}, {"max_read_bytes": 0}, {"ruleset": {}}])
    def test_a_bad_option_is_refused(self, root: Path, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgumentError, match=next(iter(options))):
            WorkspaceArchive(root, **options)

    def test_a_constructor_touches_nothing_and_a_missing_root_is_told(self, tmp_path: Path) -> None:
        archive = WorkspaceArchive(tmp_path / "missing")
        for call in (archive.sessions, *(lambda use=use: use(archive, "one", "x") for use in USES.values())):
            with pytest.raises(SandboxUnavailableError) as caught:
                call()
            assert str(tmp_path) not in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("travel", [copy.deepcopy, lambda archive: pickle.loads(pickle.dumps(archive))])
    def test_it_travels(self, root: Path, travel: Callable[[WorkspaceArchive], WorkspaceArchive]) -> None:
        archive = travel(WorkspaceArchive(root, max_read_bytes="1k", ruleset=SECRETS))
        assert archive.read("one", "a.txt") == "a"
        assert archive.max_read_bytes == 1024

    def test_the_read_limit_can_be_changed_and_holds_from_the_next_call(self, root: Path) -> None:
        archive = WorkspaceArchive(root)
        (root / "one/workspace/a.txt").write_text("12345")
        archive.max_read_bytes = 4
        with pytest.raises(ReadLimitError):
            archive.read("one", "a.txt")


class TestSessions:
    def test_only_directories_that_are_an_id_and_have_a_workspace_count(self, root: Path, outside: Path) -> None:
        for name in (".sandbox_kit/workspace", "CON/workspace", "no-files", "a b/workspace"):
            (root / name).mkdir(parents=True)
        (root / "file").touch()
        (root / "link").symlink_to(root / "one")
        assert WorkspaceArchive(root).sessions() == ["one"]

    @EVERY_USE
    @pytest.mark.parametrize("planted", ["workspace", "session", "file", "loop"])
    def test_a_planted_workspace_is_refused(self, root: Path, outside: Path, use: str, planted: str) -> None:
        (outside / "workspace").mkdir()
        (outside / "workspace" / "a.txt").write_text(SECRET)
        if planted == "session":
            (root / "bad").symlink_to(outside)
        else:
            (root / "bad").mkdir()
        if planted == "workspace":
            (root / "bad" / "workspace").symlink_to(outside)
        elif planted == "file":
            (root / "bad" / "workspace").touch()
        elif planted == "loop":
            (root / "bad" / "workspace").symlink_to("workspace")
        with pytest.raises(ArchiveError, match="bad") as caught:
            USES[use](WorkspaceArchive(root), "bad", "a.txt")
        assert str(root.parent) not in str(caught.value)

    def test_a_workspace_closed_to_this_user_is_told(self) -> None:
        with ordinary_user(), tempfile.TemporaryDirectory() as directory:
            session = Path(directory, "one")
            (session / "workspace").mkdir(parents=True)
            session.chmod(0)
            archive = WorkspaceArchive(directory)
            assert archive.sessions() == ["one"]
            with pytest.raises(PathAccessError, match="one"):
                archive.ls("one")
            session.chmod(0o700)

    def test_what_is_closed_to_this_user_is_told_and_the_rest_found(self) -> None:
        with ordinary_user(), tempfile.TemporaryDirectory() as directory:
            workspace = Path(directory, "one", "workspace")
            for name in ("closed", "open"):
                (workspace / name).mkdir(parents=True)
                (workspace / name / "f").touch()
            (workspace / "closed").chmod(0)
            archive = WorkspaceArchive(directory)
            for found in (archive.walk("one"), archive.changes("one", 0)):
                assert paths(found) == ["closed", "open", "open/f"]
                assert [(each.path, each.reason) for each in found.skipped] == [("closed", PathAccessError("").reason)]
            with pytest.raises(PathAccessError):
                archive.ls("one", "closed")
            (workspace / "closed").chmod(0o700)

    def test_a_workspace_replaced_while_it_is_opened_is_refused(
        self, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real_root = workspace_module.Root

        def replaced(name: str) -> Any:
            os.rename(name, f"{name}-old")
            os.symlink(outside, name)
            return real_root(name)

        monkeypatch.setattr(workspace_module, "Root", replaced)
        with pytest.raises(SandboxConflictError) as caught:
            WorkspaceArchive(root).read("one", "secret.txt")
        assert str(root.parent) not in str(caught.value)

    def test_a_stream_outlives_the_workspace_and_a_walk_tells_that_it_is_gone(self, root: Path) -> None:
        archive = WorkspaceArchive(root)
        stream, exported = archive.open_read("one", "a.txt"), archive.export("one")
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        with stream:
            assert stream.read() == b"a"
        with pytest.raises(SandboxError) as caught:
            exported.read()
        assert str(root) not in str(caught.value)

    def test_no_descriptor_is_kept(self, root: Path) -> None:
        archive = WorkspaceArchive(root, ruleset=SECRETS)
        gc.collect()
        before = len(os.listdir("/dev/fd"))
        for use in USES.values():
            use(archive, "one", "a.txt")
            with suppress(SandboxError):
                use(archive, "one", "missing")
        next(archive.walk("one"))
        assert len(os.listdir("/dev/fd")) == before


class TestRules:
    RULES = PermissionRuleset(
        rules=[PermissionRule("**/.env", "deny"), PermissionRule("private/**", "deny"), PermissionRule("q", "ask")]
    )

    @pytest.fixture
    def archive(self, root: Path, workspace: Path) -> WorkspaceArchive:
        (workspace / "private").mkdir()
        for name in (".env", "private/key", "q", "sub/.env"):
            (workspace / name).write_text(SECRET)
        (workspace / "alias").symlink_to("sub/.env")
        return WorkspaceArchive(root, ruleset=self.RULES)

    @EVERY_USE
    @pytest.mark.parametrize("path", [".env", "sub/.env", "private/key", "alias", "sub/../.env", "q"])
    def test_what_a_rule_denies_or_would_ask_is_refused(self, archive: WorkspaceArchive, use: str, path: str) -> None:
        with pytest.raises(PermissionDeniedError) as caught:
            USES[use](archive, "one", path)
        assert type(caught.value) is PermissionDeniedError
        assert str(archive.root) not in str(caught.value)

    def test_it_is_left_out_of_what_is_found(self, archive: WorkspaceArchive) -> None:
        assert paths(archive.ls("one")) == ["a.txt", "sub"]
        for found in (archive.walk("one"), archive.changes("one", 0)):
            with pytest.raises(TypeError, match="no truth value"):
                bool(found)
            assert paths(found) == ["a.txt", "sub", "sub/b.txt"]
            assert found.skipped == ()

    def test_an_export_is_refused_or_leaves_it_out(self, archive: WorkspaceArchive) -> None:
        with pytest.raises(PermissionDeniedError, match="skip"):
            archive.export("one")
        with archive.export("one", denied="skip") as stream:
            assert tar_names(stream) == ["a.txt", "sub", "sub/b.txt"]
            assert stream.denied == 6


class TestWhatIsPlanted:
    def test_an_export_leaves_out_what_leads_outside_and_what_is_no_file(
        self, root: Path, workspace: Path, outside: Path
    ) -> None:
        (workspace / "way").symlink_to(outside)
        (workspace / "sub" / "up").symlink_to("../../../x")
        (workspace / "inside").symlink_to("sub/b.txt")
        os.mkfifo(workspace / "pipe")
        archive = WorkspaceArchive(root)
        with archive.export("one", denied="skip") as stream:
            assert stream.denied == 2
            assert tar_names(stream) == ["a.txt", "inside", "sub", "sub/b.txt"]
            assert stream.denied == 3
        with archive.export("one", format="zip", denied="skip") as zipped:
            names = zipfile.ZipFile(io.BytesIO(zipped.read())).namelist()
        assert names == ["a.txt", "inside", "sub/", "sub/b.txt"]

    def test_a_special_file_that_was_named_is_refused_all_the_same(self, root: Path, workspace: Path) -> None:
        os.mkfifo(workspace / "pipe")
        with pytest.raises(ArchiveError, match=r"^pipe: "):
            WorkspaceArchive(root).export("one", "pipe", denied="skip").read()

    @pytest.mark.skipif(os.geteuid() != 0, reason="devices are made by root")
    def test_a_device_is_not_opened(self, root: Path, workspace: Path) -> None:
        try:
            os.mknod(workspace / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except OSError:
            pytest.skip("no device can be made here")
        with pytest.raises(NotRegularFileError):
            WorkspaceArchive(root).read_bytes("one", "zero")
        (workspace / "way").symlink_to("/dev/zero")
        with pytest.raises(PathEscapeError):
            WorkspaceArchive(root).read_bytes("one", "way")

    @EVERY_USE
    def test_an_absolute_path_is_refused_even_into_the_workspace(self, root: Path, workspace: Path, use: str) -> None:
        with pytest.raises(PathEscapeError, match="is absolute"):
            USES[use](WorkspaceArchive(root), "one", str(workspace / "a.txt"))

    def test_the_links_of_proc_lead_nowhere(self, root: Path, workspace: Path) -> None:
        (workspace / "me").symlink_to("/proc/self/root/etc/passwd")
        (workspace / "fd").symlink_to("/proc/self/fd/0")
        for path in ("me", "fd"):
            with pytest.raises(PathEscapeError):
                WorkspaceArchive(root).read("one", path)

    def test_a_file_that_grows_while_it_is_read_is_over_the_limit(self, root: Path, workspace: Path) -> None:
        archive = WorkspaceArchive(root, max_read_bytes=2**16)
        (workspace / "log").write_bytes(b"x" * 2**16)
        with archive.open_read("one", "log") as stream, (workspace / "log").open("ab") as log:
            assert archive.read_bytes("one", "log") == b"x" * 2**16
            log.write(b"y" * 2**20)
            log.flush()
            assert len(stream.read()) == 2**16 + 2**20
        for use in ("read", "read_bytes"):
            with pytest.raises(ReadLimitError):
                USES[use](archive, "one", "log")

    def test_reads_end_while_a_file_grows_without_end(self, root: Path, workspace: Path) -> None:
        archive, done = WorkspaceArchive(root, max_read_bytes=2**20), threading.Event()
        (workspace / "log").touch()

        def grow() -> None:
            with (workspace / "log").open("ab", buffering=0) as log:
                while not done.is_set() and log.tell() < 2**25:
                    log.write(b"x" * 2**16)

        writer = threading.Thread(target=grow)
        writer.start()
        try:
            for _ in range(10):
                with suppress(ReadLimitError):
                    assert len(archive.read_bytes("one", "log")) <= 2**20
                with archive.export("one", "log") as stream:
                    tar = stream.read()
                with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
                    assert opened.getnames() == ["log"]
        finally:
            done.set()
            writer.join()

    def test_a_deep_tree_is_walked_and_exported(self, root: Path, workspace: Path) -> None:
        at = os.open(workspace, os.O_RDONLY)
        for _ in range(DEPTH):
            os.mkdir("deep" * 10, dir_fd=at)
            below = os.open("deep" * 10, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
        archive = WorkspaceArchive(root)
        for found in (archive.walk("one"), archive.changes("one", time.time() - 3600)):
            assert max(info.path.count("/") for info in found) == DEPTH - 1
        with zipfile.ZipFile(io.BytesIO(archive.export("one", format="zip").read())) as zipped:
            assert len(zipped.namelist()) == DEPTH + 3
        subprocess.run(["rm", "-rf", str(workspace)], check=True, timeout=60)

    def test_a_hostile_name_is_told_as_it_is(self, root: Path, workspace: Path) -> None:
        names = sorted(["-rf", "a\nb", "\x1b[31m", "..\\x", "...", os.fsdecode(b"\xff\xfe")])
        for name in names:
            (workspace / name).touch()
        found = paths(WorkspaceArchive(root).ls("one"))
        assert [name for name in found if name in names] == names


class TestChanges:
    def test_what_is_written_at_once_is_found(self, root: Path, workspace: Path) -> None:
        archive = WorkspaceArchive(root)
        for number in range(200):
            since = time.time()
            (workspace / f"new{number}").touch()
            assert f"new{number}" in paths(archive.changes("one", since))

    def test_a_removal_is_told_by_its_directory(self, root: Path, workspace: Path) -> None:
        time.sleep(0.1)
        since = time.time()
        (workspace / "sub" / "b.txt").unlink()
        assert paths(WorkspaceArchive(root).changes("one", since)) == ["sub"]

    @pytest.mark.parametrize("target", ["{outside}", "sub", "missing", "a.txt"])
    def test_what_goes_meanwhile_is_left_out(self, root: Path, workspace: Path, outside: Path, target: str) -> None:
        for number in range(5):
            (workspace / "sub" / f"c{number}").touch()
        found = WorkspaceArchive(root).changes("one", 0, "sub")
        seen = [next(found).path]
        (workspace / "sub").rename(workspace / "gone")
        (workspace / "sub").symlink_to(target.format(outside=outside))
        seen += paths(found)
        assert seen == ["sub/b.txt"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged by renameat2")
class TestRaces:
    READS = 2000

    @pytest.mark.parametrize("flipped", ["one/workspace/a.txt", "one/workspace", "one"])
    def test_a_racing_link_leaks_nothing(self, root: Path, outside: Path, flipped: str) -> None:
        (outside / "workspace").mkdir()
        (outside / "workspace" / "a.txt").write_text(SECRET)
        (root / "link").symlink_to(outside / "a.txt" if flipped.endswith(".txt") else outside)
        archive, seen = WorkspaceArchive(root), set()
        with flipping((root / flipped, root / "link")):
            for _ in range(self.READS):
                with suppress(SandboxError):
                    seen.add(archive.read("one", "a.txt"))
        assert seen == {"a"}

    def test_a_racing_directory_leaks_nothing_into_lists_and_exports(self, root: Path, outside: Path) -> None:
        (root / "link").symlink_to(outside)
        archive, names, streams, messages = WorkspaceArchive(root), set(), [], set()
        with flipping((root / "one/workspace/sub", root / "link")):
            for _ in range(self.READS // 10):
                try:
                    archive.export("one", "sub/b.txt").read()
                except SandboxError as error:
                    messages.add(str(error))
                with suppress(SandboxError):
                    names.update(paths(archive.ls("one", "sub")))
                with suppress(SandboxError):
                    names.update(paths(archive.changes("one", 0)))
                with suppress(SandboxError):
                    streams.append(archive.export("one", denied="skip").read())
        assert names <= {"a.txt", "sub", "sub/b.txt"}
        assert not any(str(root.parent) in message for message in messages)
        assert streams
        assert not any(SECRET.encode() in stream for stream in streams)


def test_one_archive_serves_many_threads(root: Path, workspace: Path) -> None:
    archive, failures = WorkspaceArchive(root, ruleset=SECRETS), []

    def use() -> None:
        for _ in range(20):
            if archive.read("one", "a.txt") != "a" or len(list(archive.walk("one"))) != 3:
                failures.append("another answer")

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_session_of_another_name_is_never_reached(root: Path) -> None:
    with pytest.raises(PathNotFoundError):
        WorkspaceArchive(root).ls("ONE" if not (root / "ONE").exists() else "other")
