"""The program as a whole: help, exit codes, what it loads, and the public names of the package."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import sandbox_kit
from sandbox_kit.cli import main

from .programs import PROGRAM, environment, kit, started

COMMANDS = ("run", "ls", "cat", "grep", "check", "rules", "doctor")
PUBLIC = ("contract", "errors", "types", "guard", "rules.checker", "rules.presets", "rules.ruleset")
HEAVY = {"cattrs", "sandbox_kit.guard", "sandbox_kit.rules.presets", "sandbox_kit.backends"}


def loaded_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after *code*, which prints nothing."""
    script = f"import json, sys\n{code}\njson.dump(list(sys.modules), sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, timeout=60, check=True
    )
    return set(json.loads(done.stderr))


def test_help_names_every_command_and_exit_code() -> None:
    done = kit("--help")
    assert done.returncode == 0
    assert all(f"\n    {command} " in done.stdout.decode() for command in COMMANDS)
    assert all(f"\n  {code} " in done.stdout.decode() for code in (0, 1, 2, 124, 125, 126, 130, 141))


@pytest.mark.parametrize("command", [["run"], ["check"], ["grep"], ["rules", "show"], ["doctor"]])
def test_every_command_has_help_and_json(command: list[str]) -> None:
    done = kit(*command, "--help")
    assert done.returncode == 0
    assert b"--json" in done.stdout
    assert b"exit codes:" in done.stdout


def test_help_loads_nothing_heavy() -> None:
    code = "from sandbox_kit.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert not loaded_after(code) & HEAVY


def test_a_listing_loads_no_cattrs() -> None:
    assert "cattrs" not in loaded_after("from sandbox_kit.cli import main\nmain(['ls', '--json'])")


@pytest.mark.parametrize("arguments", [[], ["bogus"], ["ls", "--bogus"], ["ls", "--roo", "."], ["rules"]])
def test_arguments_that_make_no_sense_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("sandbox-kit: ")
    assert printed.err.count("\n") == 1


def test_an_error_that_nobody_foresaw_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("first\nsecond")

    monkeypatch.setattr("sandbox_kit.contract.Backend.ls", fail)
    assert main(["ls", "--root", str(tmp_path)]) == 125
    assert capsys.readouterr() == ("", "sandbox-kit: first\\nsecond\n")


def test_output_that_finds_no_room_is_an_error(project: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = kit("ls", "--root", str(project), capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 125
    assert done.stderr.startswith(b"sandbox-kit: ")
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_without_an_output_nothing_is_done(project: Path, closed: str) -> None:
    script = f'exec "$@" {closed}'
    command = ["sh", "-c", script, "sh", *PROGRAM, "run", "--root", str(project), "--", "touch", "made"]
    assert subprocess.run(command, env=environment(), timeout=60, check=False).returncode == 125
    assert not (project / "made").exists()


def test_a_reader_that_leaves_is_no_error(project: Path) -> None:
    (project / "long").write_text("line\n" * 100_000)
    with started("cat", "--root", str(project), "long") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(30), process.stderr.read()) == (141, b"")


@pytest.mark.parametrize("name", sandbox_kit.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(sandbox_kit, name) is not None
    assert name in dir(sandbox_kit)


@pytest.mark.parametrize(
    "module", ["contract", "errors", "types", "guard", "rules.checker", "rules.presets", "rules.ruleset"]
)
def test_what_a_module_makes_public_the_package_has_too(module: str) -> None:
    public = importlib.import_module(f"sandbox_kit.{module}")
    assert {name: getattr(sandbox_kit, name, None) for name in public.__all__} == {
        name: getattr(public, name) for name in public.__all__
    }


def test_nothing_else_is_listed() -> None:
    assert dir(sandbox_kit) == sorted(sandbox_kit.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'sandbox_kit' has no attribute 'bogus'"):
        vars(sandbox_kit)["__getattr__"]("bogus")


def test_importing_the_package_alone_loads_no_rules_and_no_backend() -> None:
    loaded = loaded_after("import sandbox_kit")
    assert "sandbox_kit.contract" in loaded
    assert not loaded & {"cattrs", "sandbox_kit.guard", "sandbox_kit.rules.presets", "sandbox_kit.backends.local"}


def test_importing_everything_loads_no_cattrs() -> None:
    loaded = loaded_after("from sandbox_kit import *")
    assert {"sandbox_kit.guard", "sandbox_kit.rules.presets", "sandbox_kit.backends.local"} <= loaded
    assert "cattrs" not in loaded
