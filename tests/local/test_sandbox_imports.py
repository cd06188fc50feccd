"""What a command leaves in the workspace is never imported by the library, even where the host's program lies there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PROGRAM = """
import logging, pickle, sys
from pathlib import Path
from sandbox_kit import CommandTimeoutError, LocalSandbox, PermissionRuleset, PolicyError, SECRETS, SandboxError
from sandbox_kit import StateBackend, guarding

logging.basicConfig()
root = Path(__file__).parent
assert sys.path[0] == str(root)
box = guarding(LocalSandbox(root), SECRETS).start()
code = "import sys; open(sys.argv[1], 'a').write(__name__ + '\\\\n')"
names = set(sys.stdlib_module_names) | {"cattrs", "attr", "attrs", "exceptiongroup", "typing_extensions", "re2"}
for name in names - set(sys.modules) - set(sys.builtin_module_names):
    plant = f"open({str(root / 'marker')!r}, 'a').write({name!r} + chr(10))"
    assert box.execute(["/bin/sh", "-c", 'printf "%s" "$1" > "$2"', "sh", plant, f"{name}.py"]).ok

assert box.execute("echo out; echo err >&2; exit 3", stdin="in", env={"A": "b"}).exit_code == 3
assert not box.execute(["missing"]).ok
try:
    box.execute("sleep 30", timeout=0.2)
except CommandTimeoutError as error:
    pickle.loads(pickle.dumps(error))
with box.spawn("echo up; sleep 30") as process:
    next(iter(process.stdout))
    box.execute("true")
    box.usage()
    process.kill()
box.write("d/text", "line one\\nline two\\n")
box.write("d/text", box.open_read("d/text"))
box.edit("d/text", "one", "two")
box.read("d/text"), box.stat("d/text"), box.ls(), box.glob("d/*")
for options in ({"fixed": True}, {"ignore_case": True}, {"context": 1}, {}):
    list(box.grep("two", "d", **options))
list(box.grep("t[ow]+.*$", "d"))
box.export("d").read()
box.download("d", root.parent / "copy")
box.upload(root.parent / "copy", "again")
box.move("again", "moved")
box.remove("moved", recursive=True)
(root.parent / "rules.toml").write_text('default = "deny"\\n')
(root.parent / "rules.json").write_text('{"default": "what"}')
PermissionRuleset.from_file(root.parent / "rules.toml").to_dict()
bad = root.parent / "rules.json"
for call, name in (PermissionRuleset.from_file, bad), (box.read, "none"), (box.read, ".env"):
    try:
        call(name)
    except (PolicyError, SandboxError, OSError):
        logging.exception("expected")
StateBackend().write("a", "b")
pickle.loads(pickle.dumps(LocalSandbox(root)))
box.stop()
with LocalSandbox() as second:
    second.execute("true")
print("done")
"""


REPLACED = """
import os, sys
from pathlib import Path
from sandbox_kit import LocalSandbox
from sandbox_kit.backends.local import supervised

root = Path(__file__).parent
assert sys.executable == str(root / "python3")
with LocalSandbox(root) as box:
    plant = 'printf "#!/bin/sh\\necho > $PWD/marker\\n" > new && chmod +x new && mv new python3'
    assert box.execute(plant).ok
    supervised._pool.close()
    assert box.execute("true").ok
    with box.spawn("sleep 60"):
        assert box.execute("true").ok
print("done")
"""


def run(program: str, python: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run *program* as a file in *root*, which is so first in its path, by the interpreter *python*."""
    (root / "job.py").write_text(program)
    path = os.pathsep.join((str(Path(__file__).parents[2]), sysconfig.get_path("purelib")))
    return subprocess.run(
        [python, str(root / "job.py")],
        cwd=root,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.mark.needs("bwrap")
def test_a_link_to_the_interpreter_that_a_command_replaced_is_not_run(root: Path) -> None:
    link = root / "python3"
    link.symlink_to(os.path.realpath(sys.executable))
    done = run(REPLACED, str(link), root)
    assert done.stdout == "done\n", done.stderr[-4000:]
    assert not (root / "marker").exists()


@pytest.mark.needs("bwrap")
def test_no_module_that_a_command_left_is_imported(root: Path) -> None:
    done = run(PROGRAM, sys.executable, root)
    imported = (root / "marker").read_text() if (root / "marker").exists() else ""
    assert imported == "", done.stderr[-2000:]
    assert done.stdout == "done\n", done.stderr[-4000:]
