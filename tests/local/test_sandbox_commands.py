"""What the commands of LocalSandbox are held to: its options, the kernel's confinement, each other's masks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox_kit.backends.local import LocalSandbox, probe
from sandbox_kit.backends.local.relay import RelayedSandbox
from sandbox_kit.errors import (
    ApprovalRequiredError,
    CommandTimeoutError,
    InvalidArgumentError,
    PathEscapeError,
    PathNotFoundError,
    PermissionDeniedError,
    SandboxClosedError,
    SandboxTimeoutError,
    SandboxUnavailableError,
    UnsupportedError,
)
from sandbox_kit.guard import guarding
from sandbox_kit.rules.ruleset import OperationPermissions, PermissionRule, PermissionRuleset
from sandbox_kit.types import Limits

from .sandboxes import denying

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need a POSIX system")
confined = pytest.mark.needs("bwrap")

READ_SECRET = 'cat "$NAME"; cat other'
REASON = "nothing confines commands in this test"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "f").write_text("text\n")
    return root


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where nothing confines commands."""
    monkeypatch.setattr(probe, "can_confine", lambda: REASON)


class TestOptions:
    def test_user_may_be_the_one_that_commands_run_as(self, root: Path) -> None:
        own = os.geteuid()
        with LocalSandbox(root) as sandbox:
            assert sandbox.execute("id -u", user=own).stdout == f"{own}\n"
            assert sandbox.execute("id -u", user=user_name(own)).stdout == f"{own}\n"
            for other in (own + 1, "no-such-user-anywhere", str(own)):
                with pytest.raises(UnsupportedError, match="user"):
                    sandbox.execute("touch ran", user=other)
            assert not sandbox.exists("ran")

    def test_cwd_through_a_link_stays_beneath_the_root(self, root: Path, tmp_path: Path) -> None:
        (root / "d").mkdir()
        (root / "in").symlink_to("d")
        (root / "out").symlink_to(tmp_path)
        with LocalSandbox(root) as sandbox:
            assert sandbox.execute("pwd -P", cwd="in").stdout == f"{root}/d\n"
            for cwd in ("out", "..", "/", str(tmp_path)):
                with pytest.raises(PathEscapeError):
                    sandbox.execute("touch ran", cwd=cwd)

    def test_cwd_is_judged_as_a_listing(self, root: Path) -> None:
        (root / "d").mkdir()
        (root / "link").symlink_to("d")
        rules = PermissionRuleset(ls=OperationPermissions(rules=(PermissionRule("d/**", "deny"),)))
        with guarding(LocalSandbox(root), rules, commands="inspected") as sandbox:
            for cwd in ("d", "link"):
                with pytest.raises(PermissionDeniedError) as caught:
                    sandbox.execute("touch ran", cwd=cwd)
                assert caught.value.operation == "ls"
            assert sandbox.execute("pwd").stdout == f"{root}\n"

    def test_the_default_time_limit_must_be_one(self) -> None:
        for limit in (0, -1, float("nan")):
            with pytest.raises(InvalidArgumentError, match="default_timeout"):
                LocalSandbox(default_timeout=limit)

    @pytest.mark.parametrize("expose", ["/opt", b"/opt", None, 7, {"/opt"}, ["/a\0b"], [b"/opt"], [7], [""]], ids=repr)
    def test_expose_must_be_paths(self, expose: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="expose"):
            LocalSandbox(expose=expose)

    @pytest.mark.parametrize(
        "option", [{"limits": {"mem_limit": 1}}, {"limits": 1}, {"network": "off"}, {"network": 0}]
    )
    def test_an_option_of_another_type_is_refused_at_once(self, option: dict[str, Any]) -> None:
        [name] = option
        with pytest.raises(InvalidArgumentError, match=name):
            LocalSandbox(**option)

    @pytest.mark.parametrize(
        "limits", [Limits(mem_limit="512m"), Limits(cpus=1), Limits(pids_limit=10)], ids=["mem_limit", "cpus", "pids"]
    )
    def test_a_ceiling_that_cannot_be_held_is_refused_at_the_start(self, root: Path, limits: Limits) -> None:
        sandbox = LocalSandbox(root, limits=limits)
        with pytest.raises(UnsupportedError, match=r"mem_limit|cpus|pids_limit"):
            sandbox.start()
        assert not sandbox.is_alive()


