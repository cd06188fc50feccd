"""Confinement and the machine: what it can do, who the user is, and what of the library lies in the workspace."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox_kit.backends.local import base, confine, etc, joiner, locks, namespace, probe, process, scratch
from sandbox_kit.errors import SandboxUnavailableError, UnsupportedError
from sandbox_kit.host import private

from .confinement import SECRET, Denials, Workspace, started

MASKS = Denials(deny=(r".*/\.env", ".*/private"))


class TestProbe:
    @pytest.fixture(autouse=True)
    def forget(self) -> Iterator[None]:
        probe.tried.cache_clear()
        yield
        probe.tried.cache_clear()

    def pretend(self, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return probe.can_confine()

    @pytest.mark.needs("bwrap")
    def test_says_nothing_where_commands_can_be_confined(self) -> None:
        assert probe.can_confine() is None

    def test_names_the_package_where_it_is_missing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert probe.can_confine() == "bubblewrap is not installed: apt install bubblewrap"
        with pytest.raises(UnsupportedError, match="apt install bubblewrap"):
            probe.program()

    @pytest.mark.parametrize(
        ("complaint", "advice"),
        [
            ("bwrap: Unknown option --ro-bind-fd", "apt install bubblewrap"),
            ("bwrap: No permissions to create new namespace, likely because ...", "sysctl"),
            ("bwrap: Creating new namespace failed: Resource temporarily unavailable", "user namespaces are off"),
            ("bwrap: setting up uid map: Permission denied", "sysctl"),
            ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
            ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "container"),
            ("bwrap: something new", "bubblewrap does not work here: bwrap: something new"),
            ("", "says nothing"),
        ],
    )
    def test_says_what_to_do(
        self, complaint: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reason = self.pretend(f'echo "{complaint}" >&2; exit 1', tmp_path, monkeypatch)
        assert reason is not None
        assert advice in reason

    def test_a_program_that_cannot_be_run_is_a_reason(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        program = tmp_path / "bwrap"
        program.write_bytes(b"\x7fELF broken")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "Exec format error" in str(probe.can_confine())

    @pytest.mark.needs("bwrap")
    def test_one_that_breaks_later_is_no_reason_to_run_plain(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert probe.can_confine() is None
        assert self.pretend("exit 1", tmp_path, monkeypatch) is None

    @pytest.mark.needs("bwrap")
    def test_no_room_for_a_process_is_a_reason_for_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_arguments: object, **_options: object) -> None:
            raise SandboxUnavailableError("no process")

        with monkeypatch.context() as patch:
            patch.setattr(process, "run", refuse)
            assert probe.can_confine() == "bubblewrap does not run: no process"
        assert probe.can_confine() is None

    @pytest.mark.needs("bwrap")
    def test_finds_out_where_the_host_ignores_sigchld(self) -> None:
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            assert probe.can_confine() is None
        finally:
            signal.signal(signal.SIGCHLD, before)

    def test_another_system_is_a_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        assert probe.can_confine() == "commands are confined on Linux only, and this is darwin"

    def test_it_is_tried_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = tmp_path / "log"
        for _ in range(3):
            self.pretend(f"echo >> {log}", tmp_path, monkeypatch)
        assert log.read_text() == "\n"

    def test_no_command_is_prepared_where_none_can_be_confined(
        self, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(UnsupportedError, match="not installed"):
            workspace.run("true", MASKS)


class TestOwnDirectory:
    def test_is_the_user_s_alone(self) -> None:
        status = os.stat(scratch.own_directory())
        assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o700)

    @pytest.mark.parametrize("mode", [0o701, 0o720, 0o755, 0o1777])
    def test_one_that_others_may_enter_or_write_to_is_refused(
        self, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tmp_path.chmod(mode)
        monkeypatch.setattr(private, "_SHARED", str(tmp_path))
        with pytest.raises(UnsupportedError, match="not a directory of this user alone: commands cannot be confined"):
            scratch.own_directory()
        assert stat.S_IMODE(tmp_path.stat().st_mode) == mode

    def test_a_stranger_s_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tmp_path.chmod(0o700)
        monkeypatch.setattr(private, "_SHARED", str(tmp_path))
        assert scratch.own_directory() == str(tmp_path)
        stranger = tmp_path.stat().st_uid + 1
        monkeypatch.setattr(os, "geteuid", lambda: stranger)
        with pytest.raises(UnsupportedError, match="not a directory of this user alone: commands cannot be confined"):
            scratch.own_directory()

    def test_a_link_or_a_file_of_its_name_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "own").mkdir(mode=0o700)
        (tmp_path / "link").symlink_to(tmp_path / "own")
        (tmp_path / "dangling").symlink_to(tmp_path / "missing")
        (tmp_path / "file").touch()
        for name, what in (("link", "a link"), ("dangling", "a link"), ("file", "no directory")):
            monkeypatch.setattr(private, "_SHARED", f"{tmp_path}/{name}")
            with pytest.raises(UnsupportedError, match=f"{name} is {what}: commands cannot be confined"):
                scratch.own_directory()
        assert not (tmp_path / "missing").exists()

    def test_one_that_cannot_be_made_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(private, "_SHARED", f"{tmp_path}/missing/own")
        with pytest.raises(UnsupportedError, match="cannot be made: No such file"):
            scratch.own_directory()


class TestLocks:
    def test_old_ones_that_nobody_holds_are_removed(self, tmp_path: Path) -> None:
        for name in ("held.lock", "free.lock", "new.lock", "other"):
            (tmp_path / name).touch()
        for name in ("held.lock", "free.lock", "other"):
            os.utime(tmp_path / name, (0, 0))
        with open(tmp_path / "held.lock", "r+b") as file:
            assert locks.take_lock(file.fileno(), shared=True)
            locks.remove_old_locks(str(tmp_path))
        assert {path.name for path in tmp_path.iterdir()} == {"held.lock", "new.lock", "other"}

    def test_a_shared_one_keeps_out_an_exclusive_one(self, tmp_path: Path) -> None:
        name = tmp_path / "lock"
        with open(name, "w+b") as first, open(name, "r+b") as second, open(name, "r+b") as third:
            assert locks.take_lock(first.fileno(), shared=True)
            assert locks.take_lock(second.fileno(), shared=True)
            assert not locks.take_lock(third.fileno(), shared=False)

    def test_closing_another_descriptor_of_the_file_keeps_it(self, tmp_path: Path) -> None:
        name = tmp_path / "lock"
        with open(name, "w+b") as first, open(name, "r+b") as second:
            assert locks.take_lock(first.fileno(), shared=False)
            name.open("rb").close()
            assert not locks.take_lock(second.fileno(), shared=False)


class TestEtc:
    def test_holds_only_what_every_user_may_read(self, tmp_path: Path) -> None:
        source = tmp_path / "source"
        for name in ("services", "ssl/certs/a.pem", "ssl/certs/closed.pem", "ssl/private/key.pem", "shadow"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(name)
        (source / "ssl/certs/closed.pem").chmod(0o600)
        (source / "ssl/certs/link.pem").symlink_to("a.pem")
        (source / "protocols").symlink_to("services")
        os.mkfifo(source / "rpc")
        made = Path(etc.make_etc(str(tmp_path), network=False, source=str(source)))
        names = {str(path.relative_to(made)) for path in made.rglob("*") if not path.is_dir()}
        own = {"passwd", "group", "hosts", "hostname", "nsswitch.conf"}
        assert names == own | {"services", "protocols", "ssl/certs/a.pem", "ssl/certs/link.pem"}
        assert (made / "ssl/certs/link.pem").is_symlink()

    def test_is_made_once_and_anew_when_the_host_changes(self, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.mkdir()
        made = etc.make_etc(str(tmp_path), network=False, source=str(source))
        assert etc.make_etc(str(tmp_path), network=False, source=str(source)) == made
        (source / "services").write_text("http 80/tcp")
        assert etc.make_etc(str(tmp_path), network=False, source=str(source)) != made

    def test_half_of_one_is_never_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source, own = tmp_path / "source", tmp_path / "own"
        for directory in (source, own):
            directory.mkdir()
        (source / "services").write_text("http 80/tcp")

        def fill_the_disk(target: str, data: bytes) -> None:
            Path(target).write_bytes(data[:3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(etc, "_write", fill_the_disk)
            with pytest.raises(OSError, match="No space"):
                etc.make_etc(str(own), network=False, source=str(source))
        assert list(own.iterdir()) == []
        made = etc.make_etc(str(own), network=False, source=str(source))
        assert Path(made, "services").read_text() == "http 80/tcp"

    def test_what_is_old_is_removed(self, tmp_path: Path) -> None:
        (tmp_path / "etc-old").mkdir()
        (tmp_path / "other").mkdir()
        for name in ("etc-old", "other"):
            os.utime(tmp_path / name, (0, 0))
        etc.make_etc(str(tmp_path), network=False, source=str(tmp_path / "none"))
        assert not (tmp_path / "etc-old").exists()
        assert (tmp_path / "other").exists()

    def test_what_another_thread_has_just_finished_making_is_no_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "listdir", lambda directory: ["new-finished"])
        made = etc.make_etc(str(tmp_path), network=False, source=str(tmp_path / "none"))
        assert Path(made, "passwd").exists()


@pytest.mark.needs("bwrap")
class TestOwnCode:
    """What this process runs code from is not for commands to change."""

    def test_this_python_in_the_workspace_is_read_only_where_it_is(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        python = workspace.put("tools/venv/bin/python", "code")
        workspace.put("tools/a.txt")
        monkeypatch.setattr(sys, "prefix", f"{workspace.root}/tools/venv")
        opened = workspace.denials(allow=("W/tools/venv",), protect=("W/tools",))
        for masks in (None, workspace.denials("W/tools/a.txt"), workspace.denials(protect=("W/tools",)), opened):
            for line in ("echo evil > tools/venv/bin/python", "mv tools t && mkdir -p tools/venv/bin", "rm -r tools"):
                assert not workspace.run(line, masks).endswith("rc=0")
            assert workspace.run("cat tools/venv/bin/python", masks) == "coderc=0"
        assert python.read_text() == "code"

    def test_this_python_may_be_hidden_all_the_same(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workspace.put("venv/bin/python")
        monkeypatch.setattr(sys, "prefix", f"{workspace.root}/venv")
        assert SECRET not in workspace.run("cat venv/bin/python", workspace.denials("W/venv"))

    def test_the_package_itself_is_among_it(self) -> None:
        package = Path(base.__file__).parents[2]
        assert str(package) in base.own_code(str(package.parent))
        assert base.own_code(str(package)) == []
        for work_dir in (package, package / "backends"):
            with pytest.raises(UnsupportedError, match="this library lies in the workspace"):
                confine.check_launcher(str(work_dir))

    def test_a_prefix_that_is_the_workspace_is_read_only_in_what_python_needs(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("bin/python", "lib/python3/site.py", "pyvenv.cfg"):
            workspace.put(name, "code")
        monkeypatch.setattr(sys, "prefix", workspace.root)
        for masks in (None, MASKS):
            for name in ("bin/python", "lib/python3/site.py", "pyvenv.cfg"):
                line = f"echo evil > {name} || rm {name} || mv {name} x"
                assert not workspace.run(line, masks).endswith("rc=0")
                assert Path(workspace.root, name).read_text() == "code"
            assert workspace.run("mv lib l", masks) != "rc=0"
            assert workspace.run("echo x > own.txt", masks) == "rc=0"

    def test_the_interpreter_itself_is_among_it(self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        program = workspace.put("tools/python3", "code")
        monkeypatch.setattr(base, "helper_interpreter", lambda: str(program))
        line = "echo evil > tools/python3 || mv tools/python3 p || mv tools t"
        assert not workspace.run(line).endswith("rc=0")
        assert program.read_text() == "code"

    def test_a_prefix_that_is_a_project_shows_nothing_else_of_it(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project = Path(workspace.root).parent / "project"
        for name in (".env", "certs/key.pem", "lib/a.txt", "pyvenv.cfg"):
            workspace.put(f"../project/{name}", f"in {name}\n")
        (project / "lib64").symlink_to("lib")
        monkeypatch.setattr(sys, "prefix", str(project))
        printed = workspace.run(f"cd {project}; ls -A; cat .env certs/*; cat lib/a.txt lib64/a.txt pyvenv.cfg")
        assert printed.splitlines()[:3] == ["lib", "lib64", "pyvenv.cfg"]
        assert printed.endswith("in lib/a.txt\nin lib/a.txt\nin pyvenv.cfg\nrc=0")
        assert "in .env" not in printed
        assert "in certs" not in printed

    def test_the_library_s_own_files_are_hidden(self, workspace: Workspace) -> None:
        inside = Workspace(workspace.root, f"{workspace.root}/deep/scratch")
        Path(inside.scratch).mkdir(parents=True)
        for masks in (None, MASKS):
            printed = inside.run("ls deep/scratch; mv deep d; echo x > deep/scratch/hidden-file; touch ok", masks)
            assert "hidden-file\n" not in printed
            assert printed.endswith("rc=0")
        assert Path(inside.scratch, "hidden-file").stat().st_size == 0


@pytest.mark.needs("bwrap")
class TestAnOrdinaryUser:
    def test_is_held_to_masks(self, as_nobody: Callable[[Callable[[Workspace], object]], None]) -> None:
        def check(workspace: Workspace) -> None:
            for name in (".env", "sub/.env", "private/key.txt", "keep/a.txt"):
                workspace.put(name)
            masks = Denials(deny=MASKS.deny, protect=(".*/keep",))
            for line in (
                "cat .env sub/.env private/key.txt",
                "chmod 777 .env private; grep -rs . sub private .env",
                "umount private; unshare -Urm sh -c 'umount private; cat private/key.txt'",
                "unshare -Urm sh -c 'mkdir b; mount --bind . b; cat b/.env'",
                "mv private p; mv .env e; cat p/key.txt e",
                "cat /proc/1/root/$PWD/.env /proc/*/cwd/.env",
            ):
                assert SECRET not in workspace.run(line, masks), line
            assert not workspace.run("echo x > keep/a.txt", masks).endswith("rc=0")
            assert workspace.run("id -u; touch made; stat -c %u made", masks) == "65534\n65534\nrc=0"

        as_nobody(check)

    def test_cannot_close_a_directory_to_the_walk_and_open_it_again(
        self, as_nobody: Callable[[Callable[[Workspace], object]], None]
    ) -> None:
        def check(workspace: Workspace) -> None:
            for name in ("a/x/.env", "b/x/.env"):
                workspace.put(name)
            os.chmod(f"{workspace.root}/a/x", 0)
            os.chmod(f"{workspace.root}/b", 0o444)
            assert SECRET not in workspace.run("chmod 755 a/x b; cat a/x/.env b/x/.env", MASKS)
            assert SECRET not in workspace.run("chmod 755 a/x b; cat a/x/.env b/x/.env", MASKS)

        as_nobody(check)

    def test_enters_what_lives(
        self, as_nobody: Callable[[Callable[[Workspace], object]], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        python = "/usr/bin/python3"
        if not Path(python).exists():
            pytest.skip(f"needs a Python that every user may run, such as {python}")
        with tempfile.NamedTemporaryFile(suffix=".py") as copy:
            copy.write(Path(joiner.__file__).read_bytes())
            copy.flush()
            os.chmod(copy.name, 0o644)
            monkeypatch.setattr(joiner, "__file__", copy.name)
            monkeypatch.setattr(namespace, "helper_interpreter", lambda: python)
            as_nobody(check_entering)


def check_entering(workspace: Workspace) -> None:
    for name in (".env", "private/key.txt"):
        workspace.put(name)
    with ExitStack() as stack:
        started(stack, workspace.prepare(MASKS), "echo up; sleep 60")
        printed = workspace.run(
            "id -u; grep Cap /proc/self/status; cat .env private/key.txt; umount .env; cat .env; unshare -Urm true",
            MASKS,
            timeout=10,
        )
        assert printed.startswith("65534\n"), printed
        assert printed.count("0" * 16) == 5, printed
        assert SECRET not in printed, printed
        assert not printed.endswith("rc=0"), printed


@pytest.mark.needs("bwrap")
def test_no_process_of_the_sandbox_can_be_made_to_tell(workspace: Workspace) -> None:
    workspace.put(".env")
    program = (
        "import os\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    for place in ('root', 'cwd'):\n"
        "        try: print(open(f'/proc/{pid}/{place}' + os.getcwd() * (place == 'root') + '/.env').read())\n"
        "        except OSError as error: print(error.errno)\n"
    )
    assert SECRET not in workspace.run([sys.executable, "-c", program], MASKS)


@pytest.mark.needs("bwrap")
def test_a_hard_link_made_before_stays_open(workspace: Workspace) -> None:
    secret = workspace.put(".env")
    os.link(secret, Path(workspace.root, "hard"))
    assert workspace.run("cat hard", MASKS) == f"{SECRET}rc=0"


def test_what_is_hidden_in_proc_is_read_from_the_list_of_mounts() -> None:
    mounts = (
        b"24 1 0:22 / /proc rw,nosuid - proc proc rw\n"
        b"25 24 0:22 /sys /proc/sys ro,nosuid - proc proc rw\n"
        b"26 24 8:1 /hidden-file /proc/a\\040b\\134c ro master:1 - ext4 /dev/sda rw\n"
        b"27 24 8:1 /hidden-file /proc/fs/\xff ro - ext4 /dev/sda rw\n"
        b"28 1 8:1 /hidden-file /process ro - ext4 /dev/sda rw\n"
    )
    assert joiner.hidden_in_proc(mounts) == [b"/proc/a b\\c", b"/proc/fs/\xff"]


DAEMON = """
import os, sys
os.closerange(0, 3)
from sandbox_kit import LocalSandbox
with LocalSandbox(sys.argv[1]) as box:
    result = box.execute("cat; echo out; echo err >&2; ls /proc/self/fd | wc -l", stdin="in ")
    box.write("told", f"{box.capabilities.commands} {result.stdout!r} {result.stderr!r}")
"""


@pytest.mark.needs("bwrap")
def test_a_host_without_standard_descriptors_runs_commands(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DAEMON, tmp_path], check=True, timeout=60)
    assert Path(tmp_path, "told").read_text() == r"confined 'in out\n4\n' 'err\n'"
