"""What a confined command sees, and what it can do."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from sandbox_kit.backends.local import confine, probe
from sandbox_kit.errors import (
    InvalidArgumentError,
    PathEscapeError,
    PathNotFoundError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.types import Limits

from .confinement import SECRET, Denials, Workspace, finish, start, started
from .descriptors import settled

pytestmark = pytest.mark.needs("bwrap")


def test_the_workspace_has_its_own_name_and_can_be_changed(workspace: Workspace) -> None:
    workspace.put("a.txt", "old")
    assert workspace.run("pwd; cat a.txt; echo new > a.txt") == f"{workspace.root}\noldrc=0"
    assert Path(workspace.root, "a.txt").read_text() == "new\n"


def test_a_command_starts_where_it_is_told(workspace: Workspace) -> None:
    workspace.put("sub/a.txt")
    assert workspace.run("pwd", cwd=f"{workspace.root}/sub") == f"{workspace.root}/sub\nrc=0"


def test_nothing_else_of_the_host_is_there(workspace: Workspace) -> None:
    beside = workspace.put("../beside.txt")
    printed = workspace.run(f"cat {beside} /etc/shadow; ls -A /home /var /srv /sys /run /boot; ls -A {beside.parent}")
    assert SECRET not in printed
    assert "root:" not in printed
    assert printed.splitlines()[-2] == "work"


def test_only_the_workspace_and_tmp_can_be_written(workspace: Workspace) -> None:
    printed = workspace.run("for d in / /usr /etc /proc /bin /tmp .; do touch $d/made 2>/dev/null && echo $d; done")
    assert printed == "/tmp\n.\nrc=0"
    assert not Path("/tmp/made").exists()


def test_kernel_settings_cannot_be_changed(workspace: Workspace) -> None:
    for name in ("sys/kernel/core_pattern", "sys/vm/swappiness", "mtrr", "pressure/cpu"):
        if Path("/proc", name).exists():
            assert "rc=0" not in workspace.run(f": >> /proc/{name}")


def test_a_command_has_no_capability_and_no_way_to_one(workspace: Workspace) -> None:
    printed = workspace.run(
        "grep -E 'Cap|NoNew' /proc/self/status; unshare -Ur true; unshare -m true; mount -t tmpfs x ."
    )
    sets = [line.split()[1] for line in printed.splitlines() if line.startswith("Cap")]
    assert sets == ["0" * 16] * 5
    assert "NoNewPrivs:\t1" in printed
    assert "rc=0" not in printed


def test_a_command_sees_its_own_processes_alone(workspace: Workspace) -> None:
    printed = workspace.run("ls -d /proc/[0-9]*")
    assert len(printed.splitlines()) <= 5
    assert f"/proc/{os.getpid()}\n" not in printed


def test_no_descriptor_of_the_host_is_left_in_a_command(workspace: Workspace) -> None:
    workspace.put("keep/a.txt")
    workspace.put("secret.txt")
    masks = workspace.denials("W/secret.txt", protect=("W/keep",), pinned=())
    printed = workspace.run(["ls", "/proc/self/fd"], masks)
    assert printed == "0\n1\n2\n3\nrc=0"
    assert workspace.root not in workspace.run("readlink /proc/1/fd/*", masks)


def test_the_network_is_off_unless_asked_for(workspace: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        connect = [
            sys.executable,
            "-c",
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5).sendall(b'hello')",
        ]
        assert "ConnectionRefusedError" in workspace.run(connect)
        assert workspace.run(connect, network=True) == "rc=0"
        connection, _ = server.accept()
        with connection:
            assert connection.recv(9) == b"hello"


def test_names_are_looked_up_only_with_the_network(workspace: Workspace) -> None:
    assert "dns" not in workspace.run("cat /etc/nsswitch.conf")
    assert "hosts: files dns" in workspace.run("cat /etc/nsswitch.conf", network=True)


def test_the_environment_is_the_one_given(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", SECRET)
    printed = workspace.run("env", env={"A": "1\n2"})
    names = {line.partition("=")[0] for line in printed.splitlines()}
    assert names == {"PATH", "HOME", "A", "2", "PWD", "rc"}


def test_variables_of_the_command_do_not_reach_its_launcher(workspace: Workspace) -> None:
    with workspace.prepare(env={"LD_PRELOAD": "/evil.so"}) as prepared:
        assert set(prepared.env) <= {"PATH", "LANG"}
        assert not any("evil" in argument for argument in prepared.argv)
    assert "LD_PRELOAD=/evil.so" in workspace.run("env 2>/dev/null", env={"LD_PRELOAD": "/evil.so"})


def test_the_accounts_are_made_and_the_certificates_are_there(workspace: Workspace) -> None:
    printed = workspace.run("cat /etc/passwd /etc/group; id -un; id -gn; ls /etc")
    assert "(" not in printed
    assert printed.count("\nnobody:") == 1
    listed = set(printed.splitlines())
    assert {"hosts", "nsswitch.conf", "passwd", "ssl"} <= listed or not Path("/etc/ssl").exists()
    assert not {"shadow", "gshadow", "ssh", "sudoers", "resolv.conf"} & listed


def test_the_host_s_name_is_not_told(workspace: Workspace) -> None:
    assert workspace.run("uname -n; cat /etc/hostname") == "sandbox\nsandbox\nrc=0"


def test_this_python_runs(workspace: Workspace) -> None:
    assert workspace.run([sys.executable, "-c", "import ssl, attrs; print(6 * 7)"]) == "42\nrc=0"


@pytest.mark.parametrize(("argv", "code"), [(["no-such-program"], 127), (["/etc/passwd"], 126), (["false"], 1)])
def test_the_exit_code_is_a_shell_s(argv: list[str], code: int, workspace: Workspace) -> None:
    assert workspace.run(argv).endswith(f"rc={code}")


def test_a_signal_is_128_and_its_number(workspace: Workspace) -> None:
    assert workspace.run("kill -TERM $$").endswith("rc=143")


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_command_that_cannot_be_started_is_told_from_one_that_fails(beside: bool, workspace: Workspace) -> None:
    masks = Denials(deny=(".*/secret",))
    with ExitStack() as stack:
        if beside:
            started(stack, workspace.prepare(masks), "echo up; sleep 60")
        for line in ("exit 1", "kill -9 $$", "true"):
            with workspace.prepare(masks) as prepared:
                finish(start(prepared, line))
                prepared.check_started("")
        with workspace.prepare(masks, cwd=f"{workspace.root}/gone") as prepared:
            complaint = finish(start(prepared, "true"))
            with pytest.raises(SandboxUnavailableError, match="No such file or directory"):
                prepared.check_started(complaint.partition("rc=")[0])


def test_a_bubblewrap_in_the_workspace_is_not_trusted(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    program = workspace.put("bin/bwrap", f"#!/bin/sh\necho > {workspace.root}/ran\n")
    program.chmod(0o755)
    link = Path(workspace.root).parent / "bin"
    link.symlink_to(program.parent)
    probe.tried.cache_clear()
    for directory in (program.parent, link):
        monkeypatch.setenv("PATH", str(directory))
        with pytest.raises(UnsupportedError, match="lies in the workspace"):
            workspace.run("true")
    assert not Path(workspace.root, "ran").exists()


def test_a_bubblewrap_of_the_system_counts_first(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    program = workspace.put("bin/bwrap", "#!/bin/sh\n")
    program.chmod(0o755)
    own = probe.program()
    monkeypatch.chdir(program.parent)
    for first in (str(program.parent), ".", ""):
        monkeypatch.setenv("PATH", f"{first}{os.pathsep}{os.path.dirname(own)}")
        assert probe.program() == own
        assert workspace.run("echo ok") == "ok\nrc=0"


def test_a_bubblewrap_that_path_names_relatively_does_not_count(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = workspace.put("bin/bwrap", "#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(workspace.root)
    monkeypatch.setenv("PATH", "bin")
    with pytest.raises(UnsupportedError, match="not installed"):
        probe.program()


def test_what_a_command_leaves_running_ends_with_it(workspace: Workspace) -> None:
    workspace.run("(setsid sh -c 'sleep 1; touch late' >/dev/null 2>&1 &) ; true")
    with workspace.prepare():
        pass
    assert workspace.run("sleep 1.5; ls") == "rc=0"


@pytest.mark.parametrize("place", ["/usr/local/share", "/tmp", "/var/tmp", "/etc", "/dev/shm", "/opt"])
def test_a_workspace_may_lie_anywhere(place: str, workspace: Workspace) -> None:
    if not os.access(place, os.W_OK):
        pytest.skip(f"this user cannot write in {place}")
    root = Path(place, f"confined-{os.getpid()}", "work")
    root.mkdir(parents=True)
    there = Workspace(str(root), workspace.scratch)
    try:
        there.put("secret.txt")
        there.put("ok.txt", "fine")
        assert there.run("cat ok.txt secret.txt; echo x > new", there.denials("W/secret.txt")).startswith("fine")
        assert (root / "new").exists()
    finally:
        for path in sorted(root.parent.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        root.parent.rmdir()


def test_a_workspace_is_named_as_the_caller_s_links_lead(tmp_path: Path, workspace: Workspace) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace.root)
    through = Workspace(str(link), workspace.scratch)
    through.put("secret.txt")
    assert SECRET not in through.run("pwd; cat secret.txt", through.denials("W/secret.txt"))


@pytest.mark.parametrize("root", ["/", "/dev", "/proc", "/proc/self"])
def test_a_workspace_that_is_the_system_itself_is_refused(root: str, workspace: Workspace) -> None:
    fd = os.open("/", os.O_PATH)
    try:
        with pytest.raises(UnsupportedError, match="can be confined to"):
            confine.prepare(root_fd=fd, work_dir=root, masks=(), cwd=root, env={})
    finally:
        os.close(fd)


class TestExpose:
    def test_shows_a_host_path_read_only(self, workspace: Workspace) -> None:
        path = workspace.put("../shown/a.txt", "seen")
        printed = workspace.run(f"cat {path}; echo x > {path} || ls {path.parent.parent}", expose=[path.parent])
        assert printed.startswith("seen")
        assert path.read_text() == "seen"

    def test_shows_a_link_s_target_under_both_names(self, workspace: Workspace, tmp_path: Path) -> None:
        workspace.put("../shown/a.txt", "seen")
        (tmp_path / "alias").symlink_to("shown")
        printed = workspace.run(f"cat {tmp_path}/alias/a.txt {tmp_path}/shown/a.txt", expose=[tmp_path / "alias"])
        assert printed == "seenseenrc=0"

    def test_shows_a_single_file(self, workspace: Workspace) -> None:
        path = workspace.put("../one.txt", "seen")
        workspace.put("../two.txt")
        assert workspace.run(f"cat {path}; cat {path.parent}/two.txt 2>/dev/null", expose=[str(path)]) == "seenrc=1"

    def test_shows_what_lies_in_etc(self, workspace: Workspace) -> None:
        [*_, name] = (str(path) for path in Path("/etc").iterdir() if path.is_dir() and not path.is_symlink())
        printed = workspace.run(
            f"ls -d /etc/passwd; ls -A {name} | wc -l; head -c 5 /etc/group", expose=[name, "/etc/group"]
        )
        assert printed == f"/etc/passwd\n{len(os.listdir(name))}\n{Path('/etc/group').read_text()[:5]}rc=0"

    def test_may_hold_the_workspace(self, workspace: Workspace, tmp_path: Path) -> None:
        workspace.put("../beside.txt", "seen")
        assert workspace.run("cat ../beside.txt; echo x > made; echo x > ../made", expose=[tmp_path]).startswith("seen")
        assert Path(workspace.root, "made").exists()
        assert not (tmp_path / "made").exists()

    def test_of_a_missing_path_is_refused(self, workspace: Workspace, tmp_path: Path) -> None:
        with pytest.raises(PathNotFoundError, match="to expose"):
            workspace.run("true", expose=[tmp_path / "missing"])

    @pytest.mark.parametrize("path", ["/", "/proc", "/dev/sda", "/tmp", "/etc"])
    def test_of_what_is_made_for_commands_is_refused(self, path: str, workspace: Workspace) -> None:
        with pytest.raises(InvalidArgumentError, match="expose"):
            workspace.run("true", expose=[path])

    def test_through_the_workspace_is_refused(self, workspace: Workspace, tmp_path: Path) -> None:
        Path(workspace.root, "here").symlink_to("/")
        (tmp_path / "there").symlink_to("work/here")
        for path in (f"{workspace.root}/here", tmp_path / "there", tmp_path / "there" / "root"):
            with pytest.raises(PathEscapeError):
                workspace.run("true", expose=[path])

    def test_of_a_link_loop_is_refused(self, workspace: Workspace, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(PathNotFoundError):
            workspace.run("true", expose=[tmp_path / "loop"])


class TestOutside:
    def test_a_named_secret_is_hidden_wherever_it_is_shown(self, workspace: Workspace, tmp_path: Path) -> None:
        path = workspace.put("../shown/secret.txt")
        workspace.put("../shown/keys/a.txt")
        workspace.put("../shown/ok.txt", "fine")
        (tmp_path / "alias").symlink_to("shown")
        masks = Denials(secrets=(str(path), f"{tmp_path}/alias/keys"))
        line = f"cd {tmp_path}; cat shown/ok.txt alias/ok.txt; grep -r . shown alias; cat shown/*/a.txt"
        printed = workspace.run(line, masks, expose=[tmp_path / "alias"])
        assert printed.startswith("finefine")
        assert SECRET not in printed

    def test_what_lies_beneath_a_hidden_name_is_not_shown(self, workspace: Workspace, tmp_path: Path) -> None:
        workspace.put("../home/shown/secret.txt")
        masks = Denials(secrets=(f"{tmp_path}/home", "/nonexistent/secret"))
        assert SECRET not in workspace.run(f"cat {tmp_path}/home/*/*", masks, expose=[tmp_path / "home" / "shown"])

    def test_a_hidden_parent_leaves_the_workspace(self, workspace: Workspace, tmp_path: Path) -> None:
        inner = Workspace(f"{tmp_path}/shown/hidden/work", workspace.scratch)
        inner.put("../beside.txt")
        inner.put("ok.txt", "fine")
        masks = Denials(secrets=(f"{tmp_path}/shown/hidden",))
        printed = inner.run("cat ok.txt; cat ../beside.txt; ls ..", masks, expose=[tmp_path / "shown"])
        assert printed.startswith("fine")
        assert printed.endswith("work\nrc=0")
        assert SECRET not in printed

    def test_a_file_of_the_base_system_can_be_hidden(self, workspace: Workspace) -> None:
        assert "rc=126" in workspace.run(["/usr/bin/env"], Denials(secrets=("/usr/bin/env", "/proc/kcore")))
        assert "Permission denied" in workspace.run("cat /etc/services", Denials(secrets=("/etc/services",)))

    @pytest.mark.parametrize("name", ["/usr", "/bin", "/bin/sh", os.path.realpath("/bin/sh")])
    def test_what_hides_the_shell_is_refused_by_name(self, name: str, workspace: Workspace) -> None:
        with pytest.raises(UnsupportedError, match=f"hides {name} hides"):
            workspace.run("true", Denials(secrets=(name,)))


class TestLimits:
    def test_the_size_of_tmp_is_held(self, workspace: Workspace) -> None:
        line = "for d in /tmp /dev/shm /dev; do head -c 200000 /dev/zero > $d/big || echo full $d; done"
        printed = workspace.run(line, limits=Limits(tmpfs_size=65536))
        assert [part in printed for part in ("full /tmp\n", "full /dev/shm\n", "full /dev\n")] == [True] * 3

    @pytest.mark.parametrize("name", ["mem_limit", "cpus", "cpu_shares", "pids_limit"])
    def test_a_ceiling_that_cannot_be_held_is_refused_by_name(self, name: str, workspace: Workspace) -> None:
        with pytest.raises(UnsupportedError, match=name):
            workspace.run("true", limits=Limits(**{name: 1}))

    def test_no_ceiling_is_held_without_confinement(self) -> None:
        confine.check_limits(Limits(), "bubblewrap is not installed")
        with pytest.raises(UnsupportedError, match=r"tmpfs_size: bubblewrap is not installed"):
            confine.check_limits(Limits(tmpfs_size="1m"), "bubblewrap is not installed")


def test_a_nul_in_what_a_command_is_started_with_is_refused(workspace: Workspace) -> None:
    with pytest.raises(InvalidArgumentError):
        workspace.run("true", env={"A": "1\0--bind"})


def test_closing_lets_go_of_every_descriptor(workspace: Workspace) -> None:
    workspace.put("secret.txt")
    workspace.put("keep/a.txt")
    masks = workspace.denials("W/secret.txt", protect=("W/keep",))
    before = settled()
    for _ in range(3):
        prepared = workspace.prepare(masks)
        prepared.close()
        prepared.close()
    assert settled() <= before
