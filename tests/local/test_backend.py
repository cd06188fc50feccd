"""LocalBackend beside the conformance suite: construction, deep trees, kernels without openat2, odd errors."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import resource
import tarfile
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sandbox_kit.backends.local import LocalBackend, LocalSandbox, backend, scan
from sandbox_kit.contract import Backend
from sandbox_kit.errors import (
    InvalidArgumentError,
    NotRegularFileError,
    PathAccessError,
    PathError,
    PathEscapeError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxConflictError,
    SandboxError,
    SandboxUnavailableError,
)
from sandbox_kit.guard import guarding
from sandbox_kit.host import pin, system, trail
from sandbox_kit.host.trail import HELD
from sandbox_kit.primitives import Entry, allow
from sandbox_kit.rules.ruleset import PermissionRule, PermissionRuleset
from sandbox_kit.testing import BackendConformance, HostFilesConformance
from sandbox_kit.testing.host import give_away, ordinary_user
from sandbox_kit.types import Skipped

from .descriptors import opened_beneath

LEVELS = 1_100


def without_openat2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be one on a kernel without openat2."""

    def missing(root: int, path: str, flags: int) -> NoReturn:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    for module in (pin, trail):
        monkeypatch.setattr(module, "open_beneath", missing)


class TestConstruction:
    @pytest.mark.parametrize("kind", [LocalBackend, LocalSandbox])
    @pytest.mark.parametrize("root", ["a\0b", b"/tmp", "", "\ud800", 3, Path], ids=repr)
    def test_what_is_no_directory_s_name_is_refused(self, kind: Any, root: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="root"):
            kind(root)

    @pytest.mark.parametrize("kind", [LocalBackend, LocalSandbox])
    def test_sizes_and_times_are_checked(self, kind: Any, tmp_path: Path) -> None:
        made = kind(tmp_path, max_read_bytes="50m", file_timeout=2)
        assert (made.max_read_bytes, made.file_timeout) == (50 * 2**20, 2.0)
        assert (kind(tmp_path).max_read_bytes, kind(tmp_path).file_timeout) == (50 * 2**20, 30.0)
        for wrong in (-1, 0, "much", 1.5, None, True):
            with pytest.raises(InvalidArgumentError, match="max_read_bytes"):
                kind(tmp_path, max_read_bytes=wrong)
        for wrong in (-1, 0, float("nan"), float("inf"), "1", None, True):
            with pytest.raises(InvalidArgumentError, match="file_timeout"):
                kind(tmp_path, file_timeout=wrong)

    def test_a_missing_root_is_told_on_first_use(self, tmp_path: Path) -> None:
        made = LocalBackend(tmp_path / "missing")
        with pytest.raises(PathNotFoundError):
            made.ls()
        (tmp_path / "missing").mkdir()
        assert made.ls() == []

    def test_a_relative_root_is_where_it_was_when_it_was_given(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "root").mkdir()
        monkeypatch.chdir(tmp_path)
        made = LocalBackend("root")
        monkeypatch.chdir("/")
        assert made.work_dir == os.path.realpath(tmp_path / "root")

    def test_a_parent_of_a_link_is_where_the_system_has_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "there/below").mkdir(parents=True)
        (tmp_path / "there/f").write_text("there")
        (tmp_path / "f").write_text("here")
        (tmp_path / "link").symlink_to("there/below")
        monkeypatch.chdir(tmp_path)
        for root in ("link/..", f"{tmp_path}/link/../.", "link/../below/.."):
            made = LocalBackend(root)
            assert made.work_dir == os.path.realpath(tmp_path / "there")
            assert made.read("f") == made.read(str(tmp_path / "there/f")) == "there"
            with pytest.raises(PathEscapeError):
                made.read(str(tmp_path / "f"))

    def test_a_copy_has_the_same_root_and_options(self, tmp_path: Path) -> None:
        made = LocalBackend(tmp_path, max_read_bytes=7, file_timeout=3)
        made.write("f", "x")
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            assert again.read("f") == "x"
            assert (again.max_read_bytes, again.file_timeout) == (7, 3.0)