@pytest.mark.usefixtures("unconfined")
class TestUnconfined:
    def test_capabilities_say_so(self, root: Path) -> None:
        found = LocalSandbox(root).capabilities
        assert (found.commands, found.channel, found.network_off, found.spawn) == ("inspected", "shared", False, True)

    def test_commands_run_as_plain_processes(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "beside").write_text("seen\n")
        with LocalSandbox(root) as sandbox:
            assert sandbox.execute("cat ../beside").stdout == "seen\n"

    def test_no_network_is_refused_at_the_start(self, root: Path) -> None:
        with pytest.raises(UnsupportedError, match=f"network=False.*{REASON}"):
            LocalSandbox(root, network=False).start()

    def test_a_size_of_temporary_file_systems_is_refused_at_the_start(self, root: Path) -> None:
        with pytest.raises(UnsupportedError, match="tmpfs_size"):
            LocalSandbox(root, limits=Limits(tmpfs_size="1m")).start()


@confined
class TestConfined:
    def test_capabilities_say_so(self, root: Path) -> None:
        found = LocalSandbox(root).capabilities
        assert (found.commands, found.channel, found.network_off) == ("confined", "isolated", True)
        assert (found.users, found.spawn, found.symlinks) == (False, True, True)

    def test_commands_see_nothing_beside_the_root_but_what_is_exposed(self, root: Path, tmp_path: Path) -> None:
        for name in ("hidden", "shown"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "f").write_text(f"{name}\n")
        with LocalSandbox(root, expose=[tmp_path / "shown"]) as sandbox:
            assert sandbox.execute("cat ../hidden/f").exit_code == 1
            assert sandbox.execute("cat ../shown/f").stdout == "shown\n"
            assert sandbox.execute("echo x > ../shown/f").exit_code != 0
        assert (tmp_path / "shown/f").read_text() == "shown\n"

    @pytest.mark.parametrize("network", [None, False])
    def test_commands_are_off_the_network(self, root: Path, network: bool | None) -> None:
        with LocalSandbox(root, network=network) as sandbox:
            own = sandbox.execute("readlink /proc/self/ns/net", check=True).stdout
            assert own.strip() != os.readlink("/proc/self/ns/net")

    def test_commands_are_on_the_network_if_asked(self, root: Path) -> None:
        with LocalSandbox(root, network=True) as sandbox:
            own = sandbox.execute("readlink /proc/self/ns/net", check=True).stdout
            assert own.strip() == os.readlink("/proc/self/ns/net")

    def test_what_only_the_kernel_can_hold_is_refused_for_a_command_without_it(self, root: Path) -> None:
        for options in ({"network": False}, {"limits": Limits(tmpfs_size="1m")}):
            with guarding(LocalSandbox(root, **options), PermissionRuleset(), commands="inspected") as sandbox:
                with pytest.raises(UnsupportedError, match=r"network=False|tmpfs_size"):
                    sandbox.execute("touch ran")
                assert not sandbox.exists("ran")

    def test_masks_are_refused_once_nothing_can_hold_them(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with LocalSandbox(root) as sandbox:
            asking = guarding(sandbox, denying("**/.env"))
            confined_alone = guarding(sandbox, denying("**/.env"), commands="confined")
            monkeypatch.setattr(probe, "can_confine", lambda: REASON)
            with pytest.raises(UnsupportedError, match="commands='confined'"):
                confined_alone.execute("touch ran")
            with pytest.raises(ApprovalRequiredError):
                asking.execute("touch ran")
            assert not sandbox.exists("ran")

    def test_temporary_file_systems_are_held_to_their_size(self, root: Path) -> None:
        with LocalSandbox(root, limits=Limits(tmpfs_size="1m")) as sandbox:
            assert sandbox.execute("head -c 500000 /dev/zero > /tmp/f").ok
            assert not sandbox.execute("head -c 5000000 /dev/zero > /tmp/f").ok

    def test_an_exposed_path_that_is_missing_is_an_error(self, root: Path) -> None:
        with LocalSandbox(root, expose=["/no/such/path"]) as sandbox, pytest.raises(PathNotFoundError):
            sandbox.execute("true")


@confined
class TestRootsThatNothingCanBeConfinedTo:
    @pytest.mark.parametrize("root", ["/", "/proc/self"])
    def test_are_told_of_beforehand(self, root: str) -> None:
        found = LocalSandbox(root).capabilities
        assert (found.commands, found.channel, found.network_off) == ("inspected", "shared", False)
        with pytest.raises(UnsupportedError):
            guarding(LocalSandbox(root), denying("**/.env"), commands="confined")
        with pytest.raises(UnsupportedError, match="network=False"):
            LocalSandbox(root, network=False).start()

    def test_run_commands_as_plain_processes(self) -> None:
        with LocalSandbox("/") as sandbox:
            assert sandbox.execute("pwd").stdout == "/\n"

    def test_are_refused_at_the_start_if_commands_could_replace_what_confines_them(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with LocalSandbox(root) as sandbox:
            sandbox.execute("mkdir bin; printf '#!/bin/sh' > bin/bwrap; chmod +x bin/bwrap", check=True)
            monkeypatch.setenv("PATH", f"{root}/bin")
            with pytest.raises(UnsupportedError, match="lies in the workspace"):
                sandbox.execute("true")
        with pytest.raises(UnsupportedError, match="lies in the workspace"):
            sandbox.start()

    @confined
    def test_are_refused_at_the_start_if_they_hold_the_library_s_own_directory(self) -> None:
        with pytest.raises(UnsupportedError, match="use a directory beneath /tmp"):
            LocalSandbox("/tmp").start()


class TestSize:
    """What the kernel cannot start a program with is an error of the caller's, never a result."""

    @pytest.mark.parametrize(
        ("command", "env"),
        [
            ("true", {"A": "x" * 200_000}),
            (["true", "x" * 200_000], {}),
            ("true #" + "x" * 200_000, {}),
            (["true", *["x" * 100_000] * 100], {}),
        ],
        ids=["variable", "word", "line", "all together"],
    )
    @pytest.mark.parametrize("kind", [LocalSandbox, RelayedSandbox])
    def test_of_what_is_too_long(
        self, root: Path, kind: type[LocalSandbox], command: str | list[str], env: dict[str, str]
    ) -> None:
        with kind(root) as sandbox:
            for call in (sandbox.execute, sandbox.spawn):
                with pytest.raises(InvalidArgumentError, match="can be passed"):
                    call(command, env=env)

    def test_of_what_just_fits(self, root: Path) -> None:
        words = [*["x" * 131_071] * 12]
        with LocalSandbox(root) as sandbox:
            assert sandbox.execute(["/bin/sh", "-c", "echo $#", "sh", *words], check=True).stdout == "12\n"


class TestPath:
    """Commands find this Python, confined or not."""

    @pytest.fixture(params=[True, pytest.param(False, marks=confined)], ids=["plain", "confined"])
    def sandbox(self, request: pytest.FixtureRequest, root: Path) -> Iterator[LocalSandbox]:
        if request.param:
            request.getfixturevalue("unconfined")
        with LocalSandbox(root) as sandbox:
            yield sandbox

    def test_python_is_the_one_that_runs_this(self, sandbox: LocalSandbox) -> None:
        name = Path(sys.executable).name
        printed = sandbox.execute([name, "-c", "import attrs, sys; print(sys.prefix)"], check=True).stdout
        assert printed == f"{sys.prefix}\n"


@confined
class TestLauncher:
    """What stands between the host and a confined command."""

    @pytest.fixture
    def launcher(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A program in the place of bubblewrap; the test writes it."""
        program = tmp_path / "launcher"
        program.touch(mode=0o755)
        monkeypatch.setattr(probe, "program", lambda: str(program))
        return program

    def test_that_fails_is_not_taken_for_a_command_that_fails(self, root: Path, launcher: Path) -> None:
        launcher.write_text("#!/bin/sh\necho 'launcher: no room' >&2\nexit 1\n")
        with LocalSandbox(root) as sandbox:
            with pytest.raises(SandboxUnavailableError, match="could not be confined: launcher: no room"):
                sandbox.execute("true")
            with pytest.raises(SandboxUnavailableError, match="could not be confined"):
                sandbox.execute("true", check=True)

    def test_that_fails_is_told_of_where_output_is_passed_on(
        self, root: Path, launcher: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        launcher.write_text("#!/bin/sh\necho 'launcher: no room' >&2\nexit 1\n")
        with (
            RelayedSandbox(root) as sandbox,
            pytest.raises(SandboxUnavailableError, match="could not be confined: launcher: no room"),
        ):
            sandbox.execute("true")
        assert capfd.readouterr().err == "launcher: no room\n"

    def test_that_fails_is_told_of_by_a_process(self, root: Path, launcher: Path) -> None:
        launcher.write_text("#!/bin/sh\necho 'launcher: no room' >&2\nexit 1\n")
        with LocalSandbox(root) as sandbox, sandbox.spawn("true") as process:
            for ask in (process.wait, process.poll, process.wait):
                with pytest.raises(SandboxUnavailableError, match="could not be confined: launcher: no room"):
                    ask()
            assert list(process.stderr) == ["launcher: no room\n"]

    def test_is_no_matter_where_a_process_is_killed(self, root: Path) -> None:
        with LocalSandbox(root) as sandbox, sandbox.spawn("sleep 60") as process:
            process.kill()
            assert process.wait(30) == 137

    def test_starts_outside_of_the_workspace(self, root: Path, launcher: Path) -> None:
        launcher.write_text("#!/bin/sh\npwd -P\n")
        (root / "d").mkdir()
        with LocalSandbox(root) as sandbox:
            assert sandbox.execute("true", cwd="d").stdout == "/\n"
            with sandbox.spawn("true", cwd="d") as process:
                assert list(process.stdout) == ["/\n"]

    def test_is_no_matter_where_a_command_fails_by_itself(self, root: Path) -> None:
        with LocalSandbox(root) as sandbox:
            assert [sandbox.execute(line).exit_code for line in ("exit 1", "kill -9 $$", "exit 255")] == [1, 137, 255]


@confined
class TestMaskedCommandsThatOverlap:
    @pytest.fixture
    def sandbox(self, root: Path) -> Iterator[LocalSandbox]:
        (root / ".env").write_text("SECRET\n")
        (root / "other").write_text("OTHER\n")
        with LocalSandbox(root) as sandbox:
            yield sandbox

    def test_share_what_is_hidden_under_the_same_rules(self, sandbox: LocalSandbox) -> None:
        guarded = guarding(sandbox, denying("**/.env"))
        with guarded.spawn("echo on; sleep 60") as process:
            assert next(process.stdout) == "on\n"
            result = guarded.execute(READ_SECRET, env={"NAME": ".env"}, timeout=30)
            assert "SECRET" not in result.output
            assert result.stdout == "OTHER\n"

    def test_wait_for_each_other_under_other_rules(self, sandbox: LocalSandbox) -> None:
        one, two = guarding(sandbox, denying("**/.env")), guarding(sandbox, denying("other"))
        with one.spawn("echo on; sleep 60") as process:
            assert next(process.stdout) == "on\n"
            with pytest.raises(SandboxTimeoutError):
                two.execute("true", timeout=0.2)
        assert two.execute("cat .env", timeout=30).stdout == "SECRET\n"

    @pytest.mark.parametrize("ending", ["exit", "kill", "drop", "stop"])
    def test_a_process_holds_the_workspace_until_its_tree_is_dead(self, sandbox: LocalSandbox, ending: str) -> None:
        one, two = guarding(sandbox, denying("**/.env")), guarding(sandbox, denying("other"))
        process = one.spawn("echo on; read x; exit 3", stdin=subprocess.PIPE)
        assert next(process.stdout) == "on\n"
        if ending == "exit":
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 3
        elif ending == "kill":
            process.kill()
        elif ending == "stop":
            sandbox.stop()
            sandbox.start()
        del process
        gc.collect()
        assert two.execute("cat .env", timeout=30).stdout == "SECRET\n"

    @pytest.mark.parametrize("call", ["execute", "spawn"])
    def test_stop_ends_the_wait(self, sandbox: LocalSandbox, root: Path, call: str) -> None:
        waiting = LocalSandbox(root)
        one, two = guarding(sandbox, denying("**/.env")), guarding(waiting, denying("other"))
        with one.spawn("echo on; sleep 60") as process, two, ThreadPoolExecutor() as pool:
            assert next(process.stdout) == "on\n"
            result = pool.submit(getattr(two, call), "true")
            with pytest.raises(TimeoutError):
                result.result(0.3)
            waiting.stop()
            with pytest.raises(SandboxClosedError):
                result.result(30)

    def test_waiting_counts_towards_the_time_limit(self, sandbox: LocalSandbox) -> None:
        one, two = guarding(sandbox, denying("**/.env")), guarding(sandbox, denying("other"))
        with one.spawn("echo on; sleep 1.5") as process:
            assert next(process.stdout) == "on\n"
            with pytest.raises(CommandTimeoutError) as caught:
                two.execute("sleep 1.5", timeout=2)
        assert caught.value.result.duration < 3
        assert caught.value.timeout == 2

    def test_of_two_sandboxes_on_one_root_share_it_too(self, sandbox: LocalSandbox, root: Path) -> None:
        one = guarding(sandbox, denying("**/.env"))
        with guarding(LocalSandbox(root), denying("**/.env")) as two, one.spawn("echo on; sleep 60") as process:
            assert next(process.stdout) == "on\n"
            result = two.execute(READ_SECRET, env={"NAME": ".env"}, timeout=30)
            assert "SECRET" not in result.output
            assert result.stdout == "OTHER\n"


def user_name(uid: int) -> str:
    import pwd

    return pwd.getpwuid(uid).pw_name
