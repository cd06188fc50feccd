"""LocalSandbox without a root: the temporary one that it makes, and when that is removed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sandbox_kit.backends.local import LocalSandbox
from sandbox_kit.errors import SandboxClosedError, UnsupportedError
from sandbox_kit.types import Limits

from .processes import eventually
from .sandboxes import executing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands need a POSIX system")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary roots are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def run_python(code: str, *arguments: str, directory: Path) -> None:
    """Run *code* in a new interpreter whose temporary directory is *directory*."""
    environment = {**os.environ, "TMPDIR": str(directory)}
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, env=environment, timeout=60)


class TestTemporaryRoot:
    def test_is_made_at_the_start_and_not_before(self, temporary: Path) -> None:
        sandbox = LocalSandbox()
        assert sandbox.temporary
        assert repr(sandbox) == "LocalSandbox()"
        assert list(temporary.iterdir()) == []
        with pytest.raises(SandboxClosedError):
            sandbox.work_dir  # noqa: B018
        with sandbox:
            assert [str(path) for path in temporary.iterdir()] == [sandbox.work_dir]
            assert Path(sandbox.work_dir).stat().st_mode & 0o777 == 0o700

    def test_is_removed_on_leaving_with(self, temporary: Path) -> None:
        with LocalSandbox() as sandbox:
            sandbox.write("d/f", "x")
        assert list(temporary.iterdir()) == []

    def test_is_kept_by_stop_and_there_after_a_start(self, temporary: Path) -> None:
        sandbox = LocalSandbox().start()
        sandbox.write("d/f", "kept")
        place = sandbox.work_dir
        sandbox.stop()
        assert Path(place, "d/f").read_text() == "kept"
        assert sandbox.work_dir == place
        with sandbox:
            assert (sandbox.work_dir, sandbox.read("d/f")) == (place, "kept")

    def test_is_a_fresh_one_after_a_purge(self, temporary: Path) -> None:
        sandbox = LocalSandbox().start()
        sandbox.write("f", "old")
        sandbox.stop(purge=True)
        assert list(temporary.iterdir()) == []
        with sandbox:
            assert sandbox.ls() == []

    def test_is_removed_by_a_purge_after_a_stop(self, temporary: Path) -> None:
        sandbox = LocalSandbox().start()
        sandbox.stop()
        sandbox.stop(purge=True)
        assert list(temporary.iterdir()) == []

    @pytest.mark.parametrize("stopped", [False, True])
    def test_is_removed_when_the_sandbox_is_dropped(self, temporary: Path, stopped: bool) -> None:
        sandbox = LocalSandbox().start()
        sandbox.write("f", "x")
        if stopped:
            sandbox.stop()
        del sandbox
        gc.collect()
        assert list(temporary.iterdir()) == []

    def test_lives_as_long_as_a_process_in_it(self, temporary: Path) -> None:
        process = LocalSandbox().start().spawn("echo $HOME; sleep 60")
        gc.collect()
        assert [str(path) for path in temporary.iterdir()] == [next(process.stdout).rstrip("\n")]
        assert process.poll() is None
        del process
        gc.collect()
        assert eventually(lambda: list(temporary.iterdir()) == [])

    @pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "sandbox.spawn('sleep 60')"])
    def test_is_removed_at_exit(self, tmp_path: Path, ending: str) -> None:
        code = "from sandbox_kit import LocalSandbox; sandbox = LocalSandbox().start(); sandbox.write('d/f', 'x')"
        run_python(f"{code}; {ending}", directory=tmp_path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "ending", ["sys.exit()", "sandbox.stop(purge=True); os._exit(0)", "del sandbox; sys.exit()"]
    )
    def test_is_not_removed_in_a_forked_child(self, tmp_path: Path, ending: str) -> None:
        code = (
            "import os, sys\n"
            "from sandbox_kit import LocalSandbox\n"
            "with LocalSandbox() as sandbox:\n"
            "    sandbox.write('f', 'kept')\n"
            "    process = sandbox.spawn('sleep 60')\n"
            "    if (pid := os.fork()) == 0:\n"
            f"        {ending}\n"
            "    os.waitpid(pid, 0)\n"
            "    assert sandbox.read('f') == 'kept'\n"
            "    assert process.poll() is None\n"
            "    assert sandbox.execute('cat f').stdout == 'kept'\n"
        )
        run_python(code, directory=tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_is_removed_with_directories_that_are_closed(self, temporary: Path) -> None:
        with LocalSandbox() as sandbox:
            sandbox.execute("mkdir -p a/b c; touch a/b/f; ln -s / c/link; chmod 000 a/b; chmod 500 a c", check=True)
        assert list(temporary.iterdir()) == []

    def test_that_cannot_be_removed_is_logged(
        self, temporary: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def refuse(directory: str) -> None:
            raise PermissionError(13, "refused", directory)

        with LocalSandbox() as sandbox:
            place = sandbox.work_dir
            monkeypatch.setattr(os, "rmdir", refuse)
        assert [record.name for record in caplog.records] == ["sandbox_kit"]
        assert place in caplog.text

    def test_that_is_gone_is_no_error(self, temporary: Path, caplog: pytest.LogCaptureFixture) -> None:
        with LocalSandbox() as sandbox:
            Path(sandbox.work_dir).rmdir()
        assert caplog.records == []

    def test_a_forked_child_can_run_commands(self) -> None:
        with LocalSandbox() as sandbox, sandbox.spawn("sleep 60"):
            if (pid := os.fork()) == 0:
                code = sandbox.execute("exit 7", timeout=20).exit_code
                os._exit(code if code is not None else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

    def test_is_removed_with_what_a_running_command_writes(self, temporary: Path) -> None:
        sandbox = LocalSandbox().start()
        loop = "echo on; i=0; while :; do i=$((i+1)); mkdir -p d$((i%50)); echo x > d$((i%50))/$i; done"
        with executing(sandbox, loop):
            sandbox.stop(purge=True)
        assert list(temporary.iterdir()) == []

    def test_is_not_made_by_a_start_that_is_refused(self, temporary: Path) -> None:
        with pytest.raises(UnsupportedError):
            LocalSandbox(limits=Limits(mem_limit="1g")).start()
        assert list(temporary.iterdir()) == []


class TestLeftovers:
    """Temporary roots of processes that were killed."""

    @pytest.mark.skipif(sys.platform != "linux", reason="which processes live is told by /proc")
    def test_are_removed_by_the_next_process(self, temporary: Path) -> None:
        (temporary / "sandbox-kit-other").mkdir()
        code = (
            "import os, signal; from sandbox_kit import LocalSandbox\n"
            "box = LocalSandbox().start(); box.write('d/f', 'x'); os.chmod(box.work_dir + '/d', 0)\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        with pytest.raises(subprocess.CalledProcessError):
            run_python(code, directory=temporary)
        assert len(list(temporary.iterdir())) == 2
        with LocalSandbox() as living:
            run_python("from sandbox_kit import LocalSandbox\nwith LocalSandbox(): pass", directory=temporary)
            assert {path.name for path in temporary.iterdir()} == {"sandbox-kit-other", Path(living.work_dir).name}