class TestCase:
    """Whether names that differ in case are two is told by what is in the root."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "Root").mkdir()
        return tmp_path / "Root"

    def fold(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        """Let *directory*, and nothing else, be one that folds case."""
        looked_up, folding = pin.lookup, directory.stat()

        def lookup(at: int, name: str) -> os.stat_result | None:
            if os.path.samestat(os.fstat(at), folding):
                name = next((each for each in os.listdir(at) if each.lower() == name.lower()), name)
            return looked_up(at, name)

        monkeypatch.setattr(pin, "lookup", lookup)

    def test_by_an_entry(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "123").touch()
        (root / "name").touch()
        assert LocalBackend(root).capabilities.case_sensitive
        self.fold(monkeypatch, root)
        assert not LocalBackend(root).capabilities.case_sensitive

    def test_two_names_of_one_file_are_two_names(self, root: Path) -> None:
        (root / "name").touch()
        os.link(root / "name", root / "NAME")
        assert LocalBackend(root).capabilities.case_sensitive

    def test_of_an_empty_root_by_its_own_name(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert LocalBackend(root).capabilities.case_sensitive
        self.fold(monkeypatch, root.parent)
        assert not LocalBackend(root).capabilities.case_sensitive


class TestPrefixesOfRules:
    """A rule's literal prefix is resolved to the names on disk."""

    def resolve(self, made: LocalBackend, prefix: Path) -> str:
        (real,) = made._resolve_prefixes([unicodedata.normalize("NFC", str(prefix))])
        return real

    def test_names_on_disk_need_not_be_in_nfc(self, tmp_path: Path) -> None:
        root = tmp_path / "cafe\u0301"
        (root / "re\u0301al").mkdir(parents=True)
        (root / "data").symlink_to("re\u0301al")
        made = LocalBackend(root)
        for prefix in (root / "data", root / "re\u0301al", root / "re\u0301al/../data/."):
            assert self.resolve(made, Path(os.path.normpath(prefix))) == str(root / "re\u0301al")
        assert self.resolve(made, root / "data/none/e\u0301") == str(root / "re\u0301al/none/\u00e9")
        (root / "re\u0301al/k").write_text("secret")
        guarded = guarding(made, PermissionRuleset("allow", rules=[PermissionRule("./data/**", "deny")]))
        with pytest.raises(PermissionDeniedError):
            guarded.read("re\u0301al/k")

    def test_an_ascii_character_may_be_another_on_disk(self, tmp_path: Path) -> None:
        (tmp_path / "\u212a").mkdir()
        assert self.resolve(LocalBackend(tmp_path), tmp_path / "K") == str(tmp_path / "\u212a")

    def test_an_exact_name_goes_before_another_spelling(self, tmp_path: Path) -> None:
        (tmp_path / "e\u0301").mkdir()
        (tmp_path / "\u00e9").symlink_to("there")
        assert self.resolve(LocalBackend(tmp_path), tmp_path / "\u00e9/x") == str(tmp_path / "there/x")

    @pytest.mark.parametrize("target", ["loop", "./loop/x", "../gone"])
    def test_what_leads_nowhere_has_a_name_all_the_same(self, tmp_path: Path, target: str) -> None:
        (tmp_path / "loop").symlink_to(target)
        assert self.resolve(LocalBackend(tmp_path), tmp_path / "loop/y").endswith("/y")

    def test_one_that_leads_through_the_root_is_resolved_anew(self, tmp_path: Path) -> None:
        (tmp_path / "root").mkdir()
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
        (tmp_path / "root/data").symlink_to(tmp_path / "one")
        (tmp_path / "outside").symlink_to("root/data")
        made = LocalBackend(tmp_path / "root")
        assert self.resolve(made, tmp_path / "outside/x") == str(tmp_path / "one/x")
        (tmp_path / "root/data").unlink()
        (tmp_path / "root/data").symlink_to(tmp_path / "two")
        assert self.resolve(made, tmp_path / "outside/x") == str(tmp_path / "two/x")

    def test_one_of_the_operator_s_is_resolved_once(self, tmp_path: Path) -> None:
        (tmp_path / "root").mkdir()
        (tmp_path / "link").symlink_to("one")
        made = LocalBackend(tmp_path / "root")
        made.ls()
        assert self.resolve(made, tmp_path / "link/x") == str(tmp_path / "one/x")
        (tmp_path / "link").unlink()
        assert self.resolve(made, tmp_path / "link/x") == str(tmp_path / "one/x")


class TestARootThatVanished:
    def test_it_stays_gone_when_another_takes_its_name(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        root.mkdir()
        made = LocalBackend(root)
        assert made.ls() == []
        root.rmdir()
        root.mkdir()
        (root / "f").write_text("another's")
        with pytest.raises(SandboxUnavailableError, match="removed"):
            made.read("f")
        assert made.work_dir == str(root)

    def test_a_root_that_moved_is_there(self, tmp_path: Path) -> None:
        (tmp_path / "root").mkdir()
        made = LocalBackend(tmp_path / "root")
        made.write("f", "x")
        (tmp_path / "root").rename(tmp_path / "moved")
        assert made.read("f") == "x"


class TestTheWalkAlone(HostFilesConformance, BackendConformance):
    """The whole suite where every path is walked component by component."""

    @pytest.fixture(autouse=True)
    def old_kernel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        without_openat2(monkeypatch)

    def make_backend(self, tmp_path: Path) -> LocalBackend:
        (tmp_path / "root").mkdir(exist_ok=True)
        return LocalBackend(tmp_path / "root", max_read_bytes=self.max_read_bytes)

    def host_path(self, backend: Backend, path: str) -> Path:
        return Path(backend.work_dir, path)


class TestTypedParents:
    """A typed ``..`` is the library's own to resolve, never the kernel's."""

    def test_the_kernel_is_never_given_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        given: list[str] = []

        def noted(root: int, path: str, flags: int) -> system.Descriptor:
            given.append(path)
            return system.open_beneath(root, path, flags)

        for module in (pin, trail):
            monkeypatch.setattr(module, "open_beneath", noted)
        made = LocalBackend(tmp_path)
        made.write("d/e/f", "x")
        made.write("g", "y")
        assert made.read("d/e/../../g") == "y"
        assert made.read("d/../d/e/f") == "x"
        made.write("d/../g", "z")
        assert made.ls("d/e/..") == made.ls("d")
        assert given
        assert not any(".." in path.split("/") for path in given)

    def test_it_is_taken_from_where_a_link_leads(self, tmp_path: Path) -> None:
        made = LocalBackend(tmp_path)
        made.write("a/b/f", "x")
        made.write("a/g", "beside b")
        (tmp_path / "link").symlink_to("a/b")
        assert made.read("link/../g") == "beside b"


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[LocalBackend]:
    """A backend with a file and a link at the end of more directories than a process may have open."""
    (tmp_path / "root").mkdir()
    made = LocalBackend(tmp_path / "root")
    made.write("top/" + "d/" * LEVELS + "f", "needle\n")
    made._symlink("f", "top/" + "d/" * LEVELS + "link", operations=("write",), authorize=allow)
    yield made
    for entry in made.ls():
        made.remove(entry.path, recursive=True)


class TestDeepTrees:
    """Depth costs neither a descriptor nor a Python frame a level."""

    FILE = "top/" + "d/" * LEVELS + "f"

    def test_are_listed_and_searched(self, deep: LocalBackend) -> None:
        found = deep.glob("**")
        assert (len(found), found.skipped) == (LEVELS + 3, ())
        assert [match.path for match in deep.grep("needle")] == [self.FILE]
        assert deep.read(self.FILE[:-1] + "link") == "needle\n"

    def test_are_climbed(self, deep: LocalBackend) -> None:
        deep.write("beside", "x")
        up = self.FILE[:-1] + "../" * (LEVELS + 1) + "beside"
        assert deep.read(up) == "x"

    def test_are_moved_and_removed(self, deep: LocalBackend) -> None:
        deep.move("top", "moved")
        assert deep.read("moved" + self.FILE.removeprefix("top")) == "needle\n"
        deep.remove("moved", recursive=True)
        assert deep.ls() == []

    def test_need_few_descriptors_without_openat2(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        without_openat2(monkeypatch)
        made = LocalBackend(tmp_path)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 100, hard))
        try:
            made.write("d/" * 300 + "f", "needle\n")
            made.write("g", "beside")
            assert made.read("d/" * 300 + "f") == "needle\n"
            assert made.read("d/" * 300 + "../" * 300 + "g") == "beside"
            assert made.read("d/" * 300 + "../" * 200 + "d/" * 200 + "f") == "needle\n"
            assert len(made.glob("**")) == 302
            made.remove("d", recursive=True)
            assert [entry.path for entry in made.ls()] == ["g"]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_are_exported(self, deep: LocalBackend) -> None:
        with deep.export("top") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            names = [member.name for member in archive]
        assert len(names) == LEVELS + 2

    def test_are_copied_there_and_back(self, deep: LocalBackend, tmp_path: Path) -> None:
        copied = LocalBackend(tmp_path)
        deep.download("top", tmp_path / "out")
        try:
            deep.upload(tmp_path / "out", "again")
            assert deep.read("again" + self.FILE.removeprefix("top")) == "needle\n"
        finally:
            copied.remove("out", recursive=True)


class TestWalks:
    def test_few_directories_are_open_at_a_time(self, tmp_path: Path) -> None:
        made = LocalBackend(tmp_path)
        made.write("d/" * 3 * HELD + "f", "x")
        for _ in made._scandir(".", operations=("ls",), authorize=allow, depth=None):
            assert len(opened_beneath(made.work_dir)) <= HELD + 3
        assert opened_beneath(made.work_dir) == [made.work_dir]

    def test_a_directory_that_is_a_link_by_then_is_not_entered(self, tmp_path: Path) -> None:
        made = LocalBackend(tmp_path / "root")
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside/secret").write_text("x")
        (tmp_path / "root/d").mkdir(parents=True)
        walk = made._scandir(".", operations=("ls",), authorize=allow, depth=None)
        entries: list[Entry] = [next(walk)]
        (tmp_path / "root/d").rmdir()
        (tmp_path / "root/d").symlink_to(tmp_path / "outside")
        entries += walk
        assert len(entries) == 2
        assert isinstance(entries[1], Skipped)
        assert entries[1].path == "d"

    def test_a_rule_hides_what_cannot_be_looked_at_too(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        root.mkdir()
        made = LocalBackend(root)
        for name in ("hidden/f", "names/f", "shown/f"):
            made.write(name, "x")
        give_away(root)
        rules = PermissionRuleset(
            "allow", rules=[PermissionRule("hidden/**", "deny"), PermissionRule("names/f", "deny")]
        )
        guarded = guarding(made, rules)
        assert made.exists("names")
        (root / "hidden").chmod(0)
        (root / "names").chmod(0o600)
        try:
            with ordinary_user():
                told = {skipped.path for skipped in made.glob("**").skipped}
                shown = {skipped.path for skipped in guarded.glob("**").skipped}
        finally:
            (root / "hidden").chmod(0o700)
            (root / "names").chmod(0o700)
        assert told == {"hidden", "names/f"}
        assert shown == set()

    def test_a_named_directory_that_breaks_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(directory: object) -> list[str]:
            raise OSError(errno.EIO, "the disk broke")

        made = LocalBackend(tmp_path)
        made.write("d/f", "x")
        monkeypatch.setattr(scan, "_entries", broken)
        with pytest.raises(PathError, match="d: the disk broke"):
            made.ls("d")


class TestErrorsOfTheSystem:
    """What the system says is said as the library's own error, whatever the call."""

    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (errno.EACCES, PathAccessError),
            (errno.EROFS, PathAccessError),
            (errno.EXDEV, PathError),
            (errno.EIO, PathError),
            (errno.ENXIO, NotRegularFileError),
        ],
    )
    def test_of_a_move(
        self, tmp_path: Path, number: int, kind: type[PathError], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: object) -> None:
            raise OSError(number, os.strerror(number))

        made = LocalBackend(tmp_path)
        made.write("f", "x")
        monkeypatch.setattr(backend, "rename_noreplace", refuse)
        with pytest.raises(kind) as caught:
            made.move("f", "g")
        assert caught.value.path == "f"
        assert not isinstance(caught.value, PathEscapeError)

    @pytest.mark.parametrize(
        ("number", "kind"), [(errno.ENOENT, PathNotFoundError), (errno.EINVAL, SandboxConflictError)]
    )
    def test_of_a_link_that_went(
        self, tmp_path: Path, number: int, kind: type[SandboxError], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def gone(*arguments: object, **options: object) -> str:
            raise OSError(number, "gone")

        made = LocalBackend(tmp_path)
        (tmp_path / "link").symlink_to("/outside")
        monkeypatch.setattr(os, "readlink", gone)
        with pytest.raises(kind):
            made._readlink("link", operations=("read",), authorize=allow)
        assert [entry.path for entry in guarding(made, PermissionRuleset("allow")).ls()] == ["link"]
        for call in (made.read, made.export, made.stat):
            with suppress(SandboxError):
                call("link")
